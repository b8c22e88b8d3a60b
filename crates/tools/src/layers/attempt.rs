//! The timeout of a single attempt (`tools.executors.<id>.timeout`).

use std::time::Duration;

use tower::Service;

use super::timeout::{timed_out, within};
use super::{ToolFuture, ToolRequest, ToolService, always_ready};

/// Aborts an attempt that exceeds the executor's timeout; failover or a retry may follow within the call's own
/// timeout.
#[derive(Clone)]
pub(crate) struct AttemptTimeout<S> {
    inner: S,
    limit: Option<Duration>,
}

impl<S> AttemptTimeout<S> {
    pub(crate) fn new(inner: S, limit: Option<Duration>) -> Self {
        Self { inner, limit }
    }
}

impl<S: ToolService> Service<ToolRequest> for AttemptTimeout<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let asker = self.limit.and(request.call.asker.clone());
        let answer = self.inner.call(request);
        let Some(limit) = self.limit else { return answer };
        Box::pin(async move {
            within(limit, asker, answer)
                .await
                .unwrap_or_else(|| Err(timed_out(limit, "tools.executors.<id>.timeout")))
        })
    }
}
