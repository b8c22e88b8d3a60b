//! What the request decides together with its agent, its key and the configuration.

use std::sync::Arc;

use super::model_request::logprobs;
use crate::client_tools;
use crate::context::{EngineParts, RunContext};
use crate::limits::{self, EffectiveLimits};
use crate::profile::{self, AgentProfile};
use crate::run_spec::{ClientTurns, OutputSpec, ToolDisplay};
use crate::structured::OutputValidator;
use crate::tools::offered::OfferedTools;
use crate::tools::scope;
use antwort_config::settings::{ReasoningDisplay as DisplaySetting, UnknownFields};
use antwort_protocol::dialect::Dialect;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;
use antwort_protocol::item::{InputItem, Item};
use antwort_protocol::request::{
    ClientActionStatus, CreateResponse, OnMismatch, SentFields, TextFormat, ToolCacheMode, ToolVisibility,
    judge_unserved,
};
use antwort_protocol::tool::Tool;
use antwort_provider::Provider;
use antwort_provider::routing::ModelRoute;
use antwort_response::machine::{ReasoningDisplay, ShowSealed, Termination};
use antwort_response::presentation::Presentation;

/// What the request, its agent, its key and the configuration say, before anything is read.
pub(super) struct Settled<'a> {
    /// The request with the settings of its agent, without its input.
    pub request: Box<CreateResponse>,
    pub input: Vec<InputItem>,
    /// The request as it was sent, if that is known.
    pub sent: Option<SentFields>,
    pub agent: Option<AgentProfile<'a>>,
    /// The agent's.
    pub instructions: Option<String>,
    pub route: ModelRoute,
    pub ignored: Vec<String>,
    pub structured: OutputValidator,
    pub limits: EffectiveLimits,
}

/// Checks the request against its agent, its key and the configuration, and resolves its model.
pub(super) async fn settle<'a>(
    parts: &'a EngineParts,
    mut request: Box<CreateResponse>,
    caller: &RunContext,
) -> Result<Settled<'a>, ApiError> {
    request.check_dialect(caller.dialect)?;
    let sent = request.sent.take();
    let (agent, instructions) = profile::apply(&parts.agents, &mut request)?;
    let route = parts.router.resolve(request.model()?)?;
    let ignored = check_extra(parts, &mut request, route.provider.as_ref(), caller.lists_unserved_fields)?;
    let structured = structured(parts, &request, caller, agent.as_ref()).await?;
    let limits = limits(parts, &mut request, caller, (&route, agent.as_ref()))?;
    let input = std::mem::take(&mut request.input);
    Ok(Settled { request, input, sent, agent, instructions, route, ignored, structured, limits })
}

/// Identifies a conversation by the first response of its chain, or by this response if it may become the first. A
/// response that is not stored has no chain: the client's own key is used.
pub(super) fn conversation_key(
    request: &CreateResponse,
    root: Option<Id>,
    response: &Id,
) -> Option<Arc<str>> {
    let noted = |key: &str| request.metadata.0.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    match root {
        Some(root) => Some(root.as_str().into()),
        None if request.store => Some(response.as_str().into()),
        None => request.prompt_cache_key.as_ref().or_else(|| noted("chat_id")).map(|key| key.as_str().into()),
    }
}

/// Refuses unknown fields, or removes them and returns their names if they are to be ignored. Fields inside tools and
/// options that have no effect are treated alike, unless the caller's are `tolerated` in any case.
fn check_extra(
    parts: &EngineParts,
    request: &mut CreateResponse,
    provider: &dyn Provider,
    tolerated: bool,
) -> Result<Vec<String>, ApiError> {
    let passes = |name: &str| provider.info().passthrough.iter().any(|allowed| allowed == name);
    let ignores = parts.options.unknown_fields == UnknownFields::Ignore;
    let mut ignored: Vec<String> = match ignores {
        false => request.check_unknown_fields(passes).map(|()| Vec::new())?,
        true => request.extra.extract_if(.., |(name, _)| !passes(name)).map(|(name, _)| name).collect(),
    };
    ignored.extend(judge_unserved(std::mem::take(&mut request.unserved_fields), ignores || tolerated)?);
    if !ignored.is_empty() {
        forget_deferred(request);
    }
    Ok(ignored)
}

/// What was ignored is refused nowhere else.
fn forget_deferred(request: &mut CreateResponse) {
    let declared = request.input.iter_mut().filter_map(|item| match item {
        InputItem::Item(Item::AdditionalTools(declared)) => Some(&mut declared.tools),
        _ => None,
    });
    for tool in std::iter::once(&mut request.tools).chain(declared).flatten() {
        if let Tool::Mcp(mcp) = tool {
            mcp.defer_loading = None;
        }
    }
}

/// How the output is encoded and sealed, for this provider.
pub(super) fn output(
    parts: &EngineParts,
    request: &CreateResponse,
    caller: &RunContext,
    provider: &str,
) -> OutputSpec {
    OutputSpec {
        dialect: caller.dialect,
        obfuscate: request.stream_options.include_obfuscation,
        provider: provider.into(),
        reasoning: match (parts.options.engine.reasoning, request.reasoning.summary) {
            (DisplaySetting::Off, _) => ReasoningDisplay::Hidden,
            // A client that asks for a summary is shown nothing else.
            (DisplaySetting::Summary, _) | (_, Some(_)) => ReasoningDisplay::Summary,
            (DisplaySetting::ReasoningText, None) => ReasoningDisplay::Text,
        },
        logprobs: logprobs(request).is_some(),
        show_sealed: match (request.include.reasoning_encrypted_content, request.store) {
            (true, _) => ShowSealed::Always,
            // Without a store the state survives only at the client.
            (false, false) => ShowSealed::Needed,
            (false, true) => ShowSealed::Never,
        },
        server_steps: scope::visibility(parts, request) == ToolVisibility::Full,
    }
}

/// How tools and their calls are shown. The dialect of the specification and hidden tools have no `mcp_list_tools` items.
pub(super) fn display(
    request: &CreateResponse,
    caller: &RunContext,
    calls: Presentation,
    visibility: ToolVisibility,
) -> ToolDisplay {
    let wants_progress = request.antwort.as_ref().and_then(|options| options.tool_progress) == Some(true);
    ToolDisplay {
        calls,
        progress: request.stream && wants_progress,
        lists: caller.dialect == Dialect::OpenAi && visibility != ToolVisibility::Hidden,
    }
}

/// What the client is asked while the run goes on: only one that was queued can wait for it.
pub(super) fn client_turns(
    parts: &EngineParts,
    request: &CreateResponse,
    caller: &RunContext,
    (executes_tools, was_queued): (bool, bool),
    offer: &OfferedTools,
) -> Result<ClientTurns, ApiError> {
    Ok(ClientTurns {
        input_timeout: client_tools::input_timeout(parts, request, executes_tools, was_queued)?,
        input_event: client_tools::input_event(parts, request),
        elicitation: client_tools::asked_questions(request, executes_tools, was_queued)?,
        awaiting_status: awaiting_client_status(parts, request, caller, executes_tools, offer),
    })
}

/// The status of a response that waits for the client's functions: as the request, its key, its client or the
/// configuration says, in this order. Where tools are not executed nothing waits, unless the request says so.
fn awaiting_client_status(
    parts: &EngineParts,
    request: &CreateResponse,
    caller: &RunContext,
    executes_tools: bool,
    offer: &OfferedTools,
) -> Termination {
    let asked = request.antwort.as_ref().and_then(|options| options.client_action_status);
    let status = match asked {
        Some(status) => status,
        None if executes_tools => {
            caller.client_action_status.unwrap_or(parts.options.engine.client_action_status)
        }
        None => ClientActionStatus::Completed,
    };
    match status {
        ClientActionStatus::RequiresAction => Termination::RequiresAction,
        ClientActionStatus::Auto if offer.has_server_tools() => Termination::RequiresAction,
        ClientActionStatus::Completed | ClientActionStatus::Auto => Termination::Completed,
    }
}

/// What happens to an answer that does not match its format: as the request, the agent profile or the configuration
/// says.
fn on_mismatch(
    parts: &EngineParts,
    request: &CreateResponse,
    agent: Option<&AgentProfile<'_>>,
) -> OnMismatch {
    let asked = request.antwort.as_ref().and_then(|options| options.structured.as_ref()?.on_mismatch);
    let of_agent = || agent.and_then(|agent| agent.settings.structured.on_mismatch);
    asked.or_else(of_agent).unwrap_or(parts.options.engine.structured.on_mismatch)
}

async fn structured(
    parts: &EngineParts,
    request: &CreateResponse,
    caller: &RunContext,
    agent: Option<&AgentProfile<'_>>,
) -> Result<OutputValidator, ApiError> {
    let on_mismatch = on_mismatch(parts, request, agent);
    let format = request.text.format.as_ref().unwrap_or(&TextFormat::Text);
    OutputValidator::new(format, on_mismatch, &parts.admission.blocking, &caller.requester()).await
}

/// The limits of the run, which are echoed if the request has any.
fn limits(
    parts: &EngineParts,
    request: &mut CreateResponse,
    caller: &RunContext,
    (route, agent): (&ModelRoute, Option<&AgentProfile<'_>>),
) -> Result<EffectiveLimits, ApiError> {
    let engine = &parts.options.engine;
    let price = limits::price(&route.provider.info().prices, &route.model);
    let agent = agent.map(|agent| &agent.settings.limits);
    let mut limits = EffectiveLimits::from_request(request, &engine.limits, &engine.ceilings, agent, price)?;
    if let Some(chain) = &caller.chain {
        limits = limits.within(chain)?;
        // What is left is echoed, whether the first request has asked for limits or not.
        request.antwort.get_or_insert_default();
    }
    if let Some(options) = &mut request.antwort {
        options.limits = limits.to_request_limits();
    }
    Ok(limits)
}

pub(super) fn bypasses_cache(request: &CreateResponse) -> bool {
    let asked = request.antwort.as_ref().and_then(|options| options.tool_cache);
    asked == Some(ToolCacheMode::Bypass)
}
