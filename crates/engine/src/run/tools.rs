//! The server-side calls of one turn: checked against the limits of tokens, cost and identical calls, committed,
//! executed, and emitted as they end.

use std::future::pending;

use futures_util::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc;

use super::held_questions::HeldQuestions;
use super::live::{Run, RunError};
use super::questions::{AskingCall, ToolResult};
use super::trace;
use super::trace::{CallOutcomeKind, CallRecord};
use crate::journal::{self, JournaledResult};
use crate::tool_executor::TurnCalls;
use crate::user_questions;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_response::machine::{CallResult, ServerCall};
use antwort_store::CallOutcome;
use antwort_tools::{CallKey, Citation, OutputMeta, StartedTask, ToolErrorCode};

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
        self.begin_call_records(turn, calls);
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
        let mut held = self.held_questions(turn, 0);
        let shows_questions = held.is_some();
        let asker = |call| self.asker(held.as_ref(), call);
        let mut outcomes = self.executor.execute(&id, turn, calls, listener.as_ref(), (runner, asker));
        drop(listener);
        let (mut all_failed, mut asking, mut ended) = (true, Vec::new(), Vec::new());
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
                    let first = held.as_mut().map_or(0, |held| held.ends_with_questions(index));
                    asking.push(AskingCall { index, slot: made.slot, rounds: 0, first, required: *required });
                    continue;
                }
            };
            // Tools have the run's deadline, too: if it has passed, that is what ends the run, not the tool's
            // timeout.
            self.check_deadline()?;
            let call = self.ended_call(made, index, outcome)?;
            all_failed &= call.result.error.is_some();
            // Results behind a call that asks are shown when that has its own. What is shown may have to be shown again.
            let kept = shows_questions.then(|| call.clone());
            if asking.is_empty() {
                self.show_ended(turn, call).await?;
            }
            ended.extend(kept);
        }
        drop((outcomes, held));
        self.go_on_with_time();
        if !asking.is_empty() {
            // Whoever goes on shows what was shown, whatever the layers of a tool have made of its result.
            ended.iter().for_each(|call| self.keep_shown(turn, call));
            return Err(Box::pin(self.ask_required((turn, 0), asking)).await);
        }
        Ok(all_failed)
    }

    /// The result of a call that has ended.
    pub(super) fn ended_call<'a>(
        &mut self,
        made: &'a ServerCall,
        index: u32,
        mut outcome: ToolResult,
    ) -> Result<EndedCall<'a>, RunError> {
        self.check_shutdown(&outcome)?;
        let output = outcome.as_mut().ok();
        let (task, citations) = match output {
            Some(output) => (output.task.take(), output.citations.clone()),
            None => (None, Vec::new()),
        };
        self.end_call_record(index, &outcome);
        let result = self.executor.result(made, outcome, &mut self.state)?;
        Ok(EndedCall { made, index, result, task, citations })
    }

    /// A shutdown aborts the calls, too, which is no failure of theirs.
    fn check_shutdown(&self, outcome: &ToolResult) -> Result<(), RunError> {
        let is_cancelled = matches!(outcome, Err(error) if error.code == ToolErrorCode::Cancelled);
        match is_cancelled && self.parts.in_flight.abort_token().is_cancelled() {
            true => Err(RunError::shutdown()),
            false => Ok(()),
        }
    }

    fn begin_call_records(&mut self, turn: u32, calls: &[ServerCall]) {
        let response = &self.prepared.response.id;
        let record = |(index, made): (u32, &ServerCall)| CallRecord {
            call_id: match self.machine.server_call_item(made.slot) {
                Some(item) => item.as_str().to_owned(),
                None => CallKey { response: response.clone(), turn, index }.to_string(),
            },
            name: trace::short(&made.call.name),
            ..CallRecord::default()
        };
        self.state.trace.begin_calls((0..).zip(calls).map(record));
    }

    fn end_call_record(&mut self, index: u32, outcome: &ToolResult) {
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
        self.state.trace.end_call(index, kind, error, Some(meta.unwrap_or(&OutputMeta::default())));
    }

    /// Emits the result of a call.
    async fn show_ended(&mut self, turn: u32, call: EndedCall<'_>) -> Result<(), RunError> {
        if call.result.is_async {
            Box::pin(self.start_async(call.made, (turn, call.index), call.task.as_deref())).await?;
        }
        if let Some(item) = self.machine.server_call_item(call.made.slot) {
            self.state.trace.note_item(call.index, item);
        }
        self.machine.finish_call(call.made.slot, call.result, self.sink.events())?;
        Ok(())
    }

    /// Writes a result as it is shown to the journal.
    pub(super) fn keep_shown(&self, turn: u32, call: &EndedCall<'_>) {
        self.parts.store.record_tool_result(CallOutcome {
            lease: self.prepared.lease.clone(),
            turn,
            index: call.index,
            output: journal::shown(&call.result, call.task.as_deref(), call.citations.clone()),
            error: call.result.error.is_some().then_some(ToolErrorCode::ToolExecutionFailed.as_str()),
        });
    }

    /// Waits for the next result, and emits progress and questions meanwhile.
    pub(super) async fn outcome_of(
        &mut self,
        outcomes: &mut (impl Stream<Item = ToolResult> + Unpin),
        reports: &mut Reports,
        held: &mut Option<HeldQuestions>,
    ) -> Result<Option<ToolResult>, RunError> {
        loop {
            // The call that has asked may be the one that is shown now.
            if let Some(held) = held.as_mut().filter(|held| held.has_untold()) {
                Box::pin(self.tell_questions(held)).await?;
            }
            let next = async {
                tokio::select! {
                    biased;
                    outcome = outcomes.next() => Ok(outcome),
                    Some(report) = reported(reports) => Err(Meanwhile::Progress(report)),
                    () = changed(held) => Err(Meanwhile::Questions),
                }
            };
            match self.until_cancelled(next).await? {
                // It may be that of the call that has asked.
                Ok(outcome) => {
                    self.serve_held(held).await?;
                    return Ok(outcome);
                }
                Err(Meanwhile::Questions) => self.serve_held(held).await?,
                Err(Meanwhile::Progress((slot, message))) => {
                    // A tool that never stops reporting must not keep the run alive.
                    self.check_deadline()?;
                    self.machine.report_progress(slot, message, self.sink.events())?;
                    self.flush().await?;
                }
            }
        }
    }

    async fn serve_held(&mut self, held: &mut Option<HeldQuestions>) -> Result<(), RunError> {
        match held {
            Some(held) => Box::pin(self.serve_questions(held)).await,
            None => Ok(()),
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

/// What there is while calls are under way.
enum Meanwhile {
    /// A call reports progress.
    Progress((u32, String)),
    /// A call asks the user, or may have its answer.
    Questions,
}

/// Returns when there is something to do for the questions of calls, if the client shows them.
async fn changed(held: &mut Option<HeldQuestions>) {
    match held {
        Some(held) => held.changed().await,
        None => pending().await,
    }
}
