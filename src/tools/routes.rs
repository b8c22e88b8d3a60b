//! Whether routes can work: looked at once, at the start, as far as the executors have answered by then.

use super::assemble::Listing;
use super::toolbox::ToolboxError;
use crate::config::{RouteSettings, ToolsSettings, mcp_label};

/// What is known of one executor of a route at the start.
enum Known<'a> {
    /// It has not answered.
    Nothing,
    /// It has no such tool.
    Lacks,
    /// It has the tool, with these tags.
    Has(Vec<&'a str>),
}

/// # Errors
/// With the key of the first route that could never be used.
pub(super) fn check(settings: &ToolsSettings, listings: &[Listing]) -> Result<(), ToolboxError> {
    settings.routes.iter().try_for_each(|(tool, route)| {
        one(settings, tool, route, listings).map_err(|(key, problem)| {
            let key = format!("tools.routes.{tool}{key}");
            ToolboxError::Route { key, problem }
        })
    })
}

fn one(
    settings: &ToolsSettings,
    tool: &str,
    route: &RouteSettings,
    listings: &[Listing],
) -> Result<(), (String, String)> {
    let mut all = Vec::new();
    for (place, id) in route.executors.iter().enumerate() {
        let wrong = |problem: String| Err((format!(".executors[{place}]"), problem));
        match (listings.iter().find(|listing| *listing.id == **id), mcp_label(id)) {
            (None, Some(label)) => all.push(Known::Has(tags_of_server(settings, id, label, tool))),
            (None, None) => return wrong(format!("there is no executor `{id}`")),
            (Some(listing), _) => match local(listing, tool) {
                Known::Lacks => return wrong(format!("`{id}` has no tool `{tool}`")),
                known => all.push(known),
            },
        }
    }
    if route.executors.is_empty() {
        all.extend(listings.iter().map(|listing| local(listing, tool)));
        if all.iter().all(|known| matches!(known, Known::Lacks)) {
            return Err((String::new(), "no executor has a tool of this name".into()));
        }
    }
    check_tags(route, &all).map_err(|problem| (".require".into(), problem))
}

fn check_tags(route: &RouteSettings, all: &[Known<'_>]) -> Result<(), String> {
    let mut tags = Vec::new();
    for known in all {
        match known {
            // It may have them all.
            Known::Nothing => return Ok(()),
            Known::Lacks => {}
            Known::Has(own) if route.require.iter().all(|tag| own.contains(&tag.as_str())) => return Ok(()),
            Known::Has(own) => tags.extend(own),
        }
    }
    Err(match route.require.iter().find(|tag| !tags.contains(&tag.as_str())) {
        Some(tag) => format!("no executor of the route has the tool with the tag `{tag}`"),
        None => "no executor of the route has the tool with all of these tags".into(),
    })
}

fn local<'a>(listing: &'a Listing, tool: &str) -> Known<'a> {
    match listing.tools.iter().find(|own| own.name == tool) {
        Some(own) => Known::Has(own.tags.iter().map(String::as_str).collect()),
        None if listing.is_known => Known::Lacks,
        None => Known::Nothing,
    }
}

/// A server has the tags that the configuration gives it; which tools it has is not known before it is asked.
fn tags_of_server<'a>(settings: &'a ToolsSettings, id: &str, label: &str, tool: &str) -> Vec<&'a str> {
    let of_executor = settings.executors.get(id).map_or(&[][..], |of| &of.tags);
    let of_tool = settings.overrides.get(&format!("{label}__{tool}")).map_or(&[][..], |of| &of.tags);
    // Servers at a URL have it, programs do not: that is looked at when they are asked.
    of_executor.iter().chain(of_tool).map(String::as_str).chain(["net"]).collect()
}
