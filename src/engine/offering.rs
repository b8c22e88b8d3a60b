//! For whom tools are offered, and how: at the beginning of a run, and again when servers have come to have others.

use std::sync::Arc;

use super::Parts;
use super::mcp::Listed;
use super::offer::{self, Offer, OnUnservedTool, ServerTools};
use super::prepare::Prepared;
use super::profile::Profile;
use crate::protocol::dialect::Dialect;
use crate::protocol::error::ApiError;
use crate::protocol::item::Item;
use crate::protocol::request::{CreateResponse, Visibility};
use crate::protocol::tool_choice::ToolChoice;
use crate::response::turn::Surface;
use crate::tools::Subject;
use crate::tools::mcp::CallerCatalog;

/// Whether the gateway runs tools. Each may switch it off, none may switch it on against another.
pub(super) fn executes(parts: &Parts, request: &CreateResponse, agent: Option<&Profile<'_>>) -> bool {
    let asked = request.antwort.as_ref().and_then(|options| options.execute_tools);
    let allowed = agent.and_then(|agent| agent.settings.execution_enabled);
    parts.limits.tools.execution_enabled && allowed != Some(false) && asked != Some(false)
}

pub(super) fn surface(visibility: Visibility, dialect: Dialect) -> Surface {
    match (visibility, dialect) {
        (Visibility::Hidden, _) => Surface::Hidden,
        (_, Dialect::OpenAi) => Surface::Mcp,
        (_, Dialect::OpenResponses) => Surface::Extension,
    }
}

/// For whom tools are offered, and how.
pub(super) struct Offering<'a> {
    pub tenant: &'a str,
    pub agent: Option<&'a str>,
    pub executes: bool,
    pub surface: Surface,
    pub own: &'a CallerCatalog,
    pub servers: &'a [Listed],
    pub unserved: OnUnservedTool,
}

impl Offering<'_> {
    pub(super) fn offer(
        &self,
        parts: &Parts,
        request: &CreateResponse,
        input: &[Item],
        again: bool,
    ) -> Result<Offer, ApiError> {
        let server = ServerTools {
            toolbox: &parts.toolbox,
            own: self.own,
            subject: Subject { tenant: self.tenant, agent: self.agent },
            surface: self.executes.then_some(self.surface),
            unserved: self.unserved,
        };
        let agent = self.agent.and_then(|name| parts.agents.get(name));
        let names = agent.map_or(&[][..], |agent| &agent.tools);
        offer::offer(request, input, names, &server, self.servers, again)
    }
}

/// Offers the tools anew, after servers have come to have others.
pub(super) fn offer_again(parts: &Parts, prepared: &mut Prepared) -> Result<(), ApiError> {
    let Some(request) = &prepared.tool_request else { return Ok(()) };
    let offering = Offering {
        tenant: &prepared.owner.tenant,
        agent: prepared.agent.as_deref(),
        executes: prepared.executes,
        surface: prepared.surface,
        own: &prepared.own,
        servers: &prepared.servers,
        unserved: prepared.unserved,
    };
    let offer = offering.offer(parts, request, &prepared.input, true)?;
    prepared.ask.tools = Arc::clone(&offer.tools);
    prepared.offer = offer;
    Ok(())
}

/// What a request says of its tools. A forced choice is over by the time that it is needed again.
pub(super) fn tool_request(request: &CreateResponse) -> CreateResponse {
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
