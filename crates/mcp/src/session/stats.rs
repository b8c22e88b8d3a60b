//! What is counted of a session, for metrics and status reports.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::time::Instant;

use antwort_telemetry::metrics::Metrics;

/// Statistics for status reports.
#[derive(Default)]
pub(crate) struct SessionStats {
    pub calls: AtomicU64,
    pub errors: AtomicU64,
    pub micros: AtomicU64,
    pub connects: AtomicU64,
    pub running: AtomicUsize,
}

/// Guard that counts a call until it ends, also if it is cancelled.
pub(super) struct RunningCall<'a> {
    stats: &'a SessionStats,
    metrics: &'a Metrics,
    started: Instant,
    failed: bool,
}

impl<'a> RunningCall<'a> {
    pub(super) fn begin(stats: &'a SessionStats, metrics: &'a Metrics) -> Self {
        stats.running.fetch_add(1, Ordering::Relaxed);
        metrics.mcp_calls_in_flight(1);
        Self { stats, metrics, started: Instant::now(), failed: true }
    }

    pub(super) fn end(mut self, failed: bool) {
        self.failed = failed;
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        let stats = self.stats;
        stats.running.fetch_sub(1, Ordering::Relaxed);
        self.metrics.mcp_calls_in_flight(-1);
        stats.calls.fetch_add(1, Ordering::Relaxed);
        stats.errors.fetch_add(u64::from(self.failed), Ordering::Relaxed);
        let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        stats.micros.fetch_add(micros, Ordering::Relaxed);
    }
}
