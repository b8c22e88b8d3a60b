//! The connection limit, with eviction of idle connections.
//!
//! Each connection needs a file descriptor, and providers, tools and the database need some as well. At the limit, a new
//! connection evicts the longest idle ones, so that idle connections cannot lock others out. If none is idle, new ones wait
//! in the kernel's queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::ConnectionActivity;
use antwort_config::ServerSettings;
use antwort_telemetry::metrics::Metrics;

/// File descriptors reserved for providers, tools, the database and logs.
const RESERVED_FILES: u64 = 256;
/// Minimum of the automatic limit, however low the file descriptor limit is.
const MIN_CONNECTIONS: u64 = 16;
/// Most connections that are evicted at once. Several, since finding them takes a scan of all connections.
const MAX_EVICTED: usize = 32;
/// How long a new connection waits for a permit before the next eviction.
const EVICTION_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The open connections and their limit.
pub(super) struct ConnectionLimit {
    max: usize,
    permits: Arc<Semaphore>,
    open: Mutex<HashMap<u64, Arc<ConnectionActivity>>>,
    next: AtomicU64,
    metrics: Arc<Metrics>,
}

/// The slot of an open connection, until it is dropped.
pub(super) struct ConnectionSlot {
    limit: Arc<ConnectionLimit>,
    id: u64,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionLimit {
    pub(super) fn new(max: usize, metrics: Arc<Metrics>) -> Arc<Self> {
        let max = max.min(Semaphore::MAX_PERMITS);
        let permits = Arc::new(Semaphore::new(max));
        Arc::new(Self { max, permits, open: Mutex::default(), next: AtomicU64::new(0), metrics })
    }

    /// Acquires a permit for one more connection; evicts idle connections if there is none, and waits.
    pub(super) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Some(permit);
        }
        loop {
            self.evict_idle();
            let freed =
                tokio::time::timeout(EVICTION_RETRY_INTERVAL, Arc::clone(&self.permits).acquire_owned());
            if let Ok(permit) = freed.await {
                return permit.ok();
            }
        }
    }

    /// Registers an open connection.
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

    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// Closes some of the connections that have been idle for longest.
    pub(super) fn evict_idle(&self) {
        let open = self.open();
        let idle_since =
            |activity: &Arc<ConnectionActivity>| Some((activity.idle_since()?, Arc::clone(activity)));
        let mut idle: Vec<_> = open.values().filter_map(idle_since).collect();
        drop(open);
        let count = (idle.len() / 16).clamp(1, MAX_EVICTED);
        if idle.len() > count {
            idle.select_nth_unstable_by_key(count, |(since, _)| *since);
        }
        for (_, activity) in idle.iter().take(count) {
            activity.close("max_connections");
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<ConnectionActivity>>> {
        self.open.lock()
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.limit.open().remove(&self.id);
        self.limit.metrics.connections(-1);
    }
}

/// The limit of open files of this process, and the effective limit of connections: the configured one, lowered to the files
/// that are not reserved; by default half of these.
pub(super) fn effective_connections(server: &ServerSettings) -> (u64, usize) {
    let nofile_limit = rlimit::Resource::NOFILE.get_soft().unwrap_or(1024);
    let available = nofile_limit.saturating_sub(RESERVED_FILES);
    let at_least = |files: u64| usize::try_from(files.max(MIN_CONNECTIONS)).unwrap_or(usize::MAX);
    let max = match server.max_connections {
        None => at_least(available / 2),
        Some(configured) => configured.min(at_least(available)),
    };
    (nofile_limit, max)
}

/// The effective limit, with a warning if it is lower than the configured one, or lower than the number of runs that there may
/// be, each with a connection.
pub(super) fn max_connections(server: &ServerSettings) -> usize {
    let (nofile_limit, max) = effective_connections(server);
    match server.max_connections {
        None if max < server.max_runs => tracing::warn!(
            nofile_limit,
            max_connections = max,
            max_runs = server.max_runs,
            "few file descriptors: the limit of open files of this process (ulimit -n, LimitNOFILE) allows fewer \
             connections than server.max_runs; raise it"
        ),
        Some(configured) if configured > max => tracing::warn!(
            nofile_limit,
            configured,
            effective = max,
            reserved = RESERVED_FILES,
            "server.max_connections exceeds the file descriptor limit of this process; lowered"
        ),
        None | Some(_) => {}
    }
    max
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
        let mut slots = Vec::new();
        for _ in 0..3 {
            let activity = activity();
            let slot = limit.enter(limit.permit().await.expect("room"), &activity);
            slots.push((activity, slot));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        // The oldest is active; the second is evicted, and its permit is free once it has closed.
        let active = slots[0].0.begin_request(Version::HTTP_11);
        limit.evict_idle();
        let idle: Vec<_> = slots.iter().map(|(activity, _)| activity.idle_since().is_some()).collect();
        assert_eq!(idle, [false, false, true], "the first is active, the second is closing");
        slots.remove(1);
        drop(limit.permit().await.expect("room"));
        // A connection whose request has ended may be evicted.
        drop(active);
        slots.remove(1);
        assert!(slots[0].0.idle_since().is_some());
        assert_eq!(limit.open().len(), 1);
    }

    #[test]
    fn what_is_allowed_leaves_files_for_others() {
        let nofile_limit = rlimit::Resource::NOFILE.get_soft().expect("a limit") as usize;
        let max = |max_connections| {
            super::max_connections(&ServerSettings { max_connections, ..ServerSettings::default() })
        };
        assert_eq!(max(None), ((nofile_limit.saturating_sub(256)) / 2).max(16));
        assert_eq!(max(Some(7)), 7);
        assert_eq!(max(Some(usize::MAX)), nofile_limit.saturating_sub(256).max(16));
    }
}
