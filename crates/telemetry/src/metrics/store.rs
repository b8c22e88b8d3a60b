//! The store: whether it can be written to, and the time of its commits.

use std::time::Duration;

use super::registry::{Exposed, Family, Gauge, Histogram};

const COMMIT_BUCKETS: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

#[derive(Debug)]
pub(super) struct StoreMetrics {
    commit: Family<Histogram>,
    writable: Family<Gauge>,
}

impl StoreMetrics {
    pub(super) fn new() -> Self {
        let metrics = Self {
            commit: Family::histogram(
                "antwort_store_commit_seconds",
                "Time per commit of the store.",
                &[],
                COMMIT_BUCKETS,
            ),
            writable: Family::gauge(
                "antwort_store_writable",
                "Whether responses can be stored: 1 or 0, as readiness says.",
                &[],
            ),
        };
        metrics.commit.with(&[]);
        metrics
    }

    pub(super) fn committed(&self, took: Duration) {
        self.commit.with(&[]).observe(took.as_secs_f64());
    }

    pub(super) fn writable(&self, is_writable: bool) {
        self.writable.with(&[]).set(i64::from(is_writable));
    }

    pub(super) fn families(&self) -> [&dyn Exposed; 2] {
        [&self.commit, &self.writable]
    }
}
