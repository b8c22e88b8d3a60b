//! Ends runs that no process drives any more: their process is gone, or their end could not be stored.
//!
//! What is left of a run is loaded into a machine, which ends the response as it would have been ended by its own
//! process: journaled results are shown, calls without a result are declared unknown and never repeated, and the
//! response is `failed`, or `cancelled` if its owner wanted that.

use std::sync::Arc;
use std::time::Duration;

use super::context::{EngineParts, unix_now};
use super::resume_point::{self, CommittedPhase, ResumePoint, calls_of};
use super::run::SavedRun;
use super::seen_log::SeenLog;
use super::user_questions::{self, Asked};
use super::webhooks::Webhooks;
use super::{client_answers, event_log, record, seen_log, task_polls};
use antwort_config::{OnComplete, ToolsSettings};
use antwort_protocol::dialect::Dialect;
use antwort_protocol::error::ErrorBody;
use antwort_protocol::event::EventEncoder;
use antwort_protocol::id::Id;
use antwort_protocol::item::Item;
use antwort_protocol::response::{Response, RunOutcome};
use antwort_response::machine::{
    ClosedResponse, Events, MachineOptions, MachineState, ResponseMachine, SeenEvent, ServerCall,
    Termination, Violation,
};
use antwort_response::presentation::Presentation;
use antwort_response::seal::SealKeys;
use antwort_response::turn::{CallKind, ModelEvent};
use antwort_store::{
    AsyncCallKey, AsyncResult, Direction, LogEnd, LogExtent, LogKept, LogState, LoggedEvents, OrphanCause,
    OrphanedCall, OrphanedRun, PendingSource, ResponseRecord, StartedCall, Store, StoreError,
};
use antwort_telemetry::fields::{CODE, RESPONSE_ID};

/// Runs that are taken over at a time.
const BATCH: usize = 50;

/// Ends orphaned runs of a store.
pub struct Recovery {
    store: Arc<dyn Store>,
    keys: Arc<SealKeys>,
    webhooks: Arc<Webhooks>,
    callback_timeout: Duration,
}

/// An orphaned run that was ended.
#[derive(Debug)]
pub struct RecoveredRun {
    /// The response's id.
    pub id: Id,
    /// The events that end it; the last one is the terminal event.
    pub events: Events,
}

impl Recovery {
    /// Recovery in this store; the keys open the state of runs.
    pub fn new(store: Arc<dyn Store>, keys: Arc<SealKeys>) -> Self {
        Self {
            store,
            keys,
            webhooks: Arc::default(),
            callback_timeout: ToolsSettings::default().callback_timeout,
        }
    }

    /// Recovery in the store of an engine.
    pub(super) fn of(parts: &EngineParts) -> Self {
        Self::new(Arc::clone(&parts.store), Arc::clone(&parts.seal))
            .with_webhooks(Arc::clone(&parts.options.webhooks))
            .with_callback_timeout(parts.options.tools.callback_timeout)
    }

    /// Tells these of the end of responses.
    #[must_use]
    pub fn with_webhooks(self, webhooks: Arc<Webhooks>) -> Self {
        Self { webhooks, ..self }
    }

    /// How long results of asynchronous calls are waited for.
    #[must_use]
    pub fn with_callback_timeout(self, callback_timeout: Duration) -> Self {
        Self { callback_timeout, ..self }
    }

    /// Ends all orphaned runs. An error is one of the store; what is left is taken over when its lease has expired.
    pub async fn run(&self) -> Result<Vec<RecoveredRun>, StoreError> {
        let mut recovered = Vec::new();
        loop {
            let orphans = self.store.take_orphaned(BATCH).await?;
            if orphans.is_empty() {
                break;
            }
            for orphan in orphans {
                match self.end(&orphan).await {
                    Ok(run) => recovered.push(run),
                    // Another process has taken it over meanwhile.
                    Err(StoreError::Superseded) => {}
                    Err(error @ StoreError::Unavailable(_)) => return Err(error),
                    // It is tried again when its lease has expired; the others do not wait for that.
                    Err(error) => {
                        tracing::warn!({ RESPONSE_ID } = orphan.lease.id.as_str(), %error, "ending an orphaned response failed");
                    }
                }
            }
        }
        if !recovered.is_empty() {
            tracing::warn!(
                responses = recovered.len(),
                "marked orphaned responses as failed (their process stopped, or their final state could not be written)"
            );
        }
        Ok(recovered)
    }

    async fn end(&self, orphan: &OrphanedRun) -> Result<RecoveredRun, StoreError> {
        self.declare_unknown(orphan);
        let mut events = Events::new();
        let id = orphan.lease.id.clone();
        let logged = match self.store.log_state(&orphan.owner, &id).await? {
            Some(LogState { log: LogKept::Kept(extent), .. }) => Some(extent),
            _ => None,
        };
        let is_cancelled = orphan.is_cancelled;
        let ending = match is_cancelled {
            true => Termination::Cancelled,
            false => Termination::Failed(error(orphan.cause)),
        };
        match self.close(orphan, logged, Vec::new(), ending, &mut events) {
            Ok(Ended { closed, stored, trace, encoder, started }) => {
                self.store_started(orphan, started, is_cancelled).await?;
                closed.emit_terminal_event(true, &mut events);
                let outbox = self.webhooks.notices(&orphan.owner, &closed.snapshot.response, unix_now());
                let record = ResponseRecord { outbox, ..record::recovered(orphan, &closed, (stored, trace)) };
                match logged.and_then(|logged| Some(log_end(logged, event_log::logged(encoder, &events)?))) {
                    Some(end) => self.store.finish_logged(record, end).await?,
                    None => self.store.finish(record).await?,
                }
                log_failure(&closed);
            }
            Err(error) => {
                tracing::error!({ RESPONSE_ID } = id.as_str(), %error, "the row of an orphaned response cannot be read");
                self.store.finish(record::unreadable(orphan)).await?;
            }
        }
        Ok(RecoveredRun { id, events })
    }

    /// Ends a background run that is made no more. What was sent of it is kept: its followers have seen it.
    pub(super) async fn end_job(&self, run: &OrphanedRun, ending: Termination) -> Result<(), StoreError> {
        self.declare_unknown(run);
        let tenant = &run.owner.tenant;
        let saved = run.state.as_deref().and_then(|sealed| SavedRun::open(&self.keys, tenant, sealed));
        let from = saved.map_or(0, |saved| saved.machine.sequence());
        let seen = seen_log::seen(&*self.store, run, from).await?;
        let next = seen.next;
        let is_cancelled = matches!(ending, Termination::Cancelled);
        let mut events = Events::new();
        let extent = next.map(|next| LogExtent { begun: next, next, replaced_from: None });
        match self.close(run, extent, seen.events, ending, &mut events) {
            Ok(Ended { closed, stored, trace, encoder, started }) => {
                self.store_started(run, started, is_cancelled).await?;
                closed.emit_terminal_event(true, &mut events);
                events.retain(|event| next.is_some_and(|next| event.sequence_number >= next));
                let outbox = self.webhooks.notices(&run.owner, &closed.snapshot.response, unix_now());
                let record = ResponseRecord { outbox, ..record::recovered(run, &closed, (stored, trace)) };
                let events = event_log::logged(encoder, &events);
                let keep_below = next.is_none().then_some(0);
                let is_unlisted = !closed.snapshot.response.echo.store;
                self.store.finish_logged(record, LogEnd { keep_below, events, is_unlisted }).await?;
                log_failure(&closed);
                Ok(())
            }
            Err(error) => {
                let id = run.lease.id.as_str();
                tracing::error!({ RESPONSE_ID } = id, %error, "the row of a background response cannot be read");
                self.store.finish(record::unreadable(run)).await
            }
        }
    }

    /// Writes that the work of calls goes on, of which that is not written: their results are stored. Nobody looks for that of a task any
    /// more, whose caller is not known.
    async fn store_started(
        &self,
        orphan: &OrphanedRun,
        started: Vec<StartedAsync>,
        is_cancelled: bool,
    ) -> Result<(), StoreError> {
        for StartedAsync { turn, index, item, tool, is_task } in started {
            let place = (PendingSource::Async, turn, index);
            let mut rows = orphan.pending.iter();
            // A result may have come before its call was written.
            if rows.any(|row| (row.source, row.turn, row.index) == place && row.outcome.is_none()) {
                continue;
            }
            let (owner, response) = (orphan.owner.clone(), orphan.lease.id.clone());
            let key = AsyncCallKey { owner, response, turn, index };
            let call = StartedCall {
                key: key.clone(),
                item,
                tool,
                on_complete: OnComplete::Store.as_str(),
                spec: None,
                timeout: if is_task { Duration::ZERO } else { self.callback_timeout },
                task: None,
            };
            let timeout = call.timeout;
            self.store.start_async(call).await?;
            if is_task && is_cancelled {
                let (output, error) = task_polls::cancelled();
                self.store.complete_async(AsyncResult { key, output, error, timeout }).await?;
            }
        }
        Ok(())
    }

    /// Writes to the journal that the outcome of calls without a result is unknown.
    fn declare_unknown(&self, orphan: &OrphanedRun) {
        let is_unknown = |call: &&OrphanedCall| call.outcome.is_none() && !waits_for_user(orphan, call);
        for call in orphan.calls.iter().filter(is_unknown) {
            resume_point::declare_unknown(&*self.store, &orphan.lease, (call.turn, call.index));
        }
    }

    /// Closes the response through its machine. Its events follow those of the log that are kept.
    fn close(
        &self,
        orphan: &OrphanedRun,
        logged: Option<LogExtent>,
        seen: Vec<SeenEvent>,
        ending: Termination,
        events: &mut Events,
    ) -> Result<Ended, serde_json::Error> {
        let tenant = &orphan.owner.tenant;
        let saved = orphan.state.as_deref().and_then(|sealed| SavedRun::open(&self.keys, tenant, sealed));
        let output = output(orphan)?;
        let trace = saved.as_ref().map(|saved| saved.state.trace.clone());
        let awaited_results = saved.as_ref().is_some_and(|saved| saved.state.awaits_results);
        // Of a state and items that do not fit together, the items count.
        let saved = saved.filter(|saved| saved.machine.unfinished() <= output.len());
        // What was sent is shown whether or not the state can be read.
        let point = saved.as_ref().map(|saved| ResumePoint::of(orphan, saved, SeenLog::default()));
        let dialect = saved.as_ref().map_or_else(|| dialect_of(&output), |saved| saved.output.dialect);
        let mut response = Response::from_stored(&orphan.body, dialect)?;
        let place = output.len();
        response.output.extend(output);
        let (turns, encoder, options, state) = match saved {
            Some(SavedRun { output, state, machine, .. }) => {
                let seal = self.keys.bound_to(tenant, &output.provider);
                (state.turns(), output.encoder(), output.machine_options(seal), machine)
            }
            None => (
                inferences(orphan),
                EventEncoder { dialect, obfuscate: false },
                MachineOptions::default(),
                MachineState::after_items(place, first_event(orphan, logged)),
            ),
        };
        let stored = state.unfinished();
        let mut machine = ResponseMachine::resume(response, state, options);
        machine.skip_events(seen_log::progress_events(&seen));
        // A violation cannot change the ending any more; as much as possible is shown.
        let mut started = Vec::new();
        let _shown = match point {
            Some(point) => finish_turn(&mut machine, orphan, (&point, &seen), &mut started, events),
            None if awaited_results => machine.close_turn(events).map(drop),
            // Nothing is known of the run but its journal.
            None => finish_journaled(&mut machine, orphan, &mut started, events),
        };
        if let Some(logged) = logged.filter(|_| !seen.is_empty()) {
            let _shown = machine.replay(seen, logged.next, false, events);
        }
        let outcome = RunOutcome { turns, structured: None };
        let closed = machine.close_response(ending, outcome, unix_now(), events);
        let trace = trace.and_then(|mut trace| trace.end_lost(&closed.aborted_calls));
        Ok(Ended { closed, stored, trace: trace.map(Arc::from), encoder, started })
    }
}

/// As for a response that fails in its own process.
fn log_failure(ClosedResponse { snapshot, .. }: &ClosedResponse) {
    let Some(error) = &snapshot.response.error else { return };
    let (id, code) = (snapshot.response.id.as_str(), error.code.as_deref().unwrap_or_default());
    tracing::warn!({ { RESPONSE_ID } = id, { CODE } = code }, "a response failed");
}

/// A response that was ended.
struct Ended {
    closed: ClosedResponse,
    /// How many of its output items are stored as they are.
    stored: usize,
    /// The account of its run, if one is known.
    trace: Option<Arc<str>>,
    /// How its events were encoded before.
    encoder: EventEncoder,
    /// Its calls whose work goes on, of which nothing was written yet.
    started: Vec<StartedAsync>,
}

/// A call whose work goes on.
struct StartedAsync {
    turn: u32,
    index: u32,
    item: Id,
    tool: String,
    /// It is a task of an MCP server.
    is_task: bool,
}

/// How a log ends with these events. Text that was streamed since the last commit is lost, and its events with it.
fn log_end(logged: LogExtent, events: LoggedEvents) -> LogEnd {
    // The log was given up before the state was saved: a stream with a gap must not look whole.
    if events.first > logged.next {
        return LogEnd { keep_below: Some(0), events: None, is_unlisted: false };
    }
    LogEnd { keep_below: Some(events.first), events: Some(events), is_unlisted: false }
}

/// The sequence number of the first event of a run of which no state is known: behind all events that were logged, or
/// behind those that it was begun with, if it has no turn whose calls they may show.
fn first_event(orphan: &OrphanedRun, logged: Option<LogExtent>) -> u64 {
    logged.map_or(0, |logged| if orphan.calls.is_empty() { logged.begun } else { logged.next })
}

/// The output items that were committed.
fn output(orphan: &OrphanedRun) -> Result<Vec<Item>, serde_json::Error> {
    let output = orphan.items.iter().filter(|item| item.direction == Direction::Output);
    output.map(|item| serde_json::from_str(&item.wire)).collect()
}

/// Ends the turn that was committed last: its calls are shown with their results, as far as these are known.
fn finish_turn(
    machine: &mut ResponseMachine,
    orphan: &OrphanedRun,
    (point, seen): (&ResumePoint, &[SeenEvent]),
    started: &mut Vec<StartedAsync>,
    events: &mut Events,
) -> Result<(), Violation> {
    match point.phase {
        CommittedPhase::WaitsForClient => finish_client_calls(machine, orphan, seen, events),
        CommittedPhase::Begin | CommittedPhase::Calls | CommittedPhase::WaitsForResults => {
            let calls = point.calls.iter().map(|call| (call.made.slot, &call.row));
            finish_calls(machine, orphan, calls, started, events)
        }
    }
}

/// The same of a run of which only the calls of its last turn are known.
fn finish_journaled(
    machine: &mut ResponseMachine,
    orphan: &OrphanedRun,
    started: &mut Vec<StartedAsync>,
    events: &mut Events,
) -> Result<(), Violation> {
    let asked_client = orphan.pending.iter().filter(|call| call.source == PendingSource::Client);
    let behind = asked_client.map(|call| call.turn).max();
    // Calls behind which the client was asked are among the items that were committed then.
    let last =
        orphan.calls.iter().map(|call| call.turn).max().filter(|turn| behind.is_none_or(|at| at < *turn));
    let rows: Vec<_> = last.into_iter().flat_map(|turn| calls_of(orphan, turn)).collect();
    let calls = begin_calls(machine, &rows, events)?;
    finish_calls(machine, orphan, calls.iter().map(|call| call.slot).zip(rows), started, events)
}

/// Shows calls with their results.
fn finish_calls<'a>(
    machine: &mut ResponseMachine,
    orphan: &OrphanedRun,
    calls: impl Iterator<Item = (u32, &'a OrphanedCall)>,
    started: &mut Vec<StartedAsync>,
    events: &mut Events,
) -> Result<(), Violation> {
    for (slot, row) in calls {
        let found = resume_point::result(row).unwrap_or_else(|| match waits_for_user(orphan, row) {
            true => resume_point::unanswered_result(),
            false => resume_point::unknown_result(),
        });
        if let (true, Some(item)) = (found.result.is_async, machine.server_call_item(slot)) {
            let (item, tool, is_task) = (item.clone(), row.tool.clone(), found.task.is_some());
            started.push(StartedAsync { turn: row.turn, index: row.index, item, tool, is_task });
        }
        machine.finish_call(slot, found.result, events)?;
    }
    machine.close_turn(events).map(drop)
}

/// Whether a call has ended with questions, and was not made again.
fn waits_for_user(orphan: &OrphanedRun, call: &OrphanedCall) -> bool {
    matches!(user_questions::asked(&orphan.pending, call.turn, call.index), Asked::Round(_))
}

/// Adds the answers of the client. If some of them were sent, the run had gone on, and all calls have one; of the others the
/// end of the response says why they have none.
fn finish_client_calls(
    machine: &mut ResponseMachine,
    orphan: &OrphanedRun,
    seen: &[SeenEvent],
    events: &mut Events,
) -> Result<(), Violation> {
    let has_gone_on = seen.iter().any(|event| !event.is_progress());
    for call in machine.open_client_calls() {
        let answer = client_answers::find(&orphan.pending, &call);
        let late = || has_gone_on.then(client_answers::timed_out);
        if let Some(answer) = answer.or_else(late) {
            machine.finish_client_call(&call, answer.output, events)?;
        }
    }
    Ok(())
}

fn begin_calls(
    machine: &mut ResponseMachine,
    journaled: &[&OrphanedCall],
    events: &mut Events,
) -> Result<Vec<ServerCall>, Violation> {
    let kind = CallKind::Server(Presentation::Mcp);
    for (slot, call) in (0_u32..).zip(journaled) {
        let (name, namespace) = (call.tool.clone(), Some(call.server_label.clone()));
        machine.push(
            ModelEvent::CallStarted { slot, kind, call_id: None, name, namespace, fields: None },
            events,
        )?;
        machine.push(ModelEvent::CallDelta { slot, delta: call.arguments.clone() }, events)?;
    }
    let calls = machine.end_turn(true, events)?.server_calls;
    machine.dispatch_calls();
    Ok(calls)
}

/// How many inferences were started, about: a turn in which the client was asked, too, was committed twice.
fn inferences(orphan: &OrphanedRun) -> u32 {
    let turns = orphan.calls.iter().map(|call| call.turn).chain(orphan.pending.iter().map(|call| call.turn));
    turns.map(|turn| turn + 1).max().unwrap_or(1)
}

/// The dialect of a run of which only items are known.
fn dialect_of(output: &[Item]) -> Dialect {
    let extended = output.iter().any(|item| matches!(item, Item::ServerToolCall(_)));
    if extended { Dialect::OpenResponses } else { Dialect::OpenAi }
}

fn error(cause: OrphanCause) -> ErrorBody {
    let (code, message) = match cause {
        OrphanCause::ProcessGone => (
            "server_restarted",
            "The gateway was stopped while it made this response. Send the request again, with a new Idempotency-Key if it has one.",
        ),
        OrphanCause::EndNotStored => {
            ("storage_error", "How this response ended could not be stored. Send the request again.")
        }
    };
    ErrorBody {
        message: message.to_owned(),
        kind: "server_error".into(),
        param: None,
        code: Some(code.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log that had been given up before the crash was ended behind a gap: each repetition of the stream broke there.
    #[test]
    fn a_log_with_a_gap_is_given_up() {
        let events = |first| LoggedEvents { first, last: first + 1, bytes: vec![b'x'] };
        let logged = LogExtent { begun: 2, next: 5, replaced_from: None };
        for first in [3, 5] {
            let end = log_end(logged, events(first));
            assert_eq!((end.keep_below, end.events), (Some(first), Some(events(first))));
        }
        let end = log_end(logged, events(6));
        assert_eq!((end.keep_below, end.events), (Some(0), None));
    }
}
