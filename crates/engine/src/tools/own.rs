//! The gateway's own tools that a request asks for, so that only the MCP servers behind these are contacted.

use std::collections::HashSet;

use super::hosted;
use crate::context::EngineParts;
use crate::profile::AgentProfile;
use antwort_mcp::{CallerCatalog, McpCaller, ResolvedServer, ServerHandle};
use antwort_protocol::item::Item;
use antwort_protocol::request::CreateResponse;
use antwort_protocol::tool::{BUILTIN_SERVER_LABEL, McpAllowedTools, McpTool, McpToolFilter, Tool};

/// The names of the own tools that a request asks for.
#[derive(Default)]
pub(crate) struct RequestedOwnTools<'a> {
    all: bool,
    names: HashSet<&'a str>,
}

/// These names, and handles of the MCP servers that run some of them.
pub(crate) struct Bound<'a> {
    pub requested: RequestedOwnTools<'a>,
    pub servers: Vec<ServerHandle>,
}

impl<'a> RequestedOwnTools<'a> {
    /// Those of the request, its input and its agent profile; empty if no MCP server runs any of the gateway's own
    /// tools.
    pub(crate) fn from_request(
        parts: &EngineParts,
        request: &'a CreateResponse,
        input: &'a [Item],
        agent: Option<AgentProfile<'a>>,
    ) -> Self {
        let mut requested = Self::default();
        if !parts.mcp.has_routes() {
            return requested;
        }
        let more = input.iter().filter_map(|item| match item {
            Item::AdditionalTools(more) => Some(&more.tools),
            _ => None,
        });
        request.tools.iter().chain(more.flatten()).for_each(|tool| requested.add(tool));
        let of_agent = agent.map(|agent| &agent.settings.tools);
        requested.names.extend(of_agent.into_iter().flatten().map(String::as_str));
        requested
    }

    /// The MCP servers that run these tools.
    pub(crate) fn servers(&self, parts: &EngineParts, mcp_caller: McpCaller<'_>) -> Vec<ResolvedServer> {
        parts.mcp.route_servers(mcp_caller, |name| self.contains(name))
    }

    fn contains(&self, name: &str) -> bool {
        self.all || self.names.contains(name)
    }

    fn add(&mut self, tool: &'a Tool) {
        match tool {
            Tool::Server(named) => _ = self.names.insert(named.name()),
            Tool::Mcp(own) if is_own(own) => match &own.allowed_tools {
                Some(
                    McpAllowedTools::Names(names)
                    | McpAllowedTools::Filter(McpToolFilter { tool_names: Some(names), .. }),
                ) => self.names.extend(names.iter().map(String::as_str)),
                _ => self.all = true,
            },
            tool => self.names.extend(hosted::requested(tool).map(|hosted| hosted.executor)),
        }
    }
}

impl Bound<'_> {
    /// Lists the servers and returns the catalogue of own tools for this caller.
    pub(crate) async fn catalog(
        self,
        parts: &EngineParts,
        mcp_caller: McpCaller<'_>,
        agent: Option<AgentProfile<'_>>,
    ) -> CallerCatalog {
        let Self { requested, servers } = self;
        let agent = agent.map(|agent| agent.name);
        parts.mcp.catalog(&parts.toolbox, servers, mcp_caller, agent, |name| requested.contains(name)).await
    }
}

/// Whether the tool names the gateway's built-in server.
pub(crate) fn is_own(tool: &McpTool) -> bool {
    tool.is_configured() && tool.server_label == BUILTIN_SERVER_LABEL
}
