//! Turns a tool's panic into an error, so that parallel calls and the process continue.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;
use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready, panicked, ready};

/// Catches panics when the call is created and while it runs. The panic hook has logged the location.
#[derive(Clone)]
pub(crate) struct PanicGuard<S> {
    inner: S,
}

impl<S> PanicGuard<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: ToolService> Service<ToolRequest> for PanicGuard<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        // Unwind safe: request and future of a call that panicked are dropped and never used again.
        match catch_unwind(AssertUnwindSafe(|| self.inner.call(request))) {
            Ok(answer) => {
                let guarded = AssertUnwindSafe(answer).catch_unwind();
                Box::pin(async move { guarded.await.unwrap_or_else(|_| Err(panicked())) })
            }
            Err(_) => ready(Err(panicked())),
        }
    }
}
