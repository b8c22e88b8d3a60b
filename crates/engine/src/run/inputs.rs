//! Calls of the client's functions in a run that goes on with their outputs: the client is asked, the run ends its lease and
//! waits as a row, and whoever claims it adds the answers.

use std::time::Duration;

use super::live::{Run, RunError};
use super::trace::WaitKind;
use super::{commit, limits};
use crate::client_answers;
use crate::context::unix_after;
use crate::resume_point::ResumePoint;
use crate::tool_executor::TurnCalls;
use antwort_response::machine::{ClientCall, InputDeadline, ServerCall};
use antwort_response::turn::ToolCallRequest;

/// Asks the client for the outputs of the calls of this turn. Always returns an error: that the run waits, if nothing is
/// wrong.
pub(super) async fn ask_client(run: &mut Run, timeout: Duration) -> RunError {
    match commit_questions(run, timeout).await {
        Ok(()) => RunError::Waits,
        Err(error) => error,
    }
}

async fn commit_questions(run: &mut Run, timeout: Duration) -> Result<(), RunError> {
    let calls = run.machine.ask_client(run.sink.events())?;
    limits::check_size(run)?;
    limits::check_limits(run, &calls.iter().map(counted).collect::<Vec<_>>())?;
    commit_calls(run, &calls, timeout).await
}

async fn commit_calls(run: &mut Run, calls: &[ClientCall], timeout: Duration) -> Result<(), RunError> {
    // Not later than the time that is stored.
    let expires_at = unix_after(timeout);
    commit::commit_wait(run, WaitKind::Client, TurnCalls::Client(calls, timeout)).await?;
    announce_calls(run, calls, InputDeadline { timeout, expires_at }).await
}

/// Tells the client of calls. Nobody can answer before the questions are committed, so they are announced behind that.
async fn announce_calls(
    run: &mut Run,
    calls: &[ClientCall],
    deadline: InputDeadline,
) -> Result<(), RunError> {
    run.machine.require_inputs(calls, run.spec.client.input_event, deadline, run.sink.events());
    run.flush().await
}

/// Adds the outputs of the calls for which the client was asked, or waits on if one is missing and not late.
pub(super) async fn take_answers(run: &mut Run, left: &ResumePoint) -> Result<(), RunError> {
    let calls = run.machine.open_client_calls();
    let left_for = |call: &ClientCall| client_answers::seconds_left(&left.pending, call);
    let is_untold =
        |call: &&ClientCall| left.has_log && !left.seen.iter().any(|event| event.asks(&call.call_id));
    let unanswered = |call: &&ClientCall| client_answers::find(&left.pending, call).is_none();
    let untold: Vec<_> = calls.iter().filter(is_untold).filter(unanswered).cloned().collect();
    if !untold.is_empty() {
        // The process was lost before it had told anybody. If it is too late for an answer, the time begins anew.
        match untold.iter().filter_map(left_for).min() {
            Some(seconds) => {
                let timeout = Duration::from_secs(seconds.max(0).unsigned_abs());
                let deadline = InputDeadline { timeout, expires_at: unix_after(timeout) };
                announce_calls(run, &untold, deadline).await?;
            }
            None => {
                commit_calls(run, &untold, run.spec.client.input_timeout.unwrap_or_default()).await?;
            }
        }
        return Err(RunError::Waits);
    }
    if calls.iter().any(|call| left_for(call).is_some()) {
        return Err(RunError::Waits);
    }
    let mut all_failed = run.state.have_server_calls_failed.take().unwrap_or(true);
    for call in &calls {
        let answer = client_answers::find(&left.pending, call).unwrap_or_else(client_answers::timed_out);
        all_failed &= answer.has_failed;
        run.machine.finish_client_call(call, answer.output, run.sink.events())?;
    }
    limits::count_failed_turn(run, all_failed)
}

/// A call as the limit of identical calls counts it.
fn counted(call: &ClientCall) -> ServerCall {
    let (name, namespace) = (call.name.clone(), call.namespace.clone());
    ServerCall { slot: 0, call: ToolCallRequest { name, namespace, arguments: call.arguments.clone() } }
}
