//! A run that was claimed goes on where it was: the calls of its last turn are finished, what was sent of the next one is abandoned, and
//! the model is asked again.

use super::after_calls::{self, AfterCalls};
use super::live::{Run, RunError};
use super::state::{NextInference, RunState};
use super::trace::CallOutcomeKind;
use super::{async_calls, inputs, questions, tools, turn};
use crate::journal::JournaledResult;
use crate::record;
use crate::resume_point::{
    CommittedPhase, LeftCall, OUTCOME_UNKNOWN, OpenCalls, ResumePoint, declare_unknown, unknown_result,
};
use crate::seen_log::progress_events;
use crate::user_questions::{self, Asked};
use antwort_protocol::error::ApiError;
use antwort_protocol::item::Item;
use antwort_response::machine::{ResponseMachine, ServerCall, Termination};

/// Puts the run where it was.
pub(crate) fn restore(run: &mut Run, machine: ResponseMachine, state: RunState, point: &ResumePoint) {
    run.machine = machine;
    run.state = state;
    run.can_wait = true;
    run.state.committed.is_recorded = true;
    run.state.tool_calls += u32::try_from(point.calls.len()).unwrap_or(u32::MAX);
    // A turn is committed before its calls are counted: all of them are, and those that are executed again take their part of the budget
    // when they are.
    let is_repeated = |LeftCall { made, row }: &&LeftCall| {
        let asked = || user_questions::asked(&point.pending, row.turn, row.index);
        let is_open = row.outcome.is_none();
        is_open && may_repeat(run, made) && matches!(asked(), Asked::Nothing)
    };
    let repeated = point.calls.iter().filter(is_repeated).count();
    let made = (run.state.tool_calls as usize).saturating_sub(repeated);
    run.executor.resume(run.state.committed.turns, made);
}

/// Finishes the turn that was committed last, as its own process would have done. Returns how the response ends, if no other turn
/// follows.
pub(super) async fn finish_left_turn(
    run: &mut Run,
    point: ResumePoint,
) -> Result<Option<Termination>, RunError> {
    // `in_progress` is announced only of a response that was created as queued.
    let is_queued = run.spec.response.echo.background;
    if point.phase == CommittedPhase::Begin && point.seen.is_empty() && is_queued {
        let record = record::running(&run.spec, run.machine.response());
        run.parts.store.update_running(record).await.map_err(ApiError::from)?;
        run.machine.begin(run.sink.events());
        run.flush().await?;
    }
    run.machine.skip_events(progress_events(&point.seen));
    let after = match point.phase {
        CommittedPhase::Begin => None,
        CommittedPhase::WaitsForResults => {
            async_calls::take_results(run, &point.pending)?;
            begin_turn_after_wait(run);
            None
        }
        CommittedPhase::WaitsForClient => {
            inputs::take_answers(run, &point).await?;
            Some(after_calls::close_turn(run, OpenCalls { client: false, ..point.open })?)
        }
        CommittedPhase::Calls => {
            let have_failed = finish_left_calls(run, &point).await?;
            if point.open.client && run.spec.client.input_timeout.is_some() {
                // Behind what was sent: a call that is executed again may show less than the first time.
                run.machine.continue_at(point.next);
            }
            Some(after_calls::after_calls(run, have_failed, point.open).await?)
        }
    };
    let ending = match after {
        Some(AfterCalls::Ends(ending)) => Some(ending),
        Some(AfterCalls::GoesOn(output)) => {
            turn::append_history(run, output);
            begin_turn_after_wait(run);
            None
        }
        None => None,
    };
    if run.machine.replay(point.seen, point.next, true, run.sink.events())? {
        tracing::info!(request_id = %run.call.request_id, "an inference was interrupted; the model is asked again");
    }
    skip_shown_lists(run);
    run.flush().await?;
    if ending.is_none() {
        spend_tokens(run)?;
    }
    Ok(ending)
}

/// What the last turn leads to in the next one.
fn begin_turn_after_wait(run: &mut Run) {
    if std::mem::take(&mut run.state.has_exceeded_calls) {
        run.call_filter.exceed_limit();
    }
    if run.state.next == NextInference::Later || run.state.next == NextInference::Repair {
        run.call_filter.clear_required();
    }
    turn::prepare_next_turn(run);
}

/// Tool lists that were shown are not shown again.
fn skip_shown_lists(run: &mut Run) {
    let shown: Vec<_> = run.machine.response().output.iter().filter_map(listed_server).collect();
    for server in &mut run.tools.servers {
        server.is_new &= !shown.iter().any(|label| **label == **server.label());
    }
}

/// Finishes the calls of the last turn: with their results as far as these are known. One that may have been made is
/// made again only if that does no harm.
///
/// Returns whether all have failed: the turn was committed before it was counted.
async fn finish_left_calls(run: &mut Run, point: &ResumePoint) -> Result<Option<bool>, RunError> {
    // Questions of calls that went with their process are answered by nobody.
    for question in user_questions::left_open(&point.pending) {
        declare_unknown(&*run.parts.store, &run.spec.lease, (question.turn, question.index));
    }
    let mut have_failed = None;
    for call in &point.calls {
        let LeftCall { made, row } = call;
        let JournaledResult { result, task, citations } = match call.result() {
            Some(found) => {
                let error = row.outcome.as_ref().and_then(|(_, error)| error.as_deref());
                note_journaled(run, row.index, error, found.result.is_async);
                found
            }
            None => Box::pin(make_left_call(run, call, point)).await?,
        };
        run.state.add_sources(citations);
        have_failed = Some(have_failed.unwrap_or(true) && result.error.is_some());
        if result.is_async {
            async_calls::start_async(run, made, (row.turn, row.index), task.as_deref()).await?;
        }
        if let Some(item) = run.machine.server_call_item(made.slot) {
            run.state.trace.note_item(row.index, item);
        }
        run.machine.finish_call(made.slot, result, run.sink.events())?;
        run.flush().await?;
    }
    Ok(have_failed)
}

/// The result of a call is known, but not when it came.
fn note_journaled(run: &mut Run, index: u32, error: Option<&str>, is_async: bool) {
    let kind = match error {
        Some(_) => CallOutcomeKind::Failed,
        None if is_async => CallOutcomeKind::Async,
        None => CallOutcomeKind::Completed,
    };
    run.state.trace.end_call(index, kind, error, None);
}

async fn make_left_call(
    run: &mut Run,
    LeftCall { made, row }: &LeftCall,
    point: &ResumePoint,
) -> Result<JournaledResult, RunError> {
    let (turn, index) = (row.turn, row.index);
    let may_repeat = may_repeat(run, made);
    let outcome = match user_questions::asked(&point.pending, turn, index) {
        Asked::Round(round) => questions::call_with_answers(run, made, row, round, point).await?,
        // The user is not asked again.
        Asked::MadeAgain(round) if may_repeat => {
            questions::call_with_answers(run, made, row, round, point).await?
        }
        Asked::Nothing if may_repeat => {
            let next = user_questions::next_number(&point.pending, turn, index);
            questions::call_again(run, made, row, (next, point.next), None).await?
        }
        Asked::Nothing | Asked::MadeAgain(_) => {
            declare_unknown(&*run.parts.store, &run.spec.lease, (turn, index));
            run.state.trace.end_call(index, CallOutcomeKind::Unknown, Some(OUTCOME_UNKNOWN), None);
            return Ok(unknown_result());
        }
    };
    let ended = tools::ended_call(run, made, index, outcome)?;
    // A later call of the turn may ask: then this one is shown again by whoever goes on.
    if !run.spec.client.elicitation.is_empty() {
        tools::keep_shown(run, turn, &ended);
    }
    Ok(ended.into_journaled())
}

fn may_repeat(run: &Run, made: &ServerCall) -> bool {
    let binding = run.tools.offer.binding(made.call.namespace.as_deref(), &made.call.name);
    binding.is_some_and(|binding| binding.tool.may_repeat())
}

/// `max_output_tokens` is for the whole response: the tokens of the turns before are spent.
fn spend_tokens(run: &mut Run) -> Result<(), RunError> {
    match run.prompt.spend_tokens(run.state.output_tokens) {
        true => Err(RunError::LimitReached("max_output_tokens")),
        false => Ok(()),
    }
}

/// The server whose tools an item lists.
fn listed_server(item: &Item) -> Option<String> {
    match item {
        Item::McpListTools(list) => Some(list.server_label.clone()),
        _ => None,
    }
}
