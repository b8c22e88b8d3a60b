//! The queue of background runs.

use super::registry::{Exposed, Family, Gauge};

#[derive(Debug)]
pub(super) struct JobMetrics {
    queued: Family<Gauge>,
    oldest: Family<Gauge>,
    waiting: Family<Gauge>,
}

impl JobMetrics {
    pub(super) fn new() -> Self {
        let metrics = Self {
            queued: Family::gauge(
                "antwort_jobs_queued",
                "Background runs that wait to be made, in the whole database.",
                &[],
            ),
            oldest: Family::gauge(
                "antwort_job_oldest_seconds",
                "Age of the oldest background run that waits to be made.",
                &[],
            ),
            waiting: Family::gauge(
                "antwort_runs_waiting",
                "Runs that wait for the answer of a client, in the whole database.",
                &[],
            ),
        };
        metrics.set(0, 0, 0);
        metrics
    }

    pub(super) fn set(&self, queued: u64, oldest_seconds: i64, waiting: u64) {
        self.waiting.with(&[]).set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.queued.with(&[]).set(i64::try_from(queued).unwrap_or(i64::MAX));
        self.oldest.with(&[]).set(oldest_seconds);
    }

    pub(super) fn families(&self) -> [&dyn Exposed; 3] {
        [&self.queued, &self.oldest, &self.waiting]
    }
}
