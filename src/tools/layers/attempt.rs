//! Bounds the time that one executor has for one attempt.

use std::time::Duration;

use tower::Service;

use super::timeout::timed_out;
use super::{ToolFuture, ToolRequest, ToolService, always_ready};

/// Ends an attempt that takes longer than its executor may; another executor, or another attempt, may follow
/// within the call's own time.
#[derive(Clone)]
pub(in crate::tools) struct AttemptTimeout<S> {
    inner: S,
    limit: Option<Duration>,
}

impl<S> AttemptTimeout<S> {
    pub(in crate::tools) fn new(inner: S, limit: Option<Duration>) -> Self {
        Self { inner, limit }
    }
}

impl<S: ToolService> Service<ToolRequest> for AttemptTimeout<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let answer = self.inner.call(request);
        let Some(limit) = self.limit else { return answer };
        Box::pin(async move {
            tokio::time::timeout(limit, answer)
                .await
                .unwrap_or_else(|_| Err(timed_out(limit, "tools.executors.<id>.timeout")))
        })
    }
}
