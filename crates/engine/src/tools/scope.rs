//! For whom tools are collected, and how they are shown: at the start of a run, and again when servers have changed
//! theirs.

use std::borrow::Borrow;

use super::mcp_servers::ListedServer;
use super::offered::{self, OfferedTools, ServerTools};
use crate::context::{EngineParts, OnUnservedTool};
use crate::profile::AgentProfile;
use antwort_mcp::CallerCatalog;
use antwort_protocol::dialect::Dialect;
use antwort_protocol::error::ApiError;
use antwort_protocol::item::Item;
use antwort_protocol::request::{CreateResponse, ToolVisibility};
use antwort_protocol::tool_choice::ToolChoice;
use antwort_response::presentation::Presentation;
use antwort_tools::PolicySubject;

/// Whether the gateway executes tools: the configuration, the request and the agent profile must all allow it.
pub(crate) fn executes_tools(
    parts: &EngineParts,
    request: &CreateResponse,
    agent: Option<&AgentProfile<'_>>,
) -> bool {
    let asked = request.antwort.as_ref().and_then(|options| options.execute_tools);
    let allowed = agent.and_then(|agent| agent.settings.execution_enabled);
    parts.options.tools.execution_enabled && allowed != Some(false) && asked != Some(false)
}

/// How much clients see of server-side calls.
pub(crate) fn visibility(parts: &EngineParts, request: &CreateResponse) -> ToolVisibility {
    let asked = request.antwort.as_ref().and_then(|options| options.stream_visibility);
    asked.unwrap_or(parts.options.tools.stream_visibility)
}

pub(crate) fn presentation(visibility: ToolVisibility, dialect: Dialect) -> Presentation {
    match (visibility, dialect) {
        (ToolVisibility::Hidden, _) => Presentation::Hidden,
        (_, Dialect::OpenAi) => Presentation::Mcp,
        (_, Dialect::OpenResponses) => Presentation::Extension,
    }
}

/// For whom tools are collected, and how they are shown.
pub(crate) struct ToolScope<'a> {
    pub tenant: &'a str,
    pub agent: Option<&'a str>,
    pub(crate) executes_tools: bool,
    pub presentation: Presentation,
    pub catalog: &'a CallerCatalog,
    pub servers: &'a [ListedServer],
    pub unserved: OnUnservedTool,
}

impl ToolScope<'_> {
    pub(crate) fn collect_tools(
        &self,
        parts: &EngineParts,
        request: &CreateResponse,
        input: &[impl Borrow<Item>],
        again: bool,
    ) -> Result<OfferedTools, ApiError> {
        let server = ServerTools {
            toolbox: &parts.toolbox,
            catalog: self.catalog,
            subject: PolicySubject { tenant: self.tenant, agent: self.agent },
            presentation: self.executes_tools.then_some(self.presentation),
            unserved: self.unserved,
        };
        let agent = self.agent.and_then(|name| parts.agents.get(name));
        let names = agent.map_or(&[][..], |agent| &agent.tools);
        offered::collect_tools(request, input, names, &server, self.servers, again)
    }
}

/// The parts of a request that collect tools. A forced choice was met before they are needed again.
pub(crate) fn tool_request(request: &CreateResponse) -> CreateResponse {
    CreateResponse {
        tools: request.tools.clone(),
        allowed_tools: request.allowed_tools.clone(),
        tool_choice: match &request.tool_choice {
            allowed @ ToolChoice::Allowed { .. } => allowed.clone(),
            ToolChoice::None => ToolChoice::None,
            _ => ToolChoice::Auto,
        },
        ..CreateResponse::default()
    }
}
