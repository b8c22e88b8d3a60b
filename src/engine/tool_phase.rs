//! The calls of one turn: counted against the limits, committed, made, and shown as they end.

use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;

use super::run::{Run, RunError};
use crate::protocol::error::ApiError;
use crate::response::machine::ServerCall;
use crate::tools::{ToolError, ToolOutput};

/// Reports of running tools that wait to be shown; more are dropped.
const PROGRESS_CAPACITY: usize = 16;

/// What came of a call.
type ToolResult = Result<ToolOutput, ToolError>;

impl Run {
    /// Runs what the model asked the gateway to run, and shows what came of it.
    pub(super) async fn run_calls(&mut self, calls: &[ServerCall]) -> Result<(), RunError> {
        self.check_limits(calls)?;
        self.dispatch(calls).await
    }

    /// Counts the calls, which are about to be made, against the limits of the run.
    pub(super) fn check_limits(&mut self, calls: &[ServerCall]) -> Result<(), RunError> {
        let limits = &self.prepared.limits;
        if let Some(limit) = limits.reached_by(&self.machine.usage()) {
            return Err(RunError::LimitReached(limit));
        }
        if self.executor.exceeds_repeat_limit(calls, limits.run.max_identical_calls) {
            return Err(RunError::LimitReached("max_identical_calls"));
        }
        Ok(())
    }

    /// Makes calls and shows what comes of them.
    pub(super) async fn dispatch(&mut self, calls: &[ServerCall]) -> Result<(), RunError> {
        self.recorded = self
            .executor
            .commit(&self.prepared, &self.machine, self.recorded, self.journaled_turns, calls)
            .await?;
        let turn = self.journaled_turns;
        self.journaled_turns += 1;
        self.machine.dispatch_calls();
        self.tool_calls += u32::try_from(calls.len()).unwrap_or(u32::MAX);
        let offer = &self.prepared.offer;
        let runner =
            |made: &ServerCall| offer.binding(made.call.namespace.as_deref(), &made.call.name).cloned();
        let id = self.prepared.response.id.clone();
        let (listener, mut reports) =
            self.prepared.reports_progress.then(|| mpsc::channel(PROGRESS_CAPACITY)).unzip();
        let mut outcomes = self.executor.execute(&id, turn, calls, listener.as_ref(), runner);
        drop(listener);
        let mut all_failed = true;
        for made in calls {
            // Whoever follows the stream sees what runs, unless it is over before it could be seen.
            let ready = outcomes.next().now_or_never();
            let outcome = match ready {
                Some(outcome) => outcome,
                None => {
                    self.flush().await?;
                    self.outcome_of(&mut outcomes, &mut reports).await?
                }
            };
            let Some(outcome) = outcome else { break };
            // Tools have the run's deadline, too: that one of them kept it is not the news.
            self.check_deadline()?;
            let result = self.executor.result(made, outcome)?;
            all_failed &= result.error.is_some();
            self.machine.finish_call(made.slot, result, self.sink.events())?;
        }
        drop(outcomes);
        self.count_failed_turn(all_failed)
    }

    /// Waits for what came of a call, and shows meanwhile how far calls have come.
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
                    // A tool that never stops reporting keeps no run alive.
                    self.check_deadline()?;
                    self.machine.report_progress(slot, message, self.sink.events())?;
                    self.flush().await?;
                }
            }
        }
    }

    fn count_failed_turn(&mut self, failed: bool) -> Result<(), RunError> {
        self.failed_turns = if failed { self.failed_turns + 1 } else { 0 };
        if self.failed_turns < self.prepared.limits.run.max_consecutive_failures {
            return Ok(());
        }
        Err(RunError::Failed(ApiError::new(
            500,
            "server_error",
            "tool_failures_exceeded",
            format!("Every tool call of {} turns in a row failed.", self.failed_turns),
        )))
    }
}

/// A report of a running tool, for those who listen.
async fn reported(reports: &mut Option<mpsc::Receiver<(u32, String)>>) -> Option<(u32, String)> {
    reports.as_mut()?.recv().await
}
