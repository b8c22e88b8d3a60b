//! The end of a run: the row is committed, then the terminal event is sent.

use std::time::Instant;

use super::{Run, RunError};
use crate::engine::context::unix_now;
use crate::engine::prepare::PreparedRun;
use crate::engine::run_summary::RunSummary;
use crate::engine::{approvals, record};
use crate::protocol::error::ApiError;
use crate::protocol::response::{ResponseStatus, RunOutcome};
use crate::provider::CallContext;
use crate::response::machine::Termination;
use crate::telemetry::fields::{CODE, MODEL, PARAM, PROVIDER, REQUEST_ID, RESPONSE_ID};

pub(super) enum RunEnd {
    Ended(Termination),
    Rejected(ApiError),
}

impl Run {
    pub(super) fn run_end(&self, stop: RunError) -> RunEnd {
        match stop {
            RunError::InvalidOutput(violation) => self.run_end(self.violated(&violation)),
            RunError::Failed(error) if !self.sink.is_committed() => RunEnd::Rejected(error),
            RunError::Failed(error) => RunEnd::Ended(Termination::Failed(error.body)),
            RunError::LimitReached(reason) => RunEnd::Ended(Termination::Incomplete(reason.into())),
            RunError::Cancelled => RunEnd::Ended(Termination::Cancelled),
        }
    }

    /// Ends the response: commits its row, then sends the terminal event.
    pub(super) async fn end(self: Box<Self>, outcome: RunEnd) {
        let Self { parts, prepared, machine, executor, call, mut sink, started, first_event, turns, .. } =
            *self;
        // Held until the row is committed.
        let _registration = self.registration;
        let first = first_event.map(|after| started + after);
        let summary = RunSummary { log: self.log, turns, tool_calls: self.tool_calls, first_event: first };
        executor.cancel();
        let metrics = &parts.metrics;
        let took = started.elapsed();
        let ending = match outcome {
            RunEnd::Ended(ending) => ending,
            RunEnd::Rejected(error) => {
                log_failure(&prepared, &call, error.code(), error.body.param.as_deref());
                metrics.run_refused(
                    prepared.provider.name(),
                    &prepared.model_request.model,
                    error.code(),
                    took,
                );
                summary.refusal(&prepared, error.body.code.clone());
                return sink.reject(error).await;
            }
        };
        let param = match &ending {
            Termination::Failed(error) => error.param.clone(),
            _ => None,
        };
        let outcome = RunOutcome { turns, structured: prepared.structured.verdict() };
        let mut finished = machine.end(ending, outcome, unix_now(), sink.events());
        // However the response ended, an approval request that its client sees can be answered.
        if let Err(error) =
            approvals::persist_requests(&parts, &prepared.approval_scope(), &finished.approval_requests).await
        {
            finished = finished.into_failed(error.body, sink.events());
        }
        if prepared.store {
            let record = record::ended(&prepared, &finished);
            let committing = Instant::now();
            let committed = parts.store.finish(record).await;
            metrics.store_commit(committing.elapsed());
            if let Err(error) = committed {
                let error = ApiError::from(error);
                finished = finished.into_failed(error.body, sink.events());
            }
        }
        let response = &finished.snapshot.response;
        metrics.run_ended(&crate::telemetry::metrics::RunReport {
            provider: prepared.provider.name(),
            model: &prepared.model_request.model,
            status: response.status,
            stream: prepared.model_request.stream,
            error_code: response.error.as_ref().and_then(|error| error.code.as_deref()),
            usage: response.usage,
            duration: took,
            first_event,
        });
        if response.status == ResponseStatus::Failed {
            let code = response.error.as_ref().and_then(|error| error.code.as_deref()).unwrap_or_default();
            log_failure(&prepared, &call, code, param.as_deref());
        }
        summary.response(&prepared, response);
        // A client that has disconnected finds the response in the store.
        let _gone = sink.flush().await;
    }
}

/// What an operator needs to find the cause. The error's message may quote the conversation, and is not logged.
fn log_failure(prepared: &PreparedRun, call: &CallContext, code: &str, param: Option<&str>) {
    tracing::warn!(
        {
            { REQUEST_ID } = call.request_id,
            { RESPONSE_ID } = prepared.response.id.as_str(),
            { PROVIDER } = prepared.provider.name(),
            { MODEL } = prepared.model_request.model,
            { CODE } = code,
            { PARAM } = param,
        },
        "a response failed"
    );
}
