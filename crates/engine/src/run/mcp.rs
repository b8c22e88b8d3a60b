//! What a run does for MCP servers beside calling their tools: emits tool lists, follows changes of them, makes
//! approved calls.

use std::sync::Arc;
use std::time::Instant;

use super::live::{Run, RunError};
use super::state::NextInference;
use super::{limits, tools, turn};
use crate::tools::approvals::{self, ApprovedCall};
use antwort_protocol::error::ErrorKind;
use antwort_response::machine::{CallResult, ServerCall, Termination, Violation};
use antwort_response::turn::{CallChoice, CallKind, ModelEvent};
use antwort_store::outage::{OUTAGE_TIMEOUT, RETRY_INTERVAL};
use antwort_tools::ToolErrorCode;

/// Emits the tool lists of servers that are new to the conversation.
pub(super) fn emit_list_tools(run: &mut Run) -> Result<(), RunError> {
    if !run.spec.display.lists {
        return Ok(());
    }
    for server in run.tools.servers.iter().filter(|server| server.is_new) {
        run.machine.emit_list_tools(server.label(), server.listed_tools(), run.sink.events())?;
    }
    Ok(())
}

/// Collects the tools again of the servers that have said that theirs have changed.
pub(super) async fn refresh_changed_tools(run: &mut Run) -> Result<(), RunError> {
    let mut servers = std::mem::take(&mut run.tools.servers);
    for server in servers.iter_mut().filter(|server| server.has_changed()) {
        if run.until_cancelled(server.refresh()).await? && run.spec.display.lists {
            run.machine.emit_list_tools(server.label(), server.listed_tools(), run.sink.events())?;
        }
    }
    run.tools.servers = servers;
    run.tools.refresh(&run.parts, &run.spec)?;
    let offer = &run.tools.offer;
    run.prompt.request_mut().tools = Arc::clone(&offer.tools);
    run.call_filter.replace_tools(offer.choice.allowed.clone(), offer.tools.clone());
    // The places of the tools have changed, too.
    if run.prompt.request.tool_choice != CallChoice::None {
        run.prompt.request_mut().tool_choice = offer.choice.later_turn_choice();
    }
    Ok(())
}

/// Makes the approved calls before the model is asked, as if it had just called them.
///
/// Ends the response if a tool or its credentials have changed, so that the user is asked again.
pub(super) async fn run_approved(run: &mut Run) -> Result<Option<Termination>, RunError> {
    let approved = std::mem::take(&mut run.tools.approved);
    let (outdated, current): (Vec<_>, Vec<_>) = approved.iter().partition(|allowed| allowed.is_outdated);
    let calls = replay_approved_calls(run, &current)?;
    limits::check_limits(run, &calls)?;
    // Approvals are consumed all at once and right before the calls, so that a consumed approval is one whose
    // call is made.
    claim_approved(run, &approved).await?;
    if !calls.is_empty() {
        run.state.next = NextInference::First;
        let have_failed = tools::dispatch(run, &calls).await?;
        limits::count_failed_turn(run, have_failed)?;
    }
    let output = run.machine.close_turn(run.sink.events())?;
    limits::check_size(run)?;
    turn::append_history(run, output);
    run.state.next = NextInference::Later;
    if !outdated.is_empty() {
        request_approval_again(run, &outdated)?;
        return Ok(Some(Termination::Completed));
    }
    run.flush().await?;
    Ok(None)
}

/// Consumes the approvals, and tries again while the database is away if the run is one that outlasts that.
async fn claim_approved(run: &mut Run, approved: &[ApprovedCall]) -> Result<(), RunError> {
    let until = Instant::now() + OUTAGE_TIMEOUT;
    loop {
        match approvals::claim(&run.parts, (&run.spec.owner, &run.spec.response.id), approved).await {
            Err(error) if error.kind == ErrorKind::Unavailable && run.can_wait && Instant::now() < until => {
                run.until_cancelled(tokio::time::sleep(RETRY_INTERVAL)).await?;
            }
            claimed => return Ok(claimed?),
        }
    }
}

/// Emits approved calls as if the model had made them.
fn replay_approved_calls(run: &mut Run, approved: &[&ApprovedCall]) -> Result<Vec<ServerCall>, Violation> {
    let kind = CallKind::Server(run.spec.display.calls);
    for (slot, allowed) in (0_u32..).zip(approved) {
        run.machine.note_approval(slot, allowed.request_id());
        let (name, namespace) = (allowed.call.name.clone(), allowed.call.namespace.clone());
        let delta = allowed.call.arguments.clone();
        let out = run.sink.events();
        let begun = ModelEvent::CallStarted { slot, kind, call_id: None, name, namespace, fields: None };
        run.machine.push(begun, out)?;
        run.machine.push(ModelEvent::CallDelta { slot, delta }, out)?;
    }
    Ok(run.machine.end_turn(true, run.sink.events())?.server_calls)
}

/// Fails calls whose tool or credentials have changed since they were approved, which shows that the approval is
/// consumed, and asks for approval again.
fn request_approval_again(run: &mut Run, outdated: &[&ApprovedCall]) -> Result<(), Violation> {
    for call in replay_approved_calls(run, outdated)? {
        let result = CallResult {
            output: "the tool or its credentials have changed since the approval was requested; approval is \
                     requested again"
                .to_owned(),
            error: Some(ToolErrorCode::AccessDenied.as_str().into()),
            ..CallResult::default()
        };
        run.machine.finish_call(call.slot, result, run.sink.events())?;
    }
    run.machine.close_turn(run.sink.events())?;
    for allowed in outdated {
        run.machine.request_approval(allowed.call.clone(), run.sink.events())?;
    }
    Ok(())
}
