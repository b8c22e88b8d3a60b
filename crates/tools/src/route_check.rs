//! Startup validation of `tools.routes` against the tools that the executors have listed so far.

use super::catalog_builder::ExecutorListing;
use super::registry_error::ToolRegistryError;
use antwort_config::{RouteSettings, ToolsSettings, mcp_label};

/// Whether one executor of a route has the tool, as known at startup.
enum ToolPresence<'a> {
    /// The executor has not listed its tools yet.
    Unknown,
    /// The executor has no such tool.
    Missing,
    /// The executor has the tool, with these tags.
    Present(Vec<&'a str>),
}

/// # Errors
/// Names the key of the first route that can never be used.
pub(super) fn check(settings: &ToolsSettings, listings: &[ExecutorListing]) -> Result<(), ToolRegistryError> {
    settings.routes.iter().try_for_each(|(tool, route)| {
        check_route(settings, tool, route, listings).map_err(|(key, problem)| {
            let key = format!("tools.routes.{tool}{key}");
            ToolRegistryError::Route { key, problem }
        })
    })
}

fn check_route(
    settings: &ToolsSettings,
    tool: &str,
    route: &RouteSettings,
    listings: &[ExecutorListing],
) -> Result<(), (String, String)> {
    let mut all = Vec::new();
    for (place, id) in route.executors.iter().enumerate() {
        let wrong = |problem: String| Err((format!(".executors[{place}]"), problem));
        match (listings.iter().find(|listing| *listing.id == **id), mcp_label(id)) {
            (None, Some(label)) => all.push(ToolPresence::Present(tags_of_server(settings, id, label, tool))),
            (None, None) => return wrong(format!("unknown executor `{id}`")),
            (Some(listing), _) => match tool_presence(listing, tool) {
                ToolPresence::Missing => return wrong(format!("`{id}` has no tool `{tool}`")),
                known => all.push(known),
            },
        }
    }
    if route.executors.is_empty() {
        all.extend(listings.iter().map(|listing| tool_presence(listing, tool)));
        if all.iter().all(|known| matches!(known, ToolPresence::Missing)) {
            return Err((String::new(), "no executor has a tool of this name".into()));
        }
    }
    check_tags(route, &all).map_err(|problem| (".require".into(), problem))
}

fn check_tags(route: &RouteSettings, all: &[ToolPresence<'_>]) -> Result<(), String> {
    let mut tags = Vec::new();
    for known in all {
        match known {
            // Not listed yet: it may have all required tags.
            ToolPresence::Unknown => return Ok(()),
            ToolPresence::Missing => {}
            ToolPresence::Present(own) if route.require.iter().all(|tag| own.contains(&tag.as_str())) => {
                return Ok(());
            }
            ToolPresence::Present(own) => tags.extend(own),
        }
    }
    Err(match route.require.iter().find(|tag| !tags.contains(&tag.as_str())) {
        Some(tag) => format!("no executor of the route has the tool with the tag `{tag}`"),
        None => "no executor of the route has the tool with all of these tags".into(),
    })
}

fn tool_presence<'a>(listing: &'a ExecutorListing, tool: &str) -> ToolPresence<'a> {
    match listing.tools.iter().find(|own| own.name == tool) {
        Some(own) => ToolPresence::Present(own.tags.iter().map(String::as_str).collect()),
        None if listing.has_listed => ToolPresence::Missing,
        None => ToolPresence::Unknown,
    }
}

/// Tags of an MCP server come from the configuration alone: its tools are not known before it is listed.
fn tags_of_server<'a>(settings: &'a ToolsSettings, id: &str, label: &str, tool: &str) -> Vec<&'a str> {
    let of_executor = settings.executors.get(id).map_or(&[][..], |of| &of.tags);
    let of_tool = settings.overrides.get(&format!("{label}__{tool}")).map_or(&[][..], |of| &of.tags);
    // HTTP servers have `net`, stdio servers do not; which of them this is, is checked when its tools are listed.
    of_executor.iter().chain(of_tool).map(String::as_str).chain(["net"]).collect()
}
