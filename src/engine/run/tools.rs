//! The server-side calls of one turn: checked against the limits of tokens, cost and identical calls, committed,
//! executed, and emitted as they end.

use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;

use super::live::{Run, RunError};
use super::state::RunTime;
use crate::engine::tool_executor::TurnCalls;
use crate::protocol::error::{ApiError, ErrorKind};
use crate::response::machine::ServerCall;
use crate::tools::{ToolError, ToolOutput};

/// Progress reports that wait to be emitted; further ones are dropped.
const PROGRESS_CAPACITY: usize = 16;

type ToolResult = Result<ToolOutput, ToolError>;

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
        let mut outcomes = self.executor.execute(&id, turn, calls, listener.as_ref(), runner);
        drop(listener);
        let mut all_failed = true;
        for (index, made) in (0_u32..).zip(calls) {
            // The client of a stream sees the running calls, unless they end at once.
            let ready = outcomes.next().now_or_never();
            let outcome = match ready {
                Some(outcome) => outcome,
                None => {
                    self.flush().await?;
                    self.outcome_of(&mut outcomes, &mut reports).await?
                }
            };
            let Some(outcome) = outcome else { break };
            // Tools have the run's deadline, too: if it has passed, that is what ends the run, not the tool's
            // timeout.
            self.check_deadline()?;
            let result = self.executor.result(made, outcome, &mut self.state)?;
            let ended = RunTime::now(self.started);
            if let Some(times) = self.state.inference() {
                times.results.push(ended);
            }
            all_failed &= result.error.is_some();
            if result.is_async {
                Box::pin(self.start_async(made, (turn, index))).await?;
            }
            self.machine.finish_call(made.slot, result, self.sink.events())?;
        }
        drop(outcomes);
        Ok(all_failed)
    }

    /// Waits for the next result, and emits progress meanwhile.
    async fn outcome_of(
        &mut self,
        outcomes: &mut (impl futures_util::Stream<Item = ToolResult> + Unpin),
        reports: &mut Option<mpsc::Receiver<(u32, String)>>,
    ) -> Result<Option<ToolResult>, RunError> {
        loop {
            let next = async {
                tokio::select! {
                    biased;
                    outcome = outcomes.next() => Ok(outcome),
                    Some(report) = reported(reports) => Err(report),
                }
            };
            match self.until_cancelled(next).await? {
                Ok(outcome) => return Ok(outcome),
                Err((slot, message)) => {
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
async fn reported(reports: &mut Option<mpsc::Receiver<(u32, String)>>) -> Option<(u32, String)> {
    reports.as_mut()?.recv().await
}
