//! Writes down that a call is made before it is made, and what came of it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready, panicked};

/// Journals calls of stored runs.
///
/// A call that is dropped half-way, for its run is cancelled or the process stops, is never completed: nobody
/// knows whether it had its effect, and that is what the journal says.
#[derive(Clone)]
pub(in crate::tools) struct Journaled<S> {
    inner: S,
}

impl<S> Journaled<S> {
    pub(in crate::tools) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: ToolService> Service<ToolRequest> for Journaled<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        // A tool that stands in for another has no key of its own. The journal says that the first one failed,
        // which keeps a resumed run from making either call again.
        let (Some(journal), Some(key), false) =
            (&request.context.journal, &request.call.key, request.is_fallback)
        else {
            return self.inner.call(request);
        };
        let (journal, key) = (Arc::clone(journal), key.clone());
        let mut inner = self.inner.clone();
        Box::pin(async move {
            journal.dispatching(&key).await?;
            // The guard around the executor does not see panics of the layers between.
            let run = AssertUnwindSafe(async move { inner.call(request).await }).catch_unwind();
            let result = run.await.unwrap_or_else(|_| Err(panicked()));
            journal.completed(&key, &result);
            result
        })
    }
}
