//! A background run, which goes on where it was: the calls of its last turn are finished, what was sent of the next one is
//! abandoned, and the model is asked again.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use super::live::{Run, RunEnd, RunError};
use super::state::{NextInference, RunState};
use super::trace::CallOutcomeKind;
use crate::journal::{self, JournaledResult};
use crate::record;
use crate::user_questions::{self, Asked};
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::item::Item;
use antwort_response::machine::{ResponseMachine, SeenEvent, ServerCall, Termination};
use antwort_store::{CallOutcome, OrphanedCall};

/// What the model and clients are shown of a call whose result is not known.
const UNKNOWN: &str =
    "the gateway was stopped between this call and its result; the call may have been executed";
/// Its code.
const OUTCOME_UNKNOWN: &str = "outcome_unknown";

/// Where a run was when its process was lost.
pub(crate) struct LeftTurn {
    /// Whether the run had begun.
    pub is_begun: bool,
    /// Whether a turn was committed.
    pub(crate) has_turn: bool,
    /// The calls of the last turn that was committed.
    pub calls: Vec<ServerCall>,
    /// The same calls in the journal.
    pub(crate) journaled: Vec<OrphanedCall>,
    /// All calls in the journal for which the client was asked.
    pub asked: Vec<OrphanedCall>,
    /// Whether the turn has calls for the client to make, and calls that need approval.
    pub waits_for: (bool, bool),
    /// Whether the client was asked for the outputs of its calls.
    pub asks_client: bool,
    /// Whether its events are logged.
    pub(crate) has_log: bool,
    /// What was sent behind that turn.
    pub seen: Vec<SeenEvent>,
    /// The number of the event behind that.
    pub next: u64,
}

/// What has become of a run that was claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobEnd {
    /// It has ended, stored or not.
    Ended,
    /// A shutdown has interrupted it.
    GivenBack,
    /// It waits for its client.
    Waits,
}

impl Run {
    /// Puts the run where it was.
    pub(crate) fn resume(&mut self, machine: ResponseMachine, state: RunState, left: &LeftTurn) {
        self.machine = machine;
        self.state = state;
        self.prepared.structured.resume(self.state.asked_for_repair);
        self.can_wait = true;
        self.state.is_recorded = true;
        self.state.tool_calls += u32::try_from(left.calls.len()).unwrap_or(u32::MAX);
        // One that is made again with answers was counted when it was made, and so was one that is not made again.
        let is_repeated = |(made, call): &(&ServerCall, &OrphanedCall)| {
            let asked = || user_questions::asked(&left.asked, call.turn, call.index);
            let is_open = call.outcome.is_none() && call.input.is_none();
            is_open && self.may_repeat(made) && !matches!(asked(), Asked::Round(_))
        };
        let repeated = left.calls.iter().zip(&left.journaled).filter(is_repeated).count();
        let made = (self.state.tool_calls as usize).saturating_sub(repeated);
        self.executor.resume(self.state.journaled_turns, made);
    }

    /// Tool lists that were shown are not shown again.
    fn skip_shown_lists(&mut self) {
        let shown: Vec<_> = self.machine.response().output.iter().filter_map(listed_server).collect();
        for server in &mut self.prepared.servers {
            server.is_new &= !shown.iter().any(|label| **label == **server.label());
        }
    }

    /// Runs to the end, unless it waits for its client or is interrupted by a shutdown: then another process makes it.
    pub(crate) async fn drive_job(mut self: Box<Self>, left: LeftTurn) -> JobEnd {
        self.parts.metrics.run_started();
        let outcome = match AssertUnwindSafe(self.job_loop(left)).catch_unwind().await {
            Ok(Ok(ending)) => RunEnd::Ended(ending),
            Ok(Err(RunError::Failed(error))) if error.kind == ErrorKind::Aborted => {
                self.give_back().await;
                return JobEnd::GivenBack;
            }
            Ok(Err(RunError::Waits)) => {
                self.give_back().await;
                return JobEnd::Waits;
            }
            Ok(Err(stop)) => self.run_end(stop),
            Err(_panic) => {
                tracing::error!(request_id = %self.call.request_id, "a run panicked");
                self.run_end(RunError::Failed(ApiError::internal()))
            }
        };
        Box::pin(self.end(outcome)).await;
        JobEnd::Ended
    }

    /// What was sent is logged, so that the next process goes on behind it.
    async fn give_back(mut self: Box<Self>) {
        self.executor.cancel();
        self.sink.settle_log().await;
        self.prepared.leave_conversation();
        self.parts.metrics.run_given_back();
    }

    async fn job_loop(&mut self, left: LeftTurn) -> Result<Termination, RunError> {
        if !left.is_begun {
            let record = record::running(&self.prepared, self.machine.response());
            self.parts.store.update_running(record).await.map_err(ApiError::from)?;
            self.machine.begin(self.sink.events());
            self.flush().await?;
        }
        let ending = match self.finish_left_turn(left).await? {
            Some(ending) => ending,
            None => self.agent_loop().await?,
        };
        self.follow_started().await?;
        Ok(ending)
    }

    async fn finish_left_turn(&mut self, left: LeftTurn) -> Result<Option<Termination>, RunError> {
        let reports = left.seen.iter().filter(|event| event.is_progress()).count();
        self.machine.skip_events(reports as u64);
        let mut ending = None;
        if self.state.awaits_results {
            self.take_results(&left.asked)?;
            self.begin_turn_after_wait();
        } else if left.has_turn {
            match (left.asks_client, self.prepared.input_timeout) {
                (true, _) => self.take_answers(&left).await?,
                (false, timeout) => {
                    let have_failed = self.finish_left_calls(&left).await?;
                    if let Some(timeout) = timeout.filter(|_| left.waits_for.0) {
                        self.state.have_server_calls_failed = have_failed;
                        // Behind what was sent, even if a call has now less to show than it had.
                        self.machine.continue_at(left.next);
                        return Err(self.ask_client(timeout).await);
                    }
                    have_failed.map_or(Ok(()), |failed| self.count_failed_turn(failed))?;
                }
            }
            let output = self.machine.close_turn(self.sink.events())?;
            self.check_size()?;
            ending = match left.waits_for {
                (true, _) if !left.asks_client => Some(self.prepared.awaiting_client_status.clone()),
                (_, true) => Some(Termination::Completed),
                (_, false) => None,
            };
            self.append_history(output);
            self.begin_turn_after_wait();
        }
        if self.machine.replay(left.seen, left.next, true, self.sink.events())? {
            tracing::info!(request_id = %self.call.request_id, "an inference was interrupted; the model is asked again");
        }
        self.skip_shown_lists();
        self.flush().await?;
        self.spend_tokens()?;
        Ok(ending)
    }

    /// What the last turn leads to in the next one.
    fn begin_turn_after_wait(&mut self) {
        if std::mem::take(&mut self.state.has_exceeded_calls) {
            self.call_filter.exceed_limit();
        }
        if self.state.next == NextInference::Later || self.state.next == NextInference::Repair {
            self.call_filter.clear_required();
        }
        self.prepare_next_turn();
    }

    /// Finishes the calls of the last turn: with their results as far as these are known. One that may have been made is
    /// made again only if that does no harm.
    ///
    /// Returns whether all have failed: the turn was committed before it was counted.
    async fn finish_left_calls(&mut self, left: &LeftTurn) -> Result<Option<bool>, RunError> {
        self.close_left_questions(&left.asked);
        let mut have_failed = None;
        for (made, journaled) in left.calls.iter().zip(&left.journaled) {
            let JournaledResult { result, task, citations } = match &journaled.outcome {
                Some((output, error)) => {
                    let found = journal::journaled(output, error.clone());
                    self.note_journaled(journaled.index, error.as_deref(), found.result.is_async);
                    found
                }
                None => Box::pin(self.make_left_call(made, journaled, left)).await?,
            };
            self.state.add_sources(citations);
            have_failed = Some(have_failed.unwrap_or(true) && result.error.is_some());
            if result.is_async {
                self.start_async(made, (journaled.turn, journaled.index), task.as_deref()).await?;
            }
            if let Some(item) = self.machine.server_call_item(made.slot) {
                self.state.trace.note_item(journaled.index, item);
            }
            self.machine.finish_call(made.slot, result, self.sink.events())?;
            self.flush().await?;
        }
        Ok(have_failed)
    }

    /// The result of a call is known, but not when it came.
    fn note_journaled(&mut self, index: u32, error: Option<&str>, is_async: bool) {
        let kind = match error {
            Some(_) => CallOutcomeKind::Failed,
            None if is_async => CallOutcomeKind::Async,
            None => CallOutcomeKind::Completed,
        };
        self.state.trace.end_call(index, kind, error, None);
    }

    /// Questions of calls that went with their process are answered by nobody.
    fn close_left_questions(&self, asked: &[OrphanedCall]) {
        for question in user_questions::left_open(asked) {
            self.declare_unknown((question.turn, question.index));
        }
    }

    async fn make_left_call(
        &mut self,
        made: &ServerCall,
        journaled: &OrphanedCall,
        left: &LeftTurn,
    ) -> Result<JournaledResult, RunError> {
        let (turn, index) = (journaled.turn, journaled.index);
        let may_repeat = self.may_repeat(made);
        let outcome = match user_questions::asked(&left.asked, turn, index) {
            Asked::Round(round) => self.call_with_answers(made, journaled, round, left).await?,
            Asked::Nothing | Asked::MadeAgain if may_repeat => {
                let next = user_questions::next_number(&left.asked, turn, index);
                self.call_again(made, journaled, (next, left.next), None).await?
            }
            Asked::Nothing | Asked::MadeAgain => {
                self.declare_unknown((turn, index));
                self.state.trace.end_call(index, CallOutcomeKind::Unknown, Some(OUTCOME_UNKNOWN), None);
                return Ok(journal::journaled(UNKNOWN, Some(OUTCOME_UNKNOWN.to_owned())));
            }
        };
        let ended = self.ended_call(made, index, outcome)?;
        // A later call of the turn may ask: then this one is shown again by whoever goes on.
        if !self.prepared.elicitation.is_empty() {
            self.keep_shown(turn, &ended);
        }
        Ok(ended.into_journaled())
    }

    fn may_repeat(&self, made: &ServerCall) -> bool {
        let binding = self.prepared.offer.binding(made.call.namespace.as_deref(), &made.call.name);
        binding.is_some_and(|binding| binding.tool.may_repeat())
    }

    fn declare_unknown(&self, (turn, index): (u32, u32)) {
        self.parts.store.record_tool_result(CallOutcome {
            lease: self.prepared.lease.clone(),
            turn,
            index,
            output: UNKNOWN.to_owned(),
            error: Some(OUTCOME_UNKNOWN),
        });
    }

    /// `max_output_tokens` is for the whole response: the tokens of the turns before are spent.
    fn spend_tokens(&mut self) -> Result<(), RunError> {
        let spent = self.machine.usage().output_tokens;
        let Some(max) = self.prepared.model_request.max_output_tokens.filter(|_| spent > 0) else {
            return Ok(());
        };
        let left = max.saturating_sub(spent);
        self.prepared.model_request_mut().max_output_tokens = Some(left);
        if left == 0 { Err(RunError::LimitReached("max_output_tokens")) } else { Ok(()) }
    }
}

/// The server whose tools an item lists.
fn listed_server(item: &Item) -> Option<String> {
    match item {
        Item::McpListTools(list) => Some(list.server_label.clone()),
        _ => None,
    }
}
