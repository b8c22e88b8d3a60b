//! The requests in flight, from their admission to their end: what a shutdown waits for, and what it ends at its
//! deadline.
//!
//! One registry for a process, whichever engine works on a request. Whoever was admitted is in it, so that nothing can
//! begin behind the back of a shutdown that found nothing in flight.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::admission::{Permit, Requester, Resource};
use crate::protocol::error::ApiError;

/// The requests in flight.
#[derive(Debug, Default)]
pub struct InFlight {
    requests: TaskTracker,
    /// The drain deadline has passed.
    abort_token: CancellationToken,
}

impl InFlight {
    /// A registry with nothing in it.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A request with its place among `runs`, which it waits for. It counts before it has it: once `runs` are closed,
    /// whoever has a place is in the registry.
    pub(super) async fn admit(
        self: &Arc<Self>,
        runs: &Resource,
        requester: &Requester,
    ) -> Result<AdmittedRequest, ApiError> {
        let counted = self.requests.token();
        let permit = runs.acquire(requester, 1).await?;
        Ok(AdmittedRequest { _permit: permit, _counted: counted, registry: Arc::clone(self) })
    }

    /// Resolves when what is in flight has to end.
    pub(super) fn abort_token(&self) -> &CancellationToken {
        &self.abort_token
    }

    /// Waits for the requests in flight to end; those that have not by the deadline are ended. Nothing may be
    /// admitted any more.
    pub async fn drain(&self, deadline: Duration) {
        self.requests.close();
        if tokio::time::timeout(deadline, self.requests.wait()).await.is_err() {
            tracing::warn!(
                requests = self.requests.len(),
                "the drain deadline passed; ending what is still in flight"
            );
            self.abort_token.cancel();
            self.requests.wait().await;
        }
    }
}

/// A request that was admitted: it has a place, and a shutdown waits for it, until this is dropped.
#[derive(Debug)]
pub struct AdmittedRequest {
    _permit: Permit,
    _counted: TaskTrackerToken,
    registry: Arc<InFlight>,
}

impl AdmittedRequest {
    /// Runs a future, unless a shutdown has to end it first. The future is pinned by the caller: taken by value it would
    /// be stored twice in the caller's own future, which is copied for each request.
    ///
    /// # Errors
    /// 503 `server_shutting_down` if it has.
    pub async fn run_until_aborted<T>(&self, work: Pin<&mut impl Future<Output = T>>) -> Result<T, ApiError> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.registry.abort_token.cancelled() => Err(shutting_down(
                "The gateway was stopped before this was done. Try again: another one may take the request.",
            )),
        }
    }
}

/// What a request ends with that a shutdown ends.
pub(super) fn shutting_down(message: &str) -> ApiError {
    ApiError::new(503, "server_error", "server_shutting_down", message)
        .with_retry_after(Duration::from_secs(1))
}
