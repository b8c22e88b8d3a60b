//! The runs of this process that others may wait for or follow: how far their events are logged, and how they end.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::protocol::error::ApiError;
use crate::protocol::id::Id;

/// The registry, one for the process.
#[derive(Debug, Default)]
pub(super) struct LiveRuns(Mutex<HashMap<Id, watch::Receiver<RunProgress>>>);

/// How far a run has come, for those who follow it.
#[derive(Debug, Clone, Default)]
pub(super) struct RunProgress {
    /// The sequence number of the event behind the last one that is logged and may be seen.
    pub logged: u64,
    /// Its log is not written any more.
    pub is_log_lost: bool,
    /// How it has ended.
    pub ending: Option<RunEnding>,
}

/// How a run has ended.
#[derive(Debug, Clone)]
pub(super) enum RunEnding {
    /// Its response is stored in its final state.
    Stored,
    /// The final state could not be stored: the response will be ended by the recovery.
    NotStored,
    /// It was refused, and nothing is left of it.
    Refused(Box<ApiError>),
}

impl LiveRuns {
    /// Registers a run, before its row is written.
    pub(super) fn register(self: &Arc<Self>, id: &Id) -> LiveRun {
        let (progress, receiver) = watch::channel(RunProgress::default());
        self.0.lock().insert(id.clone(), receiver);
        LiveRun { id: id.clone(), progress, registry: Arc::clone(self) }
    }

    /// The progress of a run; `None` if it does not go on in this process.
    pub(super) fn get(&self, id: &Id) -> Option<watch::Receiver<RunProgress>> {
        self.0.lock().get(id).cloned()
    }
}

/// A registered run; taken from the registry when it is dropped, which is after its end was stored.
#[derive(Debug)]
pub(super) struct LiveRun {
    id: Id,
    progress: watch::Sender<RunProgress>,
    registry: Arc<LiveRuns>,
}

impl LiveRun {
    /// Events up to this number are logged and may be seen.
    pub(super) fn logged(&self, next: u64) {
        self.progress.send_if_modified(|progress| {
            let is_more = progress.logged < next;
            progress.logged = progress.logged.max(next);
            is_more
        });
    }

    /// How the run has ended.
    pub(super) fn ending(&self) -> Option<RunEnding> {
        self.progress.borrow().ending.clone()
    }

    /// No more events are logged.
    pub(super) fn log_lost(&self) {
        self.progress.send_modify(|progress| progress.is_log_lost = true);
    }

    /// The run has ended.
    pub(super) fn ended(&self, ending: RunEnding) {
        self.progress.send_modify(|progress| progress.ending = Some(ending));
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        self.registry.0.lock().remove(&self.id);
    }
}
