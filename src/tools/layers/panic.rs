//! Makes an error of a tool's panic, so that its siblings and the process go on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;
use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready, panicked, ready};

/// Catches panics of making the call and of running it. The hook of the log has said where they arose.
#[derive(Clone)]
pub(in crate::tools) struct PanicGuard<S> {
    inner: S,
}

impl<S> PanicGuard<S> {
    pub(in crate::tools) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: ToolService> Service<ToolRequest> for PanicGuard<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        // Nothing of a call that panicked is used again: the request and the future are dropped.
        match catch_unwind(AssertUnwindSafe(|| self.inner.call(request))) {
            Ok(answer) => {
                let guarded = AssertUnwindSafe(answer).catch_unwind();
                Box::pin(async move { guarded.await.unwrap_or_else(|_| Err(panicked())) })
            }
            Err(_) => ready(Err(panicked())),
        }
    }
}
