//! Limits the concurrent calls of a tool or executor.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready};
use crate::error::{ToolError, ToolErrorCode};

/// Waits for a permit, first come, first served.
#[derive(Clone)]
pub(crate) struct Concurrency<S> {
    inner: S,
    semaphore: Option<Arc<Semaphore>>,
}

impl<S> Concurrency<S> {
    pub(crate) fn new(inner: S, semaphore: Option<Arc<Semaphore>>) -> Self {
        Self { inner, semaphore }
    }
}

impl<S: ToolService> Service<ToolRequest> for Concurrency<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let Some(semaphore) = self.semaphore.clone() else {
            request.trace.set_running();
            return self.inner.call(request);
        };
        let mut inner = self.inner.clone();
        Box::pin(async move {
            let _permit = semaphore.acquire().await.map_err(|closed| {
                // The semaphore is never closed; if it were, the tool would be gone.
                ToolError::refused(ToolErrorCode::ToolUnavailable, "the tool is shutting down")
                    .with_cause(closed)
            })?;
            request.trace.set_running();
            inner.call(request).await
        })
    }
}
