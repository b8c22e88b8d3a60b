//! One thing that is shared out: a fair semaphore, for how long it is waited for, and how refusals are told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::semaphore::{Attempt, FairSemaphore, Permit, Refused, Waiting};
use super::shares::{Requester, Shares};
use crate::protocol::error::ApiError;
use crate::telemetry::metrics::Metrics;

/// What a resource is called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label {
    /// In metrics of its queue.
    pub resource: &'static str,
    /// In the metric of what was turned away.
    pub reason: &'static str,
    /// Which limit was met, in answers.
    pub limit: &'static str,
}

/// A shared resource.
#[derive(Debug)]
pub struct Resource {
    label: Label,
    shares: Shares,
    semaphore: FairSemaphore,
    queue_timeout: Duration,
    metrics: Arc<Metrics>,
}

impl Resource {
    pub(super) fn new(label: Label, shares: Shares, queue_timeout: Duration, metrics: &Arc<Metrics>) -> Self {
        let semaphore = FairSemaphore::new(shares.clone());
        Self { label, shares, semaphore, queue_timeout, metrics: Arc::clone(metrics) }
    }

    /// How much of it each may hold.
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// So much of it, at once or after waiting in the queue. Who stops waiting leaves the queue.
    ///
    /// # Errors
    /// 503 if the queue is full or its time is over, or the gateway is stopping.
    pub async fn acquire(&self, requester: &Requester, weight: u64) -> Result<Permit, ApiError> {
        match self.semaphore.acquire(requester, weight) {
            Ok(Attempt::Granted(permit)) => Ok(permit),
            Ok(Attempt::Queued(waiting)) => self.wait(waiting).await,
            Err(refused) => Err(self.refuse(refused)),
        }
    }

    /// Refuses whoever waits or asks from now on.
    pub fn close(&self) {
        self.semaphore.close();
    }

    async fn wait(&self, waiting: Waiting) -> Result<Permit, ApiError> {
        let _queued = Queued::begin(self);
        match tokio::time::timeout(self.queue_timeout, waiting).await {
            Ok(outcome) => outcome.map_err(|refused| self.refuse(refused)),
            Err(_) => Err(self.overloaded()),
        }
    }

    fn refuse(&self, refused: Refused) -> ApiError {
        match refused {
            Refused::QueueFull => self.overloaded(),
            Refused::Closed => {
                self.metrics.rejected("draining");
                draining()
            }
        }
    }

    fn overloaded(&self) -> ApiError {
        self.metrics.rejected(self.label.reason);
        overloaded(self.label.limit)
    }
}

/// Someone waits, which is counted until they do not.
struct Queued<'a> {
    resource: &'a Resource,
    since: Instant,
}

impl<'a> Queued<'a> {
    fn begin(resource: &'a Resource) -> Self {
        resource.metrics.queue_entered(resource.label.resource);
        Self { resource, since: Instant::now() }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.resource.metrics.queue_left(self.resource.label.resource, self.since.elapsed());
    }
}

fn overloaded(limit: &str) -> ApiError {
    ApiError::new(
        503,
        "service_unavailable_error",
        "server_is_overloaded",
        format!(
            "The gateway is doing as much at a time as it may, in all or for one tenant or key ({limit}), and no \
             room was made within server.queue_timeout. Try again shortly."
        ),
    )
    .with_retry_after(Duration::from_secs(1))
}

/// The closed semaphore says that the process was told to stop.
fn draining() -> ApiError {
    ApiError::new(
        503,
        "service_unavailable_error",
        "server_shutting_down",
        "The gateway is stopping and begins nothing new. Try again: another one may take the request.",
    )
    .with_retry_after(Duration::from_secs(1))
}
