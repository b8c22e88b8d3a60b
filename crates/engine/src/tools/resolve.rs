//! Resolves the tools of a request: contacts its servers, collects what the model is offered, checks approvals.

use std::time::Instant;

use super::approvals::{self, ApprovalAnswers, ApprovalContext};
use super::mcp_servers::{self, ListedServer};
use super::offered::OfferedTools;
use super::run_tools::RunTools;
use super::scope::{self, ToolScope};
use crate::compaction;
use crate::context::{EngineParts, OnUnservedTool, RunContext};
use crate::limits::EffectiveLimits;
use crate::profile::AgentProfile;
use crate::run::trace::Interval;
use antwort_mcp::CallerCatalog;
use antwort_protocol::error::ApiError;
use antwort_protocol::item::Item;
use antwort_protocol::request::{CreateResponse, ToolVisibility};
use antwort_response::presentation::Presentation;

/// The tools of a run, and how they are shown.
pub(crate) struct ResolvedTools {
    pub visibility: ToolVisibility,
    /// Whether the gateway runs tools.
    pub(crate) executes_tools: bool,
    /// How calls are shown to clients.
    pub presentation: Presentation,
    pub tools: RunTools,
}

/// What tools are resolved for.
pub(crate) struct ToolRequest<'a> {
    pub request: &'a CreateResponse,
    pub agent: Option<AgentProfile<'a>>,
    /// Items of the conversation so far.
    pub(crate) past: &'a [Item],
    pub input: &'a [Item],
    /// Whether the response is a compaction.
    pub compacts: bool,
    pub limits: &'a EffectiveLimits,
    /// What becomes of answers to approval requests.
    pub answers: ApprovalAnswers<'a>,
}

impl<'a> ToolRequest<'a> {
    /// `past` and `input`: the items of the conversation.
    pub(crate) fn new(
        request: &'a CreateResponse,
        agent: Option<AgentProfile<'a>>,
        (past, input): (&'a [Item], &'a [Item]),
        compacts: bool,
        limits: &'a EffectiveLimits,
        answers: ApprovalAnswers<'a>,
    ) -> Self {
        Self { request, agent, past, input, compacts, limits, answers }
    }
}

/// Resolves the tools of a request.
pub(crate) async fn resolve(
    parts: &EngineParts,
    caller: &RunContext,
    asked: ToolRequest<'_>,
) -> Result<ResolvedTools, ApiError> {
    let ToolRequest { request, agent, past, input, compacts, limits, answers } = asked;
    let visibility = scope::visibility(parts, request);
    let executes_tools = scope::executes_tools(parts, request, agent.as_ref());
    let presentation = scope::presentation(visibility, caller.dialect);
    let shown = (executes_tools, presentation);
    let CollectedTools { servers, catalog, offer, listing } = if compacts {
        collect_for_summary(parts, caller, request, agent, (past, input), shown).await?
    } else {
        let collected = collect(parts, caller, request, agent, (past, input), shown).await?;
        note_omitted(&collected.offer, caller);
        collected
    };
    let max_calls = limits.run.max_tool_calls;
    let context = ApprovalContext { servers: &servers, executes_tools, max_calls, answers };
    let approved = approvals::check(parts, &caller.owner, past, input, context).await?;
    let tools = RunTools {
        request: (!servers.is_empty()).then(|| Box::new(scope::tool_request(request))),
        offer,
        servers,
        catalog,
        unserved: caller.unserved_tools,
        approved,
        listing: Some(listing).filter(Interval::is_noticed),
    };
    Ok(ResolvedTools { visibility, executes_tools, presentation, tools })
}

/// What a request is offered, and by whom.
struct CollectedTools {
    servers: Vec<ListedServer>,
    catalog: CallerCatalog,
    offer: OfferedTools,
    /// How long the servers took to list them.
    listing: Interval,
}

/// Contacts the servers of a request and collects the tools; `shown`: whether the gateway runs them, and how.
async fn collect(
    parts: &EngineParts,
    caller: &RunContext,
    request: &CreateResponse,
    agent: Option<AgentProfile<'_>>,
    (past, input): (&[Item], &[Item]),
    (executes_tools, presentation): (bool, Presentation),
) -> Result<CollectedTools, ApiError> {
    let asked_at = Instant::now();
    let (requested_servers, own_tools) = mcp_servers::bind(parts, request, input, caller, agent).await?;
    let awaited = approvals::approved_servers(past, input);
    let servers = mcp_servers::list(requested_servers, past, input, &awaited).await?;
    let mcp_caller = mcp_servers::mcp_caller(caller, request);
    let catalog = own_tools.catalog(parts, mcp_caller, agent).await;
    let listing = Interval { from: asked_at, to: Instant::now() };
    let scope = ToolScope {
        tenant: &caller.owner.tenant,
        agent: agent.as_ref().map(|agent| agent.name),
        executes_tools,
        presentation,
        catalog: &catalog,
        servers: &servers,
        unserved: caller.unserved_tools,
    };
    let offer = scope.collect_tools(parts, request, input, false)?;
    Ok(CollectedTools { servers, catalog, offer, listing })
}

/// The tools of a compaction, of which none is called: those of the requests around it. A tool that is not to be had does
/// not keep a conversation from being compacted.
async fn collect_for_summary(
    parts: &EngineParts,
    caller: &RunContext,
    request: &CreateResponse,
    agent: Option<AgentProfile<'_>>,
    conversation: (&[Item], &[Item]),
    shown: (bool, Presentation),
) -> Result<CollectedTools, ApiError> {
    let lenient = RunContext { unserved_tools: OnUnservedTool::Omit, ..caller.clone() };
    let asked = compaction::tools::tool_request(request);
    let collected = match collect(parts, &lenient, &asked, agent, conversation, shown).await {
        Ok(collected) => collected,
        Err(error) => {
            tracing::debug!(code = error.code(), "a compaction goes without the tools of its request");
            let none = CreateResponse { tools: Vec::new(), ..asked };
            collect(parts, &lenient, &none, None, (&[], &[]), shown).await?
        }
    };
    // No server is asked anything, or shown.
    Ok(CollectedTools {
        servers: Vec::new(),
        offer: compaction::tools::never_called(collected.offer),
        ..collected
    })
}

fn note_omitted(offer: &OfferedTools, caller: &RunContext) {
    if !offer.omitted.is_empty() {
        let tools = offer.omitted.join(", ");
        tracing::info!(request_id = %caller.request_id, %tools, "omitted tools that are not supported");
    }
}
