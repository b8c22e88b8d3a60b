//! The waiters of this process.

use std::sync::Arc;

use tokio::sync::Notify;

use super::signal::Signal;
use super::watchers::RunWatchers;

/// What the waiters of this process wait at.
#[derive(Debug)]
pub(super) struct LocalBus {
    pub jobs: Notify,
    pub(crate) cancellations: Notify,
    pub runs: RunWatchers,
}

impl LocalBus {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { jobs: Notify::new(), cancellations: Notify::new(), runs: RunWatchers::default() })
    }

    pub(super) fn accept(&self, signal: &Signal) {
        match signal {
            Signal::JobQueued => self.jobs.notify_one(),
            Signal::CancelRequested => self.cancellations.notify_one(),
            Signal::Advanced { id, next } => self.runs.advanced(id, *next),
            Signal::Answered(id) => self.runs.answered(id),
            Signal::Ended(id) => self.runs.ended(id),
        }
    }
}
