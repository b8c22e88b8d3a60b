//! Journals calls before they are executed, and their outcomes.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready, panicked};

/// Journals calls of stored runs.
///
/// A call that is dropped half-way, because its run is cancelled or the process stops, is never completed: whether it
/// had side effects is unknown, and the journal says so.
#[derive(Clone)]
pub(crate) struct Journaled<S> {
    inner: S,
}

impl<S> Journaled<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: ToolService> Service<ToolRequest> for Journaled<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        // A fallback has no key of its own. The journal has the first tool's failure, which keeps a resumed run from
        // repeating either call.
        let (Some(journal), Some(key), false) =
            (&request.context.journal, &request.call.key, request.is_fallback)
        else {
            return self.inner.call(request);
        };
        let (journal, key) = (Arc::clone(journal), key.clone());
        let mut inner = self.inner.clone();
        Box::pin(async move {
            journal.dispatching(&key).await?;
            // `PanicGuard` is further inside and does not see panics of the layers between.
            let run = AssertUnwindSafe(async move { inner.call(request).await }).catch_unwind();
            let result = run.await.unwrap_or_else(|_| Err(panicked()));
            // A call that asks is made again with the answers.
            if result.as_ref().is_ok_and(|output| output.requires_input.is_some()) {
                return result;
            }
            journal.completed(&key, &result);
            result
        })
    }
}
