//! Tracing span, metrics and audit record of every call; completes the metadata of its result.

use std::sync::Arc;

use tokio::time::Instant;
use tower::Service;
use tracing::{Instrument, Span, field};

use super::{CallTrace, ToolFuture, ToolRequest, ToolService, always_ready, meta_of};
use crate::audit::{self, CallAudit};
use crate::definition::ToolKind;
use crate::error::{ToolError, ToolErrorCode};
use crate::output::{CallTimes, OutputMeta, ToolOutput};
use crate::plan::CallPlan;
use antwort_config::mcp_label;
use antwort_net::FailureCause;
use antwort_telemetry::fields::{CAUSE, CODE, KIND, TOOL, URL};
use antwort_telemetry::metrics::Metrics;

/// Observes a call until it ends, also if its future is dropped.
#[derive(Clone)]
pub(crate) struct Observe<S> {
    inner: S,
    metrics: Arc<Metrics>,
}

impl<S> Observe<S> {
    pub(crate) fn new(inner: S, metrics: Arc<Metrics>) -> Self {
        Self { inner, metrics }
    }
}

impl<S: ToolService> Service<ToolRequest> for Observe<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let span = span(&request);
        let observer = CallObserver {
            started: Instant::now(),
            span: span.clone(),
            audit: CallAudit::from_request(&request),
            plan: Arc::clone(&request.plan),
            trace: Arc::clone(&request.trace),
            metrics: Arc::clone(&self.metrics),
            ended: false,
        };
        let answer = span.in_scope(|| self.inner.call(request));
        let watched = async move {
            // Moves the whole observer into the future: if that is dropped, so is the observer, which records the call.
            let observer = observer;
            let result = answer.await;
            observer.finish(result)
        };
        Box::pin(watched.instrument(span))
    }
}

/// Named by OpenTelemetry's semantic conventions for generative AI and MCP.
fn span(request: &ToolRequest) -> Span {
    let definition = &request.plan.definition;
    let is_remote = definition.kind == ToolKind::Mcp;
    tracing::info_span!(
        "execute_tool",
        otel.name = format!("execute_tool {}", request.plan.name()),
        otel.status_code = field::Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = request.plan.name(),
        gen_ai.tool.call.id = request.call.key.as_ref().map(field::display),
        antwort.tool.executor = field::Empty,
        antwort.tool.attempts = field::Empty,
        antwort.tool.cached = field::Empty,
        antwort.tool.fallback_from = field::Empty,
        mcp.method.name = is_remote.then_some("tools/call"),
        mcp.server = definition.server.as_deref(),
        server.address = field::Empty,
        server.port = field::Empty,
        error.type = field::Empty,
    )
}

struct CallObserver {
    started: Instant,
    span: Span,
    audit: CallAudit,
    plan: Arc<CallPlan>,
    trace: Arc<CallTrace>,
    metrics: Arc<Metrics>,
    ended: bool,
}

impl CallObserver {
    /// Completes the metadata of the result and records the call.
    fn finish(mut self, mut result: Result<ToolOutput, ToolError>) -> Result<ToolOutput, ToolError> {
        let decision = audit::decision_label(&result, self.trace.failure());
        self.complete(meta_of(&mut result));
        let (outcome, code) = match &result {
            Ok(output) => (outcome(output), self.trace.failure()),
            Err(error) => {
                log(self.plan.qualified_name(), error);
                (error.code.as_str(), Some(error.code))
            }
        };
        let fails = result.as_ref().map_or(true, |output| output.is_error);
        let failure = fails.then(|| code.unwrap_or(ToolErrorCode::ToolExecutionFailed));
        self.record(&CallSummary { outcome, decision, code, failure, meta: meta_of(&mut result) });
        result
    }

    fn complete(&self, meta: &mut OutputMeta) {
        let (began, ended) = (self.started.into_std(), Instant::now().into_std());
        meta.times = Some(CallTimes { began, ended, retried: self.trace.retried() });
        meta.duration_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        // The metadata of a fallback tool are complete already.
        if self.trace.used_fallback() {
            return;
        }
        meta.attempts = self.trace.attempts();
        // For a cached result: the executor that produced it.
        let default_executor = || Some(Arc::clone(&self.plan.definition.executor));
        meta.executor = self.trace.executor().or(meta.executor.take()).or_else(default_executor);
        let unreachable =
            self.trace.unreachable().filter(|unreachable| meta.executor.as_ref() != Some(*unreachable));
        meta.fallback_from = unreachable.cloned();
    }

    fn record(&mut self, recorded: &CallSummary<'_>) {
        self.ended = true;
        let CallSummary { outcome, decision, code, failure, meta } = *recorded;
        let duration = self.started.elapsed();
        let (attempts, attempted) = (self.trace.attempts(), self.trace.take_attempted());
        // Without an attempt, the executor that would have been called.
        let executor = attempted.last().map_or(&self.plan.definition.executor, |attempt| &attempt.executor);
        let tool = self.plan.qualified_name();
        self.metrics.tool_call(tool, executor, outcome, duration);
        attempted.iter().for_each(|attempt| self.metrics.tool_attempt(tool, &attempt.executor));
        let fallback_from = meta.fallback_from.as_deref();
        self.record_span(executor, attempts, meta, failure);
        self.audit.record_call(&audit::CallEnd {
            tool,
            executor,
            decision,
            code,
            duration,
            attempts,
            fallback_from,
        });
    }

    fn record_span(&self, executor: &str, attempts: u32, meta: &OutputMeta, failure: Option<ToolErrorCode>) {
        self.span.record("antwort.tool.executor", executor);
        if self.plan.definition.server.is_none()
            && let Some(label) = mcp_label(executor)
        {
            self.span.record("mcp.server", label);
        }
        self.span.record("antwort.tool.attempts", attempts);
        self.span.record("antwort.tool.cached", meta.cached);
        if let Some(other) = &meta.fallback_from {
            self.span.record("antwort.tool.fallback_from", &**other);
        }
        if let Some(code) = failure {
            self.span.record("error.type", code.as_str());
            self.span.record("otel.status_code", "ERROR");
        }
    }
}

/// The end of a call.
#[derive(Clone, Copy)]
struct CallSummary<'a> {
    outcome: &'static str,
    decision: &'static str,
    code: Option<ToolErrorCode>,
    /// Why the call failed, if its caller is told so.
    failure: Option<ToolErrorCode>,
    meta: &'a OutputMeta,
}

impl Drop for CallObserver {
    fn drop(&mut self) {
        if !self.ended {
            let code = Some(ToolErrorCode::Cancelled);
            let meta = OutputMeta::default();
            self.record(&CallSummary {
                outcome: "abandoned",
                decision: "allowed",
                code,
                failure: code,
                meta: &meta,
            });
        }
    }
}

fn outcome(output: &ToolOutput) -> &'static str {
    match output {
        output if output.meta.skipped => "skipped",
        output if output.is_error => "error",
        output if output.meta.cached => "cached",
        _ => "ok",
    }
}

/// Logs why a call failed, without the message: that is for the model and may quote the model's arguments.
fn log(tool: &str, error: &ToolError) {
    let code = error.code.as_str();
    match cause(error) {
        Some(cause) => {
            let known = error.cause.as_deref().and_then(|cause| FailureCause::find_in(cause));
            let url = known.and_then(|known| known.url.as_deref());
            tracing::warn!(
                {
                    { TOOL } = tool,
                    { CODE } = code,
                    { KIND } = known.map(|known| known.kind),
                    { URL } = url,
                    { CAUSE } = cause,
                },
                "tool call failed"
            );
        }
        None => tracing::debug!(tool, code, "tool call failed"),
    }
}

/// The whole chain of causes.
fn cause(error: &ToolError) -> Option<String> {
    let mut cause: &dyn std::error::Error = error.cause.as_deref()?;
    let mut text = cause.to_string();
    while let Some(next) = cause.source() {
        text = format!("{text}: {next}");
        cause = next;
    }
    Some(text)
}
