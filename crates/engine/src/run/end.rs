//! The end of a run: the row is committed, then the terminal event is sent.

use std::sync::Arc;
use std::time::Instant;

use super::inference;
use super::live::{Run, RunEnd, RunError};
use super::logged::Logged;
use super::summary::RunSummary;
use super::trace::RunTrace;
use crate::context::unix_now;
use crate::event_sink::EventSink;
use crate::live_runs::RunEnding;
use crate::prompt::Prompt;
use crate::run_spec::RunSpec;
use crate::tools::RunTools;
use crate::tools::approvals;
use crate::{ConnectionHistory, EngineParts, record};
use antwort_identity::Requester;
use antwort_limits::run_in_place;
use antwort_protocol::error::ApiError;
use antwort_protocol::response::{ResponseStatus, RunOutcome};
use antwort_provider::CallContext;
use antwort_response::machine::{ClosedResponse, Termination};
use antwort_store::{ConversationLock, LogEnd, ResponseRecord};
use antwort_telemetry::fields::{CODE, MODEL, PARAM, PROVIDER, REQUEST_ID, RESPONSE_ID};

/// Up to this size, a response's snapshot and row are encoded on the worker thread.
const MAX_INLINE_SNAPSHOT_BYTES: usize = 1 << 20;

pub(super) fn run_end(run: &Run, stop: RunError) -> RunEnd {
    match stop {
        RunError::InvalidOutput(violation) => run_end(run, inference::violated(run, &violation)),
        RunError::Failed(error) if !run.sink.is_committed() => RunEnd::Rejected(error),
        RunError::Failed(error) => RunEnd::Ended(Termination::Failed(error.body)),
        RunError::LimitReached(reason) => RunEnd::Ended(Termination::Incomplete(reason.into())),
        RunError::Cancelled => RunEnd::Ended(Termination::Cancelled),
        // Caught before: a run that cannot wait never asks its client.
        RunError::Waits => RunEnd::Ended(Termination::Failed(ApiError::internal().body)),
    }
}

/// Ends the run. A response is closed, its row committed, and only then its terminal event is sent.
pub(super) async fn end(mut run: Box<Run>, outcome: RunEnd) {
    let (turns, first_event) = (run.state.turns(), run.state.first_event());
    let summary = RunSummary {
        log: run.attached.log.take(),
        turns,
        tool_calls: run.state.tool_calls,
        first_event: first_event.map(|after| run.clock.started + after),
    };
    run.executor.cancel();
    // Held until the row is committed.
    let _registration = run.attached.registration.take();
    let ending = match outcome {
        RunEnd::Ended(ending) => ending,
        RunEnd::Rejected(error) => return Box::pin(reject(run, error, summary)).await,
    };
    // Borrowed: moving them out of the box would copy kilobytes.
    let (parts, spec, prompt) = (&run.parts, &run.spec, &run.prompt);
    let (sink, logged, lock) = (&mut run.sink, run.attached.logged.as_ref(), &mut run.conversation_lock);
    let metrics = &parts.metrics;
    let took = run.clock.started.elapsed();
    let run_outcome = RunOutcome {
        turns,
        structured: run.structured.verdict(&run.state.answer, run.state.reminded.repair),
    };
    let trace = &mut run.state.trace;
    note_limit(trace, &ending);
    let param = failed_param(&ending);
    let machine = run.machine;
    let large = machine.bytes() > MAX_INLINE_SNAPSHOT_BYTES;
    let close = || machine.close_response(ending, run_outcome, unix_now(), sink.events());
    let closed = if large { run_in_place(close) } else { close() };
    let trace = spec.store.then(|| trace.end(&closed.aborted_calls)).flatten();
    let (committed, not_stored) =
        commit(parts, (spec, &run.tools, lock), (closed, trace), large, (sink, logged)).await;
    if let Some(connection) = run.attached.connection {
        keep(&connection, parts, spec, &committed, &run.requester).await;
    }
    let response = &committed.snapshot.response;
    metrics.run_ended(&antwort_telemetry::metrics::RunReport {
        provider: prompt.provider.name(),
        model: &prompt.request.model,
        status: response.status,
        stream: spec.stream,
        error_code: response.error.as_ref().and_then(|error| error.code.as_deref()),
        usage: response.usage,
        duration: took,
        first_event,
    });
    if response.status == ResponseStatus::Failed {
        let code = response.error.as_ref().and_then(|error| error.code.as_deref()).unwrap_or_default();
        log_failure(spec, prompt, &run.call, code, param.as_deref());
    }
    summary.response(spec, prompt, response);
    if run.follow_ups.caller.is_some() {
        // Results of asynchronous calls may have come before the end.
        parts.in_flight.call_completed();
    }
    if let Some(error) = not_stored
        && !sink.is_streamed()
    {
        // Nothing was sent. A tool that was called must not be called again by a client's automatic retry.
        let should_retry = if run.state.tool_calls > 0 { Some(false) } else { error.should_retry };
        return run.sink.reject(ApiError { should_retry, ..error }).await;
    }
    committed.emit_terminal_event(sink.announces_errors(), sink.events());
    // A client that has disconnected finds the response in the store.
    let _gone = sink.flush().await;
}

/// Ends a run whose client gets an HTTP error in place of a response.
async fn reject(mut run: Box<Run>, error: ApiError, summary: RunSummary) {
    let (parts, spec, prompt) = (&run.parts, &run.spec, &run.prompt);
    let (sink, logged, lock) = (&mut run.sink, run.attached.logged.as_ref(), &mut run.conversation_lock);
    log_failure(spec, prompt, &run.call, error.code(), error.body.param.as_deref());
    let usage = run.machine.total_usage();
    let report = antwort_telemetry::metrics::RunReport {
        provider: prompt.provider.name(),
        model: &prompt.request.model,
        status: ResponseStatus::Failed,
        stream: spec.stream,
        error_code: Some(error.code()),
        usage,
        duration: run.clock.started.elapsed(),
        first_event: None,
    };
    parts.metrics.run_refused(&report, error.kind.status() < 500);
    summary.refusal(spec, prompt, usage, error.body.code.clone());
    let is_noted = match logged {
        // Nothing has happened: the same request may be sent again.
        Some(logged) if run.state.tool_calls == 0 => logged.withdraw(parts, &spec.response.id, &error).await,
        logged if run.state.committed.is_recorded => {
            // The client is not told the id, but the row is listed, and must not stay in progress.
            let failed = Termination::Failed(error.body.clone());
            let run_outcome = RunOutcome {
                turns: run.state.turns(),
                structured: run.structured.verdict(&run.state.answer, run.state.reminded.repair),
            };
            let closed = run.machine.close_response(failed, run_outcome, unix_now(), sink.events());
            let trace = run.state.trace.end(&closed.aborted_calls);
            commit(parts, (spec, &run.tools, lock), (closed, trace), false, (sink, logged)).await;
            false
        }
        _ => true,
    };
    *lock = None;
    if is_noted && spec.store {
        // Nobody waits for this row.
        let trace = run.state.trace.end(&[]).map(Arc::from);
        parts.store.record_failed_request(record::failed_request(spec, &error, usage, trace));
    }
    run.sink.reject(error).await;
}

/// The limit that ended the run is part of its account.
fn note_limit(trace: &mut RunTrace, ending: &Termination) {
    match ending {
        Termination::Incomplete(reason) if reason != "content_filter" => {
            trace.reach_limit(reason.clone().into());
        }
        _ => {}
    }
}

/// The parameter that a failure is about.
fn failed_param(ending: &Termination) -> Option<String> {
    match ending {
        Termination::Failed(error) => error.param.clone(),
        _ => None,
    }
}

/// Commits a closed response: its row, with its approval requests. One that cannot be committed becomes a failed one, and
/// the error is returned with it.
async fn commit(
    parts: &EngineParts,
    (spec, tools, lock): (&RunSpec, &RunTools, &mut Option<ConversationLock>),
    (closed, trace): (ClosedResponse, Option<String>),
    large: bool,
    (sink, logged): (&mut EventSink, Option<&Logged>),
) -> (ClosedResponse, Option<ApiError>) {
    let approvals = approvals::pending(parts, &tools.approval_scope(spec), &closed.approval_requests);
    if !spec.store {
        // However the response ended, an approval request that its client sees can be answered.
        let added = if approvals.is_empty() { Ok(()) } else { parts.store.add_approvals(approvals).await };
        return match added.map_err(ApiError::from) {
            Ok(()) => (closed, None),
            Err(error) => (closed.into_failed(error.body.clone()), Some(error)),
        };
    }
    let outbox = parts.options.webhooks.notices(&spec.owner, &closed.snapshot.response, unix_now());
    let trace = trace.map(Arc::from);
    let build = || ResponseRecord { outbox, approvals, trace, ..record::ended(spec, &closed) };
    let record = if large { run_in_place(build) } else { build() };
    let committing = Instant::now();
    let brief =
        || spec.is_unlisted.then_some(LogEnd { keep_below: Some(0), events: None, is_unlisted: false });
    let committed = match sink.end_log(&closed).await.or_else(brief) {
        Some(end) => {
            let end = LogEnd { is_unlisted: spec.is_unlisted, ..end };
            parts.store.finish_logged(record, end).await
        }
        None => parts.store.finish(record).await,
    };
    parts.metrics.store_commit(committing.elapsed());
    // Before anybody is told of the end, who may send the next request then.
    *lock = None;
    if let Some(logged) = logged {
        logged.ended(if committed.is_ok() { RunEnding::Stored } else { RunEnding::NotStored });
    }
    match committed {
        Ok(()) => (closed, None),
        Err(error) => {
            let error = ApiError::from(error);
            (closed.into_failed(error.body.clone()), Some(error))
        }
    }
}

/// Keeps a response that is not stored for continuations on its connection.
async fn keep(
    connection: &ConnectionHistory,
    parts: &EngineParts,
    spec: &RunSpec,
    closed: &ClosedResponse,
    requester: &Requester,
) {
    let status = closed.snapshot.response.status;
    if !spec.store && !matches!(status, ResponseStatus::Failed | ResponseStatus::Cancelled) {
        let memory = &parts.admission.kept_conversations;
        connection.keep(record::ended(spec, closed), memory, requester).await;
    }
}

/// What an operator needs to find the cause. The error's message may quote the conversation, and is not logged.
fn log_failure(spec: &RunSpec, prompt: &Prompt, call: &CallContext, code: &str, param: Option<&str>) {
    tracing::warn!(
        {
            { REQUEST_ID } = call.request_id,
            { RESPONSE_ID } = spec.response.id.as_str(),
            { PROVIDER } = prompt.provider.name(),
            { MODEL } = prompt.request.model,
            { CODE } = code,
            { PARAM } = param,
        },
        "a response failed"
    );
}
