//! Questions with which calls have ended: the run waits for the answers as a row, and whoever claims it makes the calls again
//! with them.

use std::time::Duration;

use super::live::{Run, RunError};
use super::outcomes::ToolResult;
use super::{held_questions, outcomes};
use crate::context::unix_after;
use crate::resume_point::ResumePoint;
use crate::user_questions::{self, AskedRound, QuestionRow, Round};
use antwort_protocol::error::ApiError;
use antwort_response::machine::ServerCall;
use antwort_store::{AskedQuestions, MAX_QUESTIONS, NewPendingCall, OrphanedCall, QuestionKey};
use antwort_tools::{GivenInput, RequiredInput};

/// A call that has ended with questions.
pub(super) struct AskingCall {
    /// Its index in the turn.
    pub index: u32,
    pub slot: u32,
    /// How often it was made before.
    pub rounds: u32,
    /// The number of its first question.
    pub first: u32,
    pub required: RequiredInput,
}

/// Asks the user what calls have ended with. Always returns an error: that the run waits, if nothing is wrong.
///
/// `next` is the number of the event behind all that were sent.
pub(super) async fn ask_required(
    run: &mut Run,
    (turn, next): (u32, u64),
    calls: Vec<AskingCall>,
) -> RunError {
    run.machine.continue_at(next);
    match write_questions(run, turn, &calls).await {
        Ok(()) => RunError::Waits,
        Err(error) => error,
    }
}

async fn write_questions(run: &mut Run, turn: u32, calls: &[AskingCall]) -> Result<(), RunError> {
    // The log of events must not end before the questions are there.
    run.flush().await?;
    run.sink.settle_log().await;
    let timeout = run.parts.options.engine.elicitation_timeout;
    run.state.note_active(run.clock.started);
    let active = run.state.active();
    let (mut rows, mut told) = (Vec::new(), Vec::new());
    for call in calls {
        // The questions of a call that is not shown yet are asked when it is.
        let is_shown = run.machine.server_call_item(call.slot).is_some();
        let timeout = if is_shown { timeout } else { Duration::ZERO };
        let round = Round { number: call.rounds, active, required: call.required.clone() };
        let key = |number| QuestionKey { turn, call: call.index, number };
        let last =
            call.first.saturating_add(u32::try_from(call.required.questions.len()).unwrap_or(u32::MAX));
        if last.saturating_add(1) >= MAX_QUESTIONS {
            return Err(ApiError::internal().into());
        }
        rows.push(QuestionRow::Round(&round).record(key(call.first), Duration::ZERO));
        for (number, (name, question)) in (call.first + 1..).zip(&call.required.questions) {
            rows.push(QuestionRow::Question(name).record(key(number), timeout));
            if is_shown {
                told.push((call.slot, key(number).call_id(), question));
            }
        }
    }
    write_rows(run, turn, rows).await?;
    let expires_at = unix_after(timeout);
    for (slot, call_id, question) in told {
        run.machine.ask_user(slot, &call_id, question, expires_at, run.sink.events());
    }
    run.flush().await
}

async fn write_rows(run: &Run, turn: u32, questions: Vec<NewPendingCall>) -> Result<(), RunError> {
    let record = AskedQuestions { lease: run.spec.lease.clone(), turn, questions };
    Ok(run.parts.store.ask_questions(record).await.map_err(ApiError::from)?)
}

/// Makes a call again with the user's answers, or waits on if one is missing and not late. `Err` of [`RunError::Waits`]
/// also if it has more questions.
pub(super) async fn call_with_answers(
    run: &mut Run,
    made: &ServerCall,
    journaled: &OrphanedCall,
    asked: AskedRound,
    left: &ResumePoint,
) -> Result<ToolResult, RunError> {
    let turn = journaled.turn;
    ask_untold(run, made, turn, &asked, left).await?;
    if asked.questions.iter().any(|question| question.is_open()) {
        return Err(RunError::Waits);
    }
    let answers = asked.questions.iter().map(|question| (question.name.clone(), question.answer()));
    let Round { number, required, .. } = asked.round;
    let input = GivenInput {
        answers: required.answered.into_iter().chain(answers).collect(),
        state: required.state,
        refusal: required.refusal,
        executor: required.executor,
        rounds: number + 1,
    };
    let mut next = asked.next;
    if !asked.is_made {
        let key = QuestionKey { turn, call: journaled.index, number: next };
        write_rows(run, turn, vec![QuestionRow::Made.record(key, Duration::ZERO)]).await?;
        next += 1;
    }
    call_again(run, made, journaled, (next, left.next), Some(input)).await
}

/// Makes a call again. If it ends with questions, the run waits. `next` are the numbers of its next question, and of the
/// event behind all that were sent.
pub(super) async fn call_again(
    run: &mut Run,
    made: &ServerCall,
    journaled: &OrphanedCall,
    (next, next_event): (u32, u64),
    input: Option<GivenInput>,
) -> Result<ToolResult, RunError> {
    let (turn, index) = (journaled.turn, journaled.index);
    let binding = run.tools.offer.binding(made.call.namespace.as_deref(), &made.call.name).cloned();
    let rounds = input.as_ref().map_or(0, |input| input.rounds);
    let mut held = held_questions::held_questions(run, turn, next);
    let asker = held_questions::asker(run, held.as_ref(), (index, made.slot));
    let id = run.spec.response.id.clone();
    let call = run.executor.repeat(&id, (turn, index), made, (binding, asker, input));
    let mut outcomes = futures_util::stream::once(Box::pin(call));
    let outcome = outcomes::outcome_of(run, &mut outcomes, &mut None, &mut held).await?;
    let next = held.as_mut().map_or(next, |held| held.ends_with_questions(index));
    drop(held);
    held_questions::go_on_with_time(run);
    // A stream of one call has its outcome.
    let Some(outcome) = outcome else { return Err(ApiError::internal().into()) };
    match user_questions::required(outcome) {
        Ok(outcome) => Ok(outcome),
        Err(required) => {
            let asking = AskingCall { index, slot: made.slot, rounds, first: next, required: *required };
            Err(ask_required(run, (turn, next_event), vec![asking]).await)
        }
    }
}

/// Asks questions of which nobody was told: their call was not shown yet, or the process was lost before.
async fn ask_untold(
    run: &mut Run,
    made: &ServerCall,
    turn: u32,
    asked: &AskedRound,
    left: &ResumePoint,
) -> Result<(), RunError> {
    let is_untold = |call_id: &str| left.has_log && !left.seen.iter().any(|event| event.asks(call_id));
    let timeout = run.parts.options.engine.elicitation_timeout;
    let untold: Vec<_> = asked
        .questions
        .iter()
        .filter(|question| question.outcome.is_none() && is_untold(&question.key.call_id()))
        .collect();
    if untold.is_empty() {
        return Ok(());
    }
    let rows =
        untold.iter().map(|question| QuestionRow::Question(&question.name).record(question.key, timeout));
    write_rows(run, turn, rows.collect()).await?;
    // Behind what was sent.
    run.machine.continue_at(left.next);
    let expires_at = unix_after(timeout);
    for question in untold {
        let Some(shown) = asked.round.required.questions.get(&question.name) else { continue };
        let call_id = question.key.call_id();
        run.machine.ask_user(made.slot, &call_id, shown, expires_at, run.sink.events());
    }
    run.flush().await?;
    Err(RunError::Waits)
}
