//! Writes of runs that wait until the server is back. They are the first ones that are made then, in their order.

use std::time::{Duration, Instant};

use super::writer::Pending;
use antwort_store::StoreError;
use antwort_store::in_flight::InFlightRows;
use antwort_store::outage::{self, RETRY_INTERVAL};

/// The writes of one writer that wait.
pub(super) struct Postponed {
    /// For how long each waits.
    timeout: Duration,
    writes: Vec<Pending>,
}

impl Postponed {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, writes: Vec::new() }
    }

    /// Waits for what comes next, or until it is time to try again, which is `None`.
    pub(super) async fn retry_while<T>(&self, next: impl Future<Output = T>) -> Option<T> {
        if self.writes.is_empty() {
            return Some(next.await);
        }
        tokio::time::timeout(RETRY_INTERVAL, next).await.ok()
    }

    /// All of them, to be made before these.
    pub(super) fn before(&mut self, group: Vec<Pending>) -> Vec<Pending> {
        if self.writes.is_empty() {
            return group;
        }
        let mut all = std::mem::take(&mut self.writes);
        all.extend(group);
        all
    }

    /// Keeps a write that could not be made. Returns it if it does not wait.
    pub(super) fn add(
        &mut self,
        mut pending: Pending,
        error: &StoreError,
        in_flight: &InFlightRows,
    ) -> Option<Pending> {
        if !outage::outlasts(&pending.write, error, in_flight) {
            return Some(pending);
        }
        let since = *pending.postponed.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.timeout {
            return Some(pending);
        }
        if self.writes.is_empty() {
            tracing::warn!(%error, "store: the database is not available; the writes of runs wait for it");
        }
        self.writes.push(pending);
        None
    }
}
