//! How many connections may be open, and which one goes when there is one too many.
//!
//! Each is a file descriptor, and providers, tools and the database need some as well. A new connection takes the
//! place of one on which nothing is asked: whoever opens many and asks nothing keeps nobody out. Where all are
//! worked on, new ones wait in the kernel's queue.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::ConnectionActivity;
use crate::telemetry::metrics::Metrics;

/// Descriptors that are nobody's connection: of providers, tools, the database, logs.
const RESERVED_FILES: u64 = 256;
/// The fewest that `auto` allows, however few files may be open.
const MIN_CONNECTIONS: u64 = 16;
/// The most that go at once to make room. Looking for them takes as long as there are connections.
const MAX_EVICTED: usize = 32;
/// How long a new connection waits before it is looked again for one that may go.
const EVICTION_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The connections that are open.
pub(super) struct ConnectionLimit {
    max: usize,
    places: Arc<Semaphore>,
    open: Mutex<HashMap<u64, Arc<ConnectionActivity>>>,
    next: AtomicU64,
    metrics: Arc<Metrics>,
}

/// The place of a connection, until it is dropped.
pub(super) struct ConnectionSlot {
    limit: Arc<ConnectionLimit>,
    id: u64,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionLimit {
    pub(super) fn new(max: usize, metrics: Arc<Metrics>) -> Arc<Self> {
        let max = max.min(Semaphore::MAX_PERMITS);
        let places = Arc::new(Semaphore::new(max));
        Arc::new(Self { max, places, open: Mutex::default(), next: AtomicU64::new(0), metrics })
    }

    /// A permit for one more connection. Makes room first if there is none, or waits for it.
    pub(super) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(permit);
        }
        loop {
            self.make_room();
            let freed =
                tokio::time::timeout(EVICTION_RETRY_INTERVAL, Arc::clone(&self.places).acquire_owned());
            if let Ok(permit) = freed.await {
                return permit.ok();
            }
        }
    }

    /// Gives a connection its place.
    pub(super) fn enter(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        activity: &Arc<ConnectionActivity>,
    ) -> ConnectionSlot {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.open().insert(id, Arc::clone(activity));
        self.metrics.connections(1);
        ConnectionSlot { limit: Arc::clone(self), id, _permit: permit }
    }

    /// The limit.
    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// Closes some of those that have been working on nothing for longest.
    pub(super) fn make_room(&self) {
        let open = self.open();
        let waiting =
            |activity: &Arc<ConnectionActivity>| Some((activity.waiting_since()?, Arc::clone(activity)));
        let mut waiting: Vec<_> = open.values().filter_map(waiting).collect();
        drop(open);
        let count = (waiting.len() / 16).clamp(1, MAX_EVICTED);
        if waiting.len() > count {
            waiting.select_nth_unstable_by_key(count, |(since, _)| *since);
        }
        for (_, activity) in waiting.iter().take(count) {
            activity.close("max_connections");
        }
    }

    fn open(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<ConnectionActivity>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.limit.open().remove(&self.id);
        self.limit.metrics.connections(-1);
    }
}

/// The connections that may be open at a time: what was said, or half of the files that are not reserved. What was
/// said is lowered to what the process may open, in words.
pub(super) fn max_connections(said: Option<usize>) -> usize {
    let files = rlimit::Resource::NOFILE.get_soft().unwrap_or(1024);
    let room = files.saturating_sub(RESERVED_FILES);
    let most = usize::try_from(room.max(MIN_CONNECTIONS)).unwrap_or(usize::MAX);
    match said {
        None => usize::try_from((room / 2).max(MIN_CONNECTIONS)).unwrap_or(usize::MAX),
        Some(said) if said > most => {
            tracing::warn!(
                files,
                said,
                used = most,
                "server.max_connections is more than this process may open files (less {RESERVED_FILES} for providers, tools and the store)"
            );
            most
        }
        Some(said) => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::connection::ConnectionTimeouts;
    use crate::transport::ShutdownFlag;
    use axum::http::Version;
    use tokio_util::sync::CancellationToken;

    const LONG: Duration = Duration::from_secs(3600);

    fn activity() -> Arc<ConnectionActivity> {
        let timeouts = ConnectionTimeouts { first_byte: LONG, header: LONG, keep_alive: LONG };
        ConnectionActivity::new(timeouts, CancellationToken::new(), ShutdownFlag::default())
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_has_waited_longest_makes_room_and_one_that_works_never_does() {
        let limit = ConnectionLimit::new(3, Metrics::new());
        let mut places = Vec::new();
        for _ in 0..3 {
            let activity = activity();
            let place = limit.enter(limit.permit().await.expect("room"), &activity);
            places.push((activity, place));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        // The oldest works; the second is the one to go, and once it has gone there is room.
        let working = places[0].0.begin_request(Version::HTTP_11);
        limit.make_room();
        let waiting: Vec<_> = places.iter().map(|(activity, _)| activity.waiting_since().is_some()).collect();
        assert_eq!(waiting, [false, false, true], "the first works, the second is closing");
        places.remove(1);
        drop(limit.permit().await.expect("room"));
        // One that is done may go.
        drop(working);
        places.remove(1);
        assert!(places[0].0.waiting_since().is_some());
        assert_eq!(limit.open().len(), 1);
    }

    #[test]
    fn what_is_allowed_leaves_files_for_others() {
        let files = rlimit::Resource::NOFILE.get_soft().expect("a limit") as usize;
        assert_eq!(max_connections(None), ((files.saturating_sub(256)) / 2).max(16));
        assert_eq!(max_connections(Some(7)), 7);
        assert_eq!(max_connections(Some(usize::MAX)), files.saturating_sub(256).max(16));
    }
}
