//! A shared resource: a fair semaphore with its queue timeout, metrics and error messages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::semaphore::{AcquireError, AcquireOutcome, FairSemaphore, PendingPermit, Permit};
use super::shares::Shares;
use antwort_identity::Requester;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_telemetry::metrics::Metrics;

/// The names of a resource.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label {
    /// In the metrics of its queue.
    pub resource: &'static str,
    /// In the metric of rejected requests.
    pub reason: &'static str,
    /// The limit that error messages name.
    pub limit: &'static str,
}

/// A shared resource.
#[derive(Debug)]
pub struct Resource {
    label: Label,
    semaphore: FairSemaphore,
    limits: ArcSwap<Limits>,
    metrics: Arc<Metrics>,
}

/// The settings of a resource, which a reload changes.
#[derive(Debug)]
struct Limits {
    shares: Arc<Shares>,
    is_divided: bool,
    queue_timeout: Duration,
}

impl Resource {
    pub(super) fn new(label: Label, shares: Shares, queue_timeout: Duration, metrics: &Arc<Metrics>) -> Self {
        metrics.known_resource(label.resource, label.reason);
        let semaphore = FairSemaphore::new(shares.clone());
        let is_divided = shares.are_divided();
        let limits = ArcSwap::from_pointee(Limits { shares: Arc::new(shares), is_divided, queue_timeout });
        Self { label, semaphore, limits, metrics: Arc::clone(metrics) }
    }

    /// Takes over the limits of another, unused resource. Permits that are held stay valid, and count.
    pub(super) fn adopt_limits(&self, other: &Self) {
        let limits = other.limits.load_full();
        self.semaphore.resize(Shares::clone(&limits.shares));
        self.limits.store(limits);
    }

    /// The limits of tenants and keys.
    pub fn shares(&self) -> Arc<Shares> {
        Arc::clone(&self.limits.load().shares)
    }

    /// Whether anybody may hold less than all of it.
    pub fn is_divided(&self) -> bool {
        self.limits.load().is_divided
    }

    /// Acquires `weight` units, at once or after waiting in the queue. A caller that stops waiting leaves the queue.
    ///
    /// # Errors
    /// 503 if the queue is full, the timeout has passed, or the gateway is shutting down.
    pub async fn acquire(&self, requester: &Requester, weight: u64) -> Result<Permit, ApiError> {
        match self.semaphore.acquire(requester, weight) {
            Ok(AcquireOutcome::Granted(permit)) => Ok(permit),
            Ok(AcquireOutcome::Queued(waiting)) => self.wait(waiting).await,
            Err(refused) => Err(self.refuse(refused)),
        }
    }

    /// Rejects new and waiting requests from now on.
    pub fn close(&self) {
        self.semaphore.close();
    }

    async fn wait(&self, waiting: PendingPermit) -> Result<Permit, ApiError> {
        let _queued = Queued::begin(self);
        let queue_timeout = self.limits.load().queue_timeout;
        match tokio::time::timeout(queue_timeout, waiting).await {
            Ok(outcome) => outcome.map_err(|refused| self.refuse(refused)),
            Err(_) => Err(self.overloaded()),
        }
    }

    fn refuse(&self, refused: AcquireError) -> ApiError {
        match refused {
            AcquireError::QueueFull => self.overloaded(),
            AcquireError::Closed => {
                self.metrics.request_rejected("draining");
                draining()
            }
        }
    }

    fn overloaded(&self) -> ApiError {
        self.metrics.request_rejected(self.label.reason);
        overloaded(self.label.limit, self.limits.load().queue_timeout)
    }
}

/// Counts a waiting request in the metrics until it is dropped.
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

fn overloaded(limit: &str, queue_timeout: Duration) -> ApiError {
    let waited = if queue_timeout.is_zero() {
        ""
    } else {
        ", and no capacity became free within server.queue_timeout"
    };
    ApiError::new(ErrorKind::Unavailable, format!(
            "The gateway is at its limit of concurrent work, in total or for this tenant or key ({limit}){waited}. Try again shortly."
        ))
    .with_retry_after(Duration::from_secs(1))
}

/// The semaphore is closed when the process was told to stop.
fn draining() -> ApiError {
    ApiError::new(ErrorKind::Unavailable, "The gateway is shutting down and accepts no new requests. Try again: another instance may take the request.").with_code("server_shutting_down")
    .with_retry_after(Duration::from_secs(1))
}
