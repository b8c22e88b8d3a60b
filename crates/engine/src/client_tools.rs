//! Whether a response ends at calls of the client's functions (`pause`), or asks for their outputs and goes on (`inline`, and
//! `a2a` in the words of A2A clients).
//!
//! A run that asks must be one that any process can go on with, and whose client can come back: it is queued as a background
//! run is, begun at once by the process that takes the request unless it is a background response, and its client reads the log of its events.

use std::time::Duration;

use super::context::EngineParts;
use antwort_config::{AgentSettings, StorePolicy};
use antwort_protocol::elicitation::ElicitationModes;
use antwort_protocol::error::ApiError;
use antwort_protocol::request::{ClientToolMode, CreateResponse};
use antwort_response::machine::InputEvent;

/// The request field.
const PARAM: &str = "antwort.client_tools";
/// That of questions that tools ask the user.
const ELICITATION_PARAM: &str = "antwort.elicitation";

/// Whether the run of this request asks its client. An error comes when it is submitted.
pub(super) fn asks_client(parts: &EngineParts, request: &CreateResponse, policy: StorePolicy) -> bool {
    if !request.shown_questions().is_empty() {
        return true;
    }
    match requested(request) {
        Some(mode) => mode.waits(),
        None => policy == StorePolicy::Allow && mode(parts, request).waits(),
    }
}

/// How long a run with these functions waits for its client; `None`: it does not ask it. Only one that was queued can wait.
pub(super) fn input_timeout(
    parts: &EngineParts,
    request: &CreateResponse,
    executes_tools: bool,
    was_queued: bool,
) -> Result<Option<Duration>, ApiError> {
    if requested(request).is_some_and(ClientToolMode::waits) {
        check_waiting(request, executes_tools, PARAM, "Client tools run inline")?;
    }
    if !was_queued || !executes_tools || !mode(parts, request).waits() {
        return Ok(None);
    }
    let of_agent = agent(parts, request).and_then(|agent| agent.client_tool_timeout);
    Ok(Some(of_agent.unwrap_or(parts.options.engine.client_tool_timeout)))
}

/// In whose words the client of a run that asks it is asked.
pub(super) fn input_event(parts: &EngineParts, request: &CreateResponse) -> InputEvent {
    match mode(parts, request) {
        ClientToolMode::A2a => InputEvent::A2a,
        ClientToolMode::Inline | ClientToolMode::Pause => InputEvent::Responses,
    }
}

/// The questions of tools that the client of a run is asked: the run waits for the answers, so it must be one that was queued.
pub(super) fn asked_questions(
    request: &CreateResponse,
    executes_tools: bool,
    was_queued: bool,
) -> Result<ElicitationModes, ApiError> {
    let shown = request.shown_questions();
    if !shown.is_empty() {
        check_waiting(request, executes_tools, ELICITATION_PARAM, "Tools can ask the user")?;
    }
    Ok(if was_queued { shown } else { ElicitationModes::default() })
}

/// Refuses what a request wants if its run makes no calls, or cannot wait for its client.
fn check_waiting(
    request: &CreateResponse,
    executes_tools: bool,
    param: &'static str,
    wanted: &str,
) -> Result<(), ApiError> {
    let why = if !executes_tools {
        "where tools are executed, which 'antwort.execute_tools', the agent or the configuration has switched off: the \
         response is a single inference"
    } else if !can_ask(request) {
        "in a response that can wait for its client: send 'store': true, which a key whose responses are never stored does \
         not allow, and 'stream': true or 'background': true"
    } else {
        return Ok(());
    };
    Err(ApiError::invalid("unsupported_value", param, format!("{wanted} only {why}.")))
}

fn mode(parts: &EngineParts, request: &CreateResponse) -> ClientToolMode {
    let of_agent = || agent(parts, request).and_then(|agent| agent.client_tools);
    match requested(request).or_else(of_agent) {
        Some(mode) if mode.waits() && can_ask(request) => mode,
        _ => ClientToolMode::Pause,
    }
}

fn requested(request: &CreateResponse) -> Option<ClientToolMode> {
    request.antwort.as_ref().and_then(|options| options.client_tools)
}

fn can_ask(request: &CreateResponse) -> bool {
    request.store && (request.stream || request.background)
}

fn agent<'a>(parts: &'a EngineParts, request: &CreateResponse) -> Option<&'a AgentSettings> {
    let name = request.prompt.as_ref().map(|prompt| &prompt.id).or(request.agent.as_ref())?;
    parts.agents.get(name)
}
