//! Ends calls that take too long.

use std::time::Duration;

use tokio::time::Instant;
use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready, ready};
use crate::net::FailureCause;
use crate::tools::error::{FailureStage, ToolError, ToolErrorCode};

/// Bounds the call as a whole, with its repetitions, the executors that take over and its wait for its turn: the least of the
/// tool's timeout and the time that the run has left.
#[derive(Clone)]
pub(in crate::tools) struct Timeout<S> {
    inner: S,
}

impl<S> Timeout<S> {
    pub(in crate::tools) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: ToolService> Service<ToolRequest> for Timeout<S> {
    always_ready!();

    fn call(&mut self, mut request: ToolRequest) -> ToolFuture {
        let now = Instant::now();
        let left = request.context.deadline.map(|end| Instant::from_std(end).saturating_duration_since(now));
        let limit = left.unwrap_or(Duration::MAX).min(request.plan.timeout);
        if limit.is_zero() {
            return ready(Err(ToolError::refused(
                ToolErrorCode::ToolTimeout,
                "there was no time left for the call",
            )));
        }
        // Beyond what the clock can express there is no limit.
        let Some(until) = now.checked_add(limit) else { return self.inner.call(request) };
        request.deadline = Some(until);
        let answer = self.inner.call(request);
        Box::pin(async move {
            match tokio::time::timeout_at(until, answer).await {
                Ok(result) => result,
                Err(_) if left == Some(limit) => Err(timed_out(limit, "what was left of the run's time")),
                Err(_) => Err(timed_out(limit, "the timeout of the tool or max_time of the MCP server")),
            }
        })
    }
}

/// `which`: the limit, for the log.
pub(super) fn timed_out(limit: Duration, which: &str) -> ToolError {
    // What is left of a run is no round number: nobody wants to read nanoseconds.
    let limit = Duration::from_millis(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1));
    ToolError::new(ToolErrorCode::ToolTimeout, FailureStage::Transport, format!("timed out after {limit:?}"))
        .with_cause(FailureCause::new("total_timeout", format!("{which}, {} s", limit.as_secs_f64())))
}
