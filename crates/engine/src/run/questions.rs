//! Questions with which calls have ended: the run waits for the answers as a row, and whoever claims it makes the calls again
//! with them.

use std::time::Duration;

use super::job::LeftTurn;
use super::live::{Run, RunError};
use crate::context::unix_after;
use crate::user_questions::{self, AskedRound, QuestionRow, Round};
use antwort_protocol::error::ApiError;
use antwort_response::machine::ServerCall;
use antwort_store::{AskedQuestions, MAX_QUESTIONS, OrphanedCall, QuestionKey};
use antwort_tools::{GivenInput, RequiredInput, ToolError, ToolOutput};

/// The outcome of a call.
pub(super) type ToolResult = Result<ToolOutput, ToolError>;

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

impl Run {
    /// Asks the user what calls have ended with. Always returns an error: that the run waits, if nothing is wrong.
    ///
    /// `next` is the number of the event behind all that were sent.
    pub(super) async fn ask_required(
        &mut self,
        (turn, next): (u32, u64),
        calls: Vec<AskingCall>,
    ) -> RunError {
        self.machine.continue_at(next);
        match self.write_questions(turn, &calls).await {
            Ok(()) => RunError::Waits,
            Err(error) => error,
        }
    }

    async fn write_questions(&mut self, turn: u32, calls: &[AskingCall]) -> Result<(), RunError> {
        // The log of events must not end before the questions are there.
        self.flush().await?;
        self.sink.settle_log().await;
        let timeout = self.parts.options.engine.elicitation_timeout;
        self.state.note_active(self.started);
        let active = self.state.active();
        let (mut rows, mut told) = (Vec::new(), Vec::new());
        for call in calls {
            // The questions of a call that is not shown yet are asked when it is.
            let is_shown = self.machine.server_call_item(call.slot).is_some();
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
        self.write_rows(turn, rows).await?;
        let expires_at = unix_after(timeout);
        for (slot, call_id, question) in told {
            self.machine.ask_user(slot, &call_id, question, expires_at, self.sink.events());
        }
        self.flush().await
    }

    async fn write_rows(&self, turn: u32, questions: Vec<user_questions::Row>) -> Result<(), RunError> {
        let record = AskedQuestions { lease: self.prepared.lease.clone(), turn, questions };
        Ok(self.parts.store.ask_questions(record).await.map_err(ApiError::from)?)
    }

    /// Makes a call again with the user's answers, or waits on if one is missing and not late. `Err` of [`RunError::Waits`]
    /// also if it has more questions.
    pub(super) async fn call_with_answers(
        &mut self,
        made: &ServerCall,
        journaled: &OrphanedCall,
        asked: AskedRound,
        left: &LeftTurn,
    ) -> Result<ToolResult, RunError> {
        let turn = journaled.turn;
        self.ask_untold(made, turn, &asked, left).await?;
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
        let key = QuestionKey { turn, call: journaled.index, number: asked.next };
        self.write_rows(turn, vec![QuestionRow::Made.record(key, Duration::ZERO)]).await?;
        self.call_again(made, journaled, (asked.next + 1, left.next), Some(input)).await
    }

    /// Makes a call again. If it ends with questions, the run waits. `next` are the numbers of its next question, and of the
    /// event behind all that were sent.
    pub(super) async fn call_again(
        &mut self,
        made: &ServerCall,
        journaled: &OrphanedCall,
        (next, next_event): (u32, u64),
        input: Option<GivenInput>,
    ) -> Result<ToolResult, RunError> {
        let (turn, index) = (journaled.turn, journaled.index);
        let binding = self.prepared.offer.binding(made.call.namespace.as_deref(), &made.call.name).cloned();
        let rounds = input.as_ref().map_or(0, |input| input.rounds);
        let mut held = self.held_questions(turn, next);
        let asker = self.asker(held.as_ref(), (index, made.slot));
        let id = self.prepared.response.id.clone();
        let call = self.executor.repeat(&id, (turn, index), made, (binding, asker, input));
        let mut outcomes = futures_util::stream::once(Box::pin(call));
        let outcome = self.outcome_of(&mut outcomes, &mut None, &mut held).await?;
        let next = held.as_mut().map_or(next, |held| held.ends_with_questions(index));
        drop(held);
        self.go_on_with_time();
        // A stream of one call has its outcome.
        let Some(outcome) = outcome else { return Err(ApiError::internal().into()) };
        match user_questions::required(outcome) {
            Ok(outcome) => Ok(outcome),
            Err(required) => {
                let asking = AskingCall { index, slot: made.slot, rounds, first: next, required: *required };
                Err(self.ask_required((turn, next_event), vec![asking]).await)
            }
        }
    }

    /// Asks questions of which nobody was told: their call was not shown yet, or the process was lost before.
    async fn ask_untold(
        &mut self,
        made: &ServerCall,
        turn: u32,
        asked: &AskedRound,
        left: &LeftTurn,
    ) -> Result<(), RunError> {
        let is_untold = |call_id: &str| left.has_log && !left.seen.iter().any(|event| event.asks(call_id));
        let timeout = self.parts.options.engine.elicitation_timeout;
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
        self.write_rows(turn, rows.collect()).await?;
        // Behind what was sent.
        self.machine.continue_at(left.next);
        let expires_at = unix_after(timeout);
        for question in untold {
            let Some(shown) = asked.round.required.questions.get(&question.name) else { continue };
            let call_id = question.key.call_id();
            self.machine.ask_user(made.slot, &call_id, shown, expires_at, self.sink.events());
        }
        self.flush().await?;
        Err(RunError::Waits)
    }
}
