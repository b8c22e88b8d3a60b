//! Writes of runs that wait until the server is back, and are made then in the order of their runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::pending_write::Pending;
use super::queue::run_of;
use antwort_store::StoreError;
use antwort_store::in_flight::InFlightRows;
use antwort_store::outage::{self, RETRY_INTERVAL};

/// How writes wait for the server.
#[derive(Clone)]
pub(super) struct WaitPolicy {
    /// For how long each waits.
    pub timeout: Duration,
    /// Cancelled when none waits any more, as the process is about to end.
    pub is_over: Arc<CancellationToken>,
}

/// The writes of one writer that wait.
pub(super) struct Postponed {
    policy: WaitPolicy,
    writes: Vec<Pending>,
    /// When the first of them is tried again.
    retry_at: Instant,
    /// Why the last one could not be made.
    error: StoreError,
}

impl Postponed {
    pub(super) fn new(policy: WaitPolicy) -> Self {
        Self { policy, writes: Vec::new(), retry_at: Instant::now(), error: StoreError::Timeout }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Waits for what comes next; `None`: it is time to try again.
    pub(super) async fn until_retry<T>(&self, next: impl Future<Output = T>) -> Option<T> {
        if self.writes.is_empty() {
            return Some(next.await);
        }
        if Instant::now() >= self.retry_at {
            return None;
        }
        tokio::time::timeout_at(self.retry_at, next).await.ok()
    }

    /// Keeps a write that could not be made. Returns it if it does not wait, or no longer.
    pub(super) fn add(
        &mut self,
        mut pending: Pending,
        error: &StoreError,
        in_flight: &InFlightRows,
    ) -> Option<Pending> {
        if !outage::outlasts(&pending.write, error, in_flight) || self.policy.is_over.is_cancelled() {
            return Some(pending);
        }
        let is_new = pending.postponed.is_none();
        let since = *pending.postponed.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.policy.timeout {
            return Some(pending);
        }
        if self.writes.is_empty() {
            self.retry_at = Instant::now() + RETRY_INTERVAL;
            if is_new {
                tracing::warn!(%error, "store: the database is not available; the writes of runs wait for it");
            }
        }
        self.error = error.clone();
        self.writes.push(pending);
        None
    }

    /// Keeps a write whose run has another one here, which comes first. Returns it if there is none.
    pub(super) fn add_behind(&mut self, pending: Pending, in_flight: &InFlightRows) -> Option<Pending> {
        let run = run_of(&pending.write);
        let is_behind = self.writes.iter().any(|earlier| run_of(&earlier.write) == run);
        if !is_behind || !outage::outlasts(&pending.write, &self.error, in_flight) {
            return Some(pending);
        }
        self.writes
            .push(Pending { postponed: pending.postponed.or_else(|| Some(Instant::now())), ..pending });
        None
    }

    /// All of them; those behind a failed one have to be put back.
    pub(super) fn take(&mut self) -> Vec<Pending> {
        std::mem::take(&mut self.writes)
    }

    /// Takes those that have waited for too long, and why.
    pub(super) fn take_expired(&mut self) -> (Vec<Pending>, StoreError) {
        let timeout = self.policy.timeout;
        let is_expired =
            |pending: &mut Pending| pending.postponed.is_some_and(|since| since.elapsed() >= timeout);
        (self.writes.extract_if(.., is_expired).collect(), self.error.clone())
    }

    /// Puts back those that were not tried. The run of the one that was is tried last: what is in its way, such as a lock of its
    /// row, may not be in that of others.
    pub(super) fn put_back(&mut self, untried: Vec<Pending>) {
        let tried = std::mem::take(&mut self.writes);
        let is_behind =
            |pending: &Pending| tried.iter().any(|tried| run_of(&tried.write) == run_of(&pending.write));
        let (behind, others): (Vec<_>, Vec<_>) = untried.into_iter().partition(is_behind);
        self.writes = others;
        self.writes.extend(tried);
        self.writes.extend(behind);
    }

    /// An attempt that took so long is over: half of the time is for other writes.
    pub(super) fn schedule(&mut self, took: Duration) {
        self.retry_at = Instant::now() + took.max(RETRY_INTERVAL);
    }

    /// The server can be written to, which is no news of a lock.
    pub(super) fn server_is_back(&mut self) {
        if matches!(self.error, StoreError::Unavailable(_)) {
            self.retry_at = Instant::now();
        }
    }
}
