//! The waiters of this process.

use std::sync::Arc;

use tokio::sync::{Notify, broadcast};

use super::signal::Signal;
use super::watchers::RunWatchers;
use crate::protocol::id::Id;

/// Cancellations that a slow subscriber may be behind.
const MAX_CANCELLATIONS: usize = 256;

/// What the waiters of this process wait at.
#[derive(Debug)]
pub(super) struct LocalBus {
    pub jobs: Notify,
    pub cancellations: broadcast::Sender<Id>,
    pub runs: RunWatchers,
}

impl LocalBus {
    pub(super) fn new() -> Arc<Self> {
        let (cancellations, _) = broadcast::channel(MAX_CANCELLATIONS);
        Arc::new(Self { jobs: Notify::new(), cancellations, runs: RunWatchers::default() })
    }

    pub(super) fn accept(&self, signal: &Signal) {
        match signal {
            Signal::JobQueued => self.jobs.notify_one(),
            // An error: nobody listens.
            Signal::CancelRequested(id) => _ = self.cancellations.send(id.clone()),
            Signal::Advanced { id, next } => self.runs.advanced(id, *next),
            Signal::Ended(id) => self.runs.ended(id),
        }
    }
}
