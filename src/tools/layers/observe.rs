//! Leaves a span, two metrics and a record of every call.

use std::sync::Arc;

use tokio::time::Instant;
use tower::Service;
use tracing::{Instrument, Span, field};

use super::{Answer, Next, ToolRequest, Trace, always_ready};
use crate::telemetry::metrics::Metrics;
use crate::tools::audit::{self, Caller};
use crate::tools::error::{Code, ToolError};
use crate::tools::output::ToolOutput;
use crate::tools::plan::Plan;

/// Watches a call from its beginning to its end, also where the end is that nobody waits for it any more.
#[derive(Clone)]
pub(in crate::tools) struct Observe<S> {
    inner: S,
    metrics: Arc<Metrics>,
}

impl<S> Observe<S> {
    pub(in crate::tools) fn new(inner: S, metrics: Arc<Metrics>) -> Self {
        Self { inner, metrics }
    }
}

impl<S: Next> Service<ToolRequest> for Observe<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> Answer {
        let span = span(&request);
        let watch = Watch {
            started: Instant::now(),
            caller: Caller::of(&request),
            plan: Arc::clone(&request.plan),
            trace: Arc::clone(&request.trace),
            metrics: Arc::clone(&self.metrics),
            ended: false,
        };
        let answer = span.in_scope(|| self.inner.call(request));
        let watched = async move {
            // Moved in whole: if this future is dropped, so is the watch.
            let watch = watch;
            let result = answer.await;
            watch.end(result)
        };
        Box::pin(watched.instrument(span))
    }
}

/// By OpenTelemetry's conventions for generative AI.
fn span(request: &ToolRequest) -> Span {
    tracing::info_span!(
        "execute_tool",
        otel.name = format!("execute_tool {}", request.plan.name()),
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = request.plan.name(),
        gen_ai.tool.call.id = request.call.key.as_ref().map(field::display),
        error.type = field::Empty,
    )
}

struct Watch {
    started: Instant,
    caller: Caller,
    plan: Arc<Plan>,
    trace: Arc<Trace>,
    metrics: Arc<Metrics>,
    ended: bool,
}

impl Watch {
    /// Completes the result's own account of itself, and records it.
    fn end(mut self, mut result: Result<ToolOutput, ToolError>) -> Result<ToolOutput, ToolError> {
        let decision = audit::decision_of(&result, self.trace.failure());
        match &mut result {
            Ok(output) => {
                output.meta.duration_ms =
                    u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
                // The attempts of a tool that stands in are its own.
                if output.meta.fallback_from.is_none() || output.meta.attempts == 0 {
                    output.meta.attempts = self.trace.attempts();
                }
                self.record(outcome(output), decision, self.trace.failure());
            }
            Err(error) => {
                Span::current().record("error.type", error.code.as_str());
                log(self.plan.name(), error);
                self.record(error.code.as_str(), decision, Some(error.code));
            }
        }
        result
    }

    fn record(&mut self, outcome: &'static str, decision: &'static str, code: Option<Code>) {
        self.ended = true;
        let duration = self.started.elapsed();
        // Where nobody was asked, who would have been.
        let executor = self.trace.executor();
        self.metrics.tool_call(self.plan.name(), outcome, duration);
        self.caller.call(&audit::End {
            tool: self.plan.name(),
            executor: executor.as_ref().unwrap_or(&self.plan.definition.executor),
            decision,
            code,
            duration,
            attempts: self.trace.attempts(),
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.ended {
            self.record("abandoned", "allowed", Some(Code::Cancelled));
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

/// Says why a call failed, without its message: that is for the model, and may quote what the model said.
fn log(tool: &str, error: &ToolError) {
    let code = error.code.as_str();
    match cause(error) {
        Some(cause) => tracing::warn!(tool, code, cause, "a call of a tool failed"),
        None => tracing::debug!(tool, code, "a call of a tool failed"),
    }
}

/// The cause and its causes.
fn cause(error: &ToolError) -> Option<String> {
    let mut cause: &dyn std::error::Error = error.cause.as_deref()?;
    let mut text = cause.to_string();
    while let Some(next) = cause.source() {
        text = format!("{text}: {next}");
        cause = next;
    }
    Some(text)
}
