//! Lets only so many calls of a tool run at the same time.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tower::Service;

use super::{Answer, Next, ToolRequest, always_ready};
use crate::tools::error::{Code, ToolError};

/// Waits for its turn, first come, first served.
#[derive(Clone)]
pub(in crate::tools) struct Concurrency<S> {
    inner: S,
    turns: Option<Arc<Semaphore>>,
}

impl<S> Concurrency<S> {
    pub(in crate::tools) fn new(inner: S, turns: Option<Arc<Semaphore>>) -> Self {
        Self { inner, turns }
    }
}

impl<S: Next> Service<ToolRequest> for Concurrency<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> Answer {
        let Some(turns) = self.turns.clone() else {
            request.trace.set_running();
            return self.inner.call(request);
        };
        let mut inner = self.inner.clone();
        Box::pin(async move {
            let _turn = turns.acquire().await.map_err(|closed| {
                // Nobody closes it; if somebody did, the tool would be gone.
                ToolError::refused(Code::ToolUnavailable, "the tool is shut down").because(closed)
            })?;
            request.trace.set_running();
            inner.call(request).await
        })
    }
}
