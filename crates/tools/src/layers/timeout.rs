//! The timeout of a call as a whole.

use std::time::Duration;

use tokio::time::Instant;
use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready, ready};
use crate::error::{FailureStage, ToolError, ToolErrorCode};
use crate::output::ToolOutput;
use crate::question::Asker;
use antwort_net::FailureCause;

type ToolResult = Result<ToolOutput, ToolError>;

/// Bounds a call including retries, failover and queueing: by the tool's timeout or by the time left of the run,
/// whichever is shorter.
#[derive(Clone)]
pub(crate) struct Timeout<S> {
    inner: S,
}

impl<S> Timeout<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: ToolService> Service<ToolRequest> for Timeout<S> {
    always_ready!();

    fn call(&mut self, mut request: ToolRequest) -> ToolFuture {
        let (now, remaining) = (Instant::now(), request.context.remaining());
        let limit = remaining.unwrap_or(Duration::MAX).min(request.plan.timeout);
        if limit.is_zero() {
            return ready(Err(ToolError::refused(
                ToolErrorCode::ToolTimeout,
                "the run's time limit was reached before the call was made",
            )));
        }
        // A deadline beyond what the clock can represent means no limit.
        let Some(deadline) = now.checked_add(limit) else { return self.inner.call(request) };
        request.deadline = Some(deadline);
        let asker = request.call.asker.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            match within(limit, asker, answer).await {
                Some(result) => result,
                None if remaining == Some(limit) => Err(timed_out(limit, "the remaining time of the run")),
                None => Err(timed_out(limit, "the timeout of the tool or max_time of the MCP server")),
            }
        })
    }
}

/// The answer, unless it takes longer than the limit. Time for which the call waits for the user does not count.
pub(super) async fn within(limit: Duration, asker: Option<Asker>, answer: ToolFuture) -> Option<ToolResult> {
    let Some(asker) = asker else { return tokio::time::timeout(limit, answer).await.ok() };
    let (start, before) = (Instant::now(), asker.clock().total());
    tokio::select! {
        biased;
        result = answer => Some(result),
        () = asker.clock().elapsed(start, before, limit) => None,
    }
}

/// `which` names the limit in the log.
pub(super) fn timed_out(limit: Duration, which: &str) -> ToolError {
    // Rounded to milliseconds: the remaining time of a run is an odd number of nanoseconds.
    let limit = Duration::from_millis(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1));
    ToolError::new(ToolErrorCode::ToolTimeout, FailureStage::Transport, format!("timed out after {limit:?}"))
        .with_cause(FailureCause::new("total_timeout", format!("{which}, {} s", limit.as_secs_f64())))
}
