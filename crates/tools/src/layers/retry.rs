//! Retries with exponential backoff, for tools that may be called twice.

use std::time::Duration;

use tokio::time::Instant;
use tower::Service;

use super::breaker::is_circuit_open;
use super::{ToolFuture, ToolRequest, ToolService, always_ready, is_unreachable};
use crate::error::ToolError;
use antwort_config::ToolRetry;
use antwort_util::{backoff, random};

/// Repeats calls that did not reach their tool, or whose response was lost.
#[derive(Clone)]
pub(crate) struct Retry<S> {
    inner: S,
}

impl<S> Retry<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: ToolService> Service<ToolRequest> for Retry<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        // The plan has a retry policy only for tools that may be called twice.
        let Some(retry) = request.plan.retry.clone() else { return self.inner.call(request) };
        let mut inner = self.inner.clone();
        Box::pin(async move {
            let mut retries = 0;
            loop {
                let error = match inner.call(request.clone()).await {
                    Err(error) if retries < retry.max && is_retryable(&error) => error,
                    result => return result,
                };
                let delay = backoff(&retry, retries);
                let retry_at = Instant::now().checked_add(delay);
                // A delay beyond the deadline would only turn a clear error into a timeout.
                let Some(retry_at) =
                    retry_at.filter(|retry_at| request.end().is_none_or(|end| *retry_at < end))
                else {
                    return Err(error);
                };
                tokio::time::sleep_until(retry_at).await;
                retries += 1;
            }
        })
    }
}

/// An open circuit stays open for longer than a retry waits.
fn is_retryable(error: &ToolError) -> bool {
    is_unreachable(error) && !is_circuit_open(error)
}

fn backoff(retry: &ToolRetry, retries: u32) -> Duration {
    let delay = backoff::exponential(retry.delay, retry.max_delay, retries);
    backoff::with_jitter(delay, random::unit_f64())
}
