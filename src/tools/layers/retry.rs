//! Makes calls again that may be made again.

use std::time::Duration;

use tokio::time::Instant;
use tower::Service;

use super::breaker::is_circuit_open;
use super::{ToolFuture, ToolRequest, ToolService, always_ready, is_unreachable};
use crate::config::ToolRetry;
use crate::tools::error::ToolError;
use crate::tools::random;

/// Repeats calls that did not reach their tool, or whose answer got lost.
#[derive(Clone)]
pub(in crate::tools) struct Retry<S> {
    inner: S,
}

impl<S> Retry<S> {
    pub(in crate::tools) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: ToolService> Service<ToolRequest> for Retry<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        // There is a plan to retry only for tools that may be called twice.
        let Some(retry) = request.plan.retry.clone() else { return self.inner.call(request) };
        let mut inner = self.inner.clone();
        Box::pin(async move {
            let mut made = 0;
            loop {
                let error = match inner.call(request.clone()).await {
                    Err(error) if made < retry.max && is_retryable(&error) => error,
                    result => return result,
                };
                let wait = backoff(&retry, made, random::unit_f64());
                let again = Instant::now().checked_add(wait);
                // To wait for the end would only turn a clear error into a timeout.
                let Some(again) = again.filter(|again| request.deadline.is_none_or(|end| *again < end))
                else {
                    return Err(error);
                };
                tokio::time::sleep_until(again).await;
                made += 1;
            }
        })
    }
}

/// A breaker stays open for longer than a retry waits.
fn is_retryable(error: &ToolError) -> bool {
    is_unreachable(error) && !is_circuit_open(error)
}

/// Doubles with every try; jitter keeps calls that failed together from coming back together.
fn backoff(retry: &ToolRetry, made: u32, chance: f64) -> Duration {
    let doubled = retry.delay.saturating_mul(1 << made.min(16));
    doubled.min(retry.max_delay).mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_cap() {
        let retry =
            ToolRetry { max: 9, delay: Duration::from_millis(100), max_delay: Duration::from_millis(300) };
        let waits = [0, 1, 2, 40].map(|made| backoff(&retry, made, 1.0).as_millis());
        assert_eq!(waits, [100, 200, 300, 300]);
        assert_eq!(backoff(&retry, 0, 0.0).as_millis(), 50);
    }
}
