//! Which of the gateway's own tools a request may come to use, so that only the servers of these are asked.

use std::collections::HashSet;

use super::profile::Profile;
use super::{Caller, Parts, mcp, search};
use crate::protocol::item::Item;
use crate::protocol::request::CreateResponse;
use crate::protocol::tool::{McpAllowedTools, McpToolFilter, Tool};
use crate::tools::mcp::CallerCatalog;

/// The gateway's own tools for this request.
pub(super) async fn catalog(
    parts: &Parts,
    request: &CreateResponse,
    input: &[Item],
    caller: &Caller,
    agent: Option<Profile<'_>>,
) -> CallerCatalog {
    if !parts.mcp.has_routes() {
        return CallerCatalog::plain(parts.toolbox.catalog());
    }
    let more = input.iter().filter_map(|item| match item {
        Item::AdditionalTools(more) => Some(&more.tools),
        _ => None,
    });
    let mut wanted = Wanted::default();
    request.tools.iter().chain(more.flatten()).for_each(|tool| wanted.add(tool));
    wanted.names.extend(agent.iter().flat_map(|agent| &agent.settings.tools).map(String::as_str));
    let wanting = mcp::wanting(caller, request);
    let is_wanted = |name: &str| wanted.all || wanted.names.contains(name);
    parts.mcp.catalog(&parts.toolbox, wanting, agent.map(|agent| agent.name), is_wanted).await
}

/// The tools that a request asks for.
#[derive(Default)]
struct Wanted<'a> {
    all: bool,
    names: HashSet<&'a str>,
}

impl<'a> Wanted<'a> {
    fn add(&mut self, tool: &'a Tool) {
        match tool {
            Tool::Server(named) => _ = self.names.insert(named.name()),
            Tool::WebSearch(_) | Tool::WebSearchPreview(_) => _ = self.names.insert(search::TOOL),
            Tool::Mcp(own) if mcp::is_own(own) => match &own.allowed_tools {
                Some(
                    McpAllowedTools::Names(names)
                    | McpAllowedTools::Filter(McpToolFilter { tool_names: Some(names), .. }),
                ) => self.names.extend(names.iter().map(String::as_str)),
                _ => self.all = true,
            },
            _ => {}
        }
    }
}
