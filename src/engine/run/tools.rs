//! The server-side calls of one turn: checked against the limits of tokens, cost and identical calls, committed,
//! executed, and emitted as they end.

use std::future::pending;

use futures_util::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc;

use super::held_questions::HeldQuestions;
use super::live::{Run, RunError};
use super::questions::{AskingCall, ToolResult};
use super::state::RunTime;
use crate::bus::Bus;
use crate::engine::tool_executor::TurnCalls;
use crate::engine::user_questions;
use crate::protocol::error::{ApiError, ErrorKind};
use crate::response::machine::ServerCall;
use crate::tools::FailureStage;

/// Progress reports that wait to be emitted; further ones are dropped.
const PROGRESS_CAPACITY: usize = 16;

/// Progress of running calls, if it is wanted: the slot and the message.
type Reports = Option<mpsc::Receiver<(u32, String)>>;

impl Run {
    /// Executes the calls of a turn and emits their results. Returns whether all have failed.
    pub(super) async fn run_calls(&mut self, calls: &[ServerCall]) -> Result<bool, RunError> {
        self.check_limits(calls)?;
        self.dispatch(calls).await
    }

    /// Counts the calls against the limits of the run, before they are made.
    pub(super) fn check_limits(&mut self, calls: &[ServerCall]) -> Result<(), RunError> {
        let limits = &self.prepared.limits;
        if let Some(limit) = limits.reached_by(&self.machine.usage()) {
            return Err(RunError::LimitReached(limit));
        }
        if self.state.exceeds_repeat_limit(calls, limits.run.max_identical_calls) {
            return Err(RunError::LimitReached("max_identical_calls"));
        }
        Ok(())
    }

    /// Executes calls and emits their results. Returns whether all have failed.
    pub(super) async fn dispatch(&mut self, calls: &[ServerCall]) -> Result<bool, RunError> {
        // The log of events must not end before the state that is committed with the turn.
        self.sink.settle_log().await;
        let turn = self.state.journaled_turns;
        self.state.note_active(self.started);
        let made = TurnCalls::Server(calls);
        self.executor.commit(&self.prepared, &self.machine, &mut self.state, made, &self.parts.seal).await?;
        self.machine.dispatch_calls();
        self.state.tool_calls += u32::try_from(calls.len()).unwrap_or(u32::MAX);
        let offer = &self.prepared.offer;
        let runner =
            |made: &ServerCall| offer.binding(made.call.namespace.as_deref(), &made.call.name).cloned();
        let id = self.prepared.response.id.clone();
        let (listener, mut reports) =
            self.prepared.reports_progress.then(|| mpsc::channel(PROGRESS_CAPACITY)).unzip();
        let bus = self.parts.in_flight.bus().clone();
        let shows_questions = !self.prepared.elicitation.is_empty();
        let mut held = shows_questions.then(|| HeldQuestions::new(&bus, &id, turn));
        let asker = |call| self.asker(held.as_ref(), call);
        let mut outcomes = self.executor.execute(&id, turn, calls, listener.as_ref(), (runner, asker));
        drop(listener);
        let (mut all_failed, mut asking) = (true, Vec::new());
        for (index, made) in (0_u32..).zip(calls) {
            // The client of a stream sees the running calls, unless they end at once.
            let ready = outcomes.next().now_or_never();
            let outcome = match ready {
                Some(outcome) => outcome,
                None => {
                    self.flush().await?;
                    self.outcome_of(&mut outcomes, &mut reports, &mut held).await?
                }
            };
            let Some(outcome) = outcome else { break };
            let outcome = match user_questions::required(outcome) {
                Ok(outcome) => outcome,
                Err(required) => {
                    let first = held.as_ref().map_or(0, |held| held.next_number(index));
                    asking.push(AskingCall { index, slot: made.slot, rounds: 0, first, required: *required });
                    continue;
                }
            };
            // Results behind a call that asks are shown when that has its own.
            if !asking.is_empty() && !is_fatal(&outcome) {
                continue;
            }
            // Tools have the run's deadline, too: if it has passed, that is what ends the run, not the tool's
            // timeout.
            self.check_deadline()?;
            let task = outcome.as_ref().ok().and_then(|output| output.task.clone());
            let result = self.executor.result(made, outcome, &mut self.state)?;
            let ended = RunTime::now(self.started);
            if let Some(times) = self.state.inference() {
                times.results.push(ended);
            }
            all_failed &= result.error.is_some();
            if result.is_async {
                Box::pin(self.start_async(made, (turn, index), task.as_deref())).await?;
            }
            self.machine.finish_call(made.slot, result, self.sink.events())?;
        }
        drop(outcomes);
        if let Some(held) = &mut held {
            self.end_questions(held);
        }
        if !asking.is_empty() {
            return Err(Box::pin(self.ask_required(turn, asking)).await);
        }
        Ok(all_failed)
    }

    /// Waits for the next result, and emits progress and questions meanwhile.
    pub(super) async fn outcome_of(
        &mut self,
        outcomes: &mut (impl Stream<Item = ToolResult> + Unpin),
        reports: &mut Reports,
        held: &mut Option<HeldQuestions>,
    ) -> Result<Option<ToolResult>, RunError> {
        let bus = self.parts.in_flight.bus().clone();
        loop {
            // The call that has asked may be the one that is shown now.
            if let Some(held) = held.as_mut().filter(|held| held.has_untold()) {
                Box::pin(self.serve_questions(held)).await?;
            }
            let next = async {
                tokio::select! {
                    biased;
                    outcome = outcomes.next() => Signal::Outcome(outcome),
                    Some(report) = reported(reports) => Signal::Progress(report),
                    () = changed(held, &bus) => Signal::Questions,
                }
            };
            match self.until_cancelled(next).await? {
                Signal::Outcome(outcome) => {
                    if let Some(held) = held {
                        // It may have been the call that has asked.
                        Box::pin(self.serve_questions(held)).await?;
                    }
                    return Ok(outcome);
                }
                Signal::Questions => {
                    if let Some(held) = held {
                        Box::pin(self.serve_questions(held)).await?;
                    }
                }
                Signal::Progress((slot, message)) => {
                    // A tool that never stops reporting must not keep the run alive.
                    self.check_deadline()?;
                    self.machine.report_progress(slot, message, self.sink.events())?;
                    self.flush().await?;
                }
            }
        }
    }

    pub(super) fn count_failed_turn(&mut self, failed: bool) -> Result<(), RunError> {
        self.state.failed_turns = if failed { self.state.failed_turns + 1 } else { 0 };
        if self.state.failed_turns < self.prepared.limits.run.max_consecutive_failures {
            return Ok(());
        }
        Err(RunError::Failed(
            ApiError::new(
                ErrorKind::Internal,
                format!("Every tool call of {} turns in a row failed.", self.state.failed_turns),
            )
            .with_code("tool_failures_exceeded"),
        ))
    }
}

/// The next progress report, if reports are wanted.
async fn reported(reports: &mut Reports) -> Option<(u32, String)> {
    reports.as_mut()?.recv().await
}

/// What there is while calls are under way.
enum Signal {
    /// The next call has ended; `None`: all have.
    Outcome(Option<ToolResult>),
    /// A call reports progress.
    Progress((u32, String)),
    /// A call asks the user, or may have its answer.
    Questions,
}

/// Returns when there is something to do for the questions of calls, if the client shows them.
async fn changed(held: &mut Option<HeldQuestions>, bus: &Bus) {
    match held {
        Some(held) => held.changed(bus).await,
        None => pending().await,
    }
}

fn is_fatal(outcome: &ToolResult) -> bool {
    outcome.as_ref().is_err_and(|error| error.stage == FailureStage::Fatal)
}
