//! Cancels calls when their run is cancelled.

use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready};
use crate::error::{ToolError, ToolErrorCode};

/// Drops the call as soon as its run is cancelled; a call of a cancelled run is not started.
#[derive(Clone)]
pub(crate) struct Cancel<S> {
    inner: S,
}

impl<S> Cancel<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: ToolService> Service<ToolRequest> for Cancel<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let cancel = request.context.cancel.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(ToolError::fatal(ToolErrorCode::Cancelled, "the run was cancelled")),
                result = answer => result,
            }
        })
    }
}
