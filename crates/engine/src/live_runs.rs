//! The runs of this process that others may wait for or follow: how far their events are logged, and how they end.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use antwort_bus::Bus;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;

/// The registry, one for the process.
#[derive(Debug)]
pub(super) struct LiveRuns {
    runs: Mutex<HashMap<Id, watch::Receiver<RunProgress>>>,
    /// Tells the other processes.
    bus: Bus,
}

/// How far a run has come, for those who follow it.
#[derive(Debug, Clone, Default)]
pub(super) struct RunProgress {
    /// The sequence number of the event behind the last one that is logged and may be seen.
    pub logged: u64,
    /// Its log is not written any more.
    pub(crate) is_log_lost: bool,
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
    pub(super) fn new(bus: Bus) -> Arc<Self> {
        Arc::new(Self { runs: Mutex::default(), bus })
    }

    /// Registers a run, before its row is written.
    pub(super) fn register(self: &Arc<Self>, id: &Id) -> LiveRun {
        let (progress, receiver) = watch::channel(RunProgress::default());
        self.runs.lock().insert(id.clone(), receiver);
        LiveRun { id: id.clone(), progress, registry: Arc::clone(self) }
    }

    /// The progress of a run; `None` if it does not go on in this process.
    pub(super) fn get(&self, id: &Id) -> Option<watch::Receiver<RunProgress>> {
        self.runs.lock().get(id).cloned()
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
    /// Events up to this number are logged and may be seen, by followers of other processes, too.
    pub(super) fn logged(&self, next: u64) {
        self.logged_here(next);
        self.tell(next);
    }

    /// The same, for followers of this process alone.
    fn logged_here(&self, next: u64) {
        self.progress.send_if_modified(|progress| {
            let is_more = progress.logged < next;
            progress.logged = progress.logged.max(next);
            is_more
        });
        self.registry.bus.run_advanced_here(&self.id, next);
    }

    fn tell(&self, next: u64) {
        self.registry.bus.run_advanced_elsewhere(&self.id, next);
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
        self.registry.bus.run_ended(&self.id);
    }
}

/// How often other processes are told of the progress of a run, at most: every process gets every signal, whether anybody
/// follows the run there or not.
const TELL_INTERVAL: Duration = Duration::from_millis(250);

/// Tells of the progress of a run: this process at once, others not too often.
#[derive(Debug)]
pub(super) struct ProgressTeller {
    live: Arc<LiveRun>,
    /// When others may be told again.
    at: Instant,
    untold: Option<u64>,
}

impl ProgressTeller {
    pub(super) fn new(live: Arc<LiveRun>) -> Self {
        Self { live, at: Instant::now(), untold: None }
    }

    /// Events up to this number are logged and may be seen.
    pub(super) fn logged(&mut self, next: u64) {
        self.live.logged_here(next);
        self.untold = Some(next);
        if Instant::now() >= self.at {
            self.tell();
        }
    }

    /// Tells others what they were not told.
    pub(super) fn tell(&mut self) {
        if let Some(next) = self.untold.take() {
            self.live.tell(next);
            self.at = Instant::now() + TELL_INTERVAL;
        }
    }

    /// Waits for something, and meanwhile tells others what they were not told, when it is time.
    pub(super) async fn tell_while<T>(&mut self, wait: impl Future<Output = T>) -> T {
        let mut wait = pin!(wait);
        if self.untold.is_some() {
            if let Ok(done) = tokio::time::timeout_at(self.at, &mut wait).await {
                return done;
            }
            self.tell();
        }
        wait.await
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        let mut runs = self.registry.runs.lock();
        // A run that has waited for its client may have been taken over in this process before the last of it is gone.
        let own = self.progress.subscribe();
        if runs.get(&self.id).is_some_and(|registered| registered.same_channel(&own)) {
            runs.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::{advance, timeout};

    use super::*;

    /// A run that went on in the process in which it had waited was forgotten there, if what was left of it before was gone
    /// later: whoever followed its stream saw no more events before its end, or before a question to the user, which never came.
    #[test]
    fn a_run_that_is_taken_over_by_its_own_process_stays_registered() {
        let runs = LiveRuns::new(Bus::local());
        let id = Id::from("resp_1");
        let before = runs.register(&id);
        let after = runs.register(&id);
        drop(before);
        after.logged(7);
        assert_eq!(runs.get(&id).expect("registered").borrow().logged, 7);
        drop(after);
        assert!(runs.get(&id).is_none());
    }

    /// Each run told every process of each of its commits, twenty times a second.
    #[tokio::test(start_paused = true)]
    async fn other_processes_are_told_of_progress_a_few_times_a_second_and_of_the_last_one() {
        let (bus, mut told) = Bus::counted();
        let id = Id::from("resp_1");
        let mut watch = bus.watch_run(&id);
        let mut teller = ProgressTeller::new(Arc::new(LiveRuns::new(bus).register(&id)));
        for next in 1..=20 {
            teller.logged(next);
            timeout(Duration::from_secs(60), watch.advanced_beyond(next - 1)).await.expect("here at once");
            advance(Duration::from_millis(50)).await;
        }
        assert_eq!(told(), 4, "of twenty commits in a second");
        _ = timeout(TELL_INTERVAL, teller.tell_while(pending::<()>())).await;
        assert_eq!(told(), 1, "and of the last one");
        _ = timeout(TELL_INTERVAL * 9, teller.tell_while(pending::<()>())).await;
        assert_eq!(told(), 0);
        assert_eq!(teller.tell_while(async { 7 }).await, 7);
    }
}
