//! The server-side calls of one turn: checked against the limits of tokens, cost and identical calls, committed,
//! executed, and emitted as they end.

use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;

use super::live::{Run, RunError};
use super::outcomes::ToolResult;
use super::questions::AskingCall;
use super::trace::{self, CallOutcomeKind, CallRecord};
use super::{async_calls, commit, held_questions, limits, outcomes, questions};
use crate::journal::{self, JournaledResult};
use crate::tool_executor::TurnCalls;
use crate::user_questions;
use antwort_response::machine::{CallResult, ServerCall};
use antwort_store::CallOutcome;
use antwort_tools::{CallKey, Citation, OutputMeta, StartedTask, ToolErrorCode};

/// Progress reports that wait to be emitted; further ones are dropped.
const PROGRESS_CAPACITY: usize = 16;

/// Executes the calls of a turn and emits their results. Returns whether all have failed.
pub(super) async fn run_calls(run: &mut Run, calls: &[ServerCall]) -> Result<bool, RunError> {
    limits::check_limits(run, calls)?;
    dispatch(run, calls).await
}

/// Executes calls and emits their results. Returns whether all have failed.
pub(super) async fn dispatch(run: &mut Run, calls: &[ServerCall]) -> Result<bool, RunError> {
    let turn = run.state.committed.turns;
    begin_call_records(run, turn, calls);
    commit::commit_turn(run, TurnCalls::Server(calls)).await?;
    run.machine.dispatch_calls();
    run.state.tool_calls += u32::try_from(calls.len()).unwrap_or(u32::MAX);
    let offer = &run.tools.offer;
    let runner = |made: &ServerCall| offer.binding(made.call.namespace.as_deref(), &made.call.name).cloned();
    let id = run.spec.response.id.clone();
    let (listener, mut reports) = run.spec.display.progress.then(|| mpsc::channel(PROGRESS_CAPACITY)).unzip();
    let mut held = held_questions::held_questions(run, turn, 0);
    let shows_questions = held.is_some();
    let asker = |call| held_questions::asker(run, held.as_ref(), call);
    let mut outcomes = run.executor.execute(&id, turn, calls, listener.as_ref(), (runner, asker));
    drop(listener);
    let (mut all_failed, mut asking, mut ended) = (true, Vec::new(), Vec::new());
    for (index, made) in (0_u32..).zip(calls) {
        // The client of a stream sees the running calls, unless they end at once.
        let ready = outcomes.next().now_or_never();
        let outcome = match ready {
            Some(outcome) => outcome,
            None => {
                run.flush().await?;
                outcomes::outcome_of(run, &mut outcomes, &mut reports, &mut held).await?
            }
        };
        let Some(outcome) = outcome else { break };
        let outcome = match user_questions::required(outcome) {
            Ok(outcome) => outcome,
            Err(required) => {
                let first = held.as_mut().map_or(0, |held| held.ends_with_questions(index));
                asking.push(AskingCall { index, slot: made.slot, rounds: 0, first, required: *required });
                continue;
            }
        };
        // Tools have the run's deadline, too: if it has passed, that is what ends the run, not the tool's
        // timeout.
        run.check_deadline()?;
        let call = ended_call(run, made, index, outcome)?;
        all_failed &= call.result.error.is_some();
        // Results behind a call that asks are shown when that has its own. What is shown may have to be shown again.
        let kept = shows_questions.then(|| call.clone());
        if asking.is_empty() {
            show_ended(run, turn, call).await?;
        }
        ended.extend(kept);
    }
    drop((outcomes, held));
    held_questions::go_on_with_time(run);
    if !asking.is_empty() {
        // Whoever goes on shows what was shown, whatever the layers of a tool have made of its result.
        ended.iter().for_each(|call| keep_shown(run, turn, call));
        return Err(Box::pin(questions::ask_required(run, (turn, 0), asking)).await);
    }
    Ok(all_failed)
}

/// The result of a call that has ended.
pub(super) fn ended_call<'a>(
    run: &mut Run,
    made: &'a ServerCall,
    index: u32,
    mut outcome: ToolResult,
) -> Result<EndedCall<'a>, RunError> {
    check_shutdown(run, &outcome)?;
    let output = outcome.as_mut().ok();
    let (task, citations) = match output {
        Some(output) => (output.task.take(), output.citations.clone()),
        None => (None, Vec::new()),
    };
    end_call_record(run, index, &outcome);
    let result = run.executor.result(made, outcome, &mut run.state)?;
    Ok(EndedCall { made, index, result, task, citations })
}

/// A shutdown aborts the calls, too, which is no failure of theirs.
fn check_shutdown(run: &Run, outcome: &ToolResult) -> Result<(), RunError> {
    let is_cancelled = matches!(outcome, Err(error) if error.code == ToolErrorCode::Cancelled);
    match is_cancelled && run.parts.in_flight.abort_token().is_cancelled() {
        true => Err(RunError::shutdown()),
        false => Ok(()),
    }
}

fn begin_call_records(run: &mut Run, turn: u32, calls: &[ServerCall]) {
    let response = &run.spec.response.id;
    let record = |(index, made): (u32, &ServerCall)| CallRecord {
        call_id: match run.machine.server_call_item(made.slot) {
            Some(item) => item.as_str().to_owned(),
            None => CallKey { response: response.clone(), turn, index }.to_string(),
        },
        name: trace::short(&made.call.name),
        ..CallRecord::default()
    };
    run.state.trace.begin_calls((0..).zip(calls).map(record));
}

fn end_call_record(run: &mut Run, index: u32, outcome: &ToolResult) {
    let failed = ToolErrorCode::ToolExecutionFailed.as_str();
    let (kind, error, meta) = match outcome {
        Ok(output) if output.is_async => (CallOutcomeKind::Async, None, Some(&output.meta)),
        Ok(output) if output.is_error || output.meta.skipped => {
            (CallOutcomeKind::Failed, Some(failed), Some(&output.meta))
        }
        Ok(output) => (CallOutcomeKind::Completed, None, Some(&output.meta)),
        Err(error) if error.code == ToolErrorCode::Cancelled => {
            (CallOutcomeKind::Cancelled, Some(error.code.as_str()), error.meta.as_deref())
        }
        Err(error) => (CallOutcomeKind::Failed, Some(error.code.as_str()), error.meta.as_deref()),
    };
    run.state.trace.end_call(index, kind, error, Some(meta.unwrap_or(&OutputMeta::default())));
}

/// Emits the result of a call.
async fn show_ended(run: &mut Run, turn: u32, call: EndedCall<'_>) -> Result<(), RunError> {
    if call.result.is_async {
        Box::pin(async_calls::start_async(run, call.made, (turn, call.index), call.task.as_deref())).await?;
    }
    if let Some(item) = run.machine.server_call_item(call.made.slot) {
        run.state.trace.note_item(call.index, item);
    }
    run.machine.finish_call(call.made.slot, call.result, run.sink.events())?;
    Ok(())
}

/// Writes a result as it is shown to the journal.
pub(super) fn keep_shown(run: &Run, turn: u32, call: &EndedCall<'_>) {
    run.parts.store.record_tool_result(CallOutcome {
        lease: run.spec.lease.clone(),
        turn,
        index: call.index,
        output: journal::shown(&call.result, call.task.as_deref(), call.citations.clone()),
        error: call.result.error.is_some().then_some(ToolErrorCode::ToolExecutionFailed.as_str()),
    });
}

/// A call that has ended, with its result for its item.
#[derive(Clone)]
pub(super) struct EndedCall<'a> {
    made: &'a ServerCall,
    index: u32,
    pub result: CallResult,
    pub task: Option<Box<StartedTask>>,
    citations: Vec<Citation>,
}

impl EndedCall<'_> {
    pub(super) fn into_journaled(self) -> JournaledResult {
        // Its sources are noted.
        JournaledResult { result: self.result, task: self.task, citations: Vec::new() }
    }
}
