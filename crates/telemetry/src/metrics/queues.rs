//! Queues for shared resources, and tasks on the blocking thread pool.

use std::time::Duration;

use super::registry::{Counter, Exposed, Family, Gauge, Histogram, REQUEST_BUCKETS};

/// By resource: requests that wait, and for how long.
#[derive(Debug)]
pub(super) struct Queues {
    waiting: Family<Gauge>,
    wait: Family<Histogram>,
    blocking_tasks: Family<Counter>,
}

impl Queues {
    pub(super) fn new() -> Self {
        let queues = Self {
            waiting: Family::gauge(
                "antwort_queue_waiting",
                "Requests waiting in the queue of a resource.",
                &["resource"],
            ),
            wait: Family::histogram(
                "antwort_queue_wait_seconds",
                "Time that requests spent in the queue of a resource.",
                &["resource"],
                REQUEST_BUCKETS,
            ),
            blocking_tasks: Family::counter(
                "antwort_blocking_tasks_total",
                "Large requests parsed on the blocking thread pool, by outcome.",
                &["outcome"],
            ),
        };
        for outcome in ["finished", "abandoned"] {
            queues.blocking_tasks.with(&[outcome]);
        }
        queues
    }

    /// The queue of a resource has series before its first request.
    pub(super) fn known(&self, resource: &'static str) {
        self.waiting.with(&[resource]);
        self.wait.with(&[resource]);
    }

    pub(super) fn entered(&self, resource: &'static str) {
        self.waiting.with(&[resource]).add(1);
    }

    pub(super) fn left(&self, resource: &'static str, waited: Duration) {
        self.waiting.with(&[resource]).add(-1);
        self.wait.with(&[resource]).observe(waited.as_secs_f64());
    }

    pub(super) fn blocking_task(&self, outcome: &'static str) {
        self.blocking_tasks.with(&[outcome]).add(1);
    }

    pub(super) fn families(&self) -> [&dyn Exposed; 3] {
        [&self.waiting, &self.wait, &self.blocking_tasks]
    }
}
