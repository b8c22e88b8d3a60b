//! The waiters of this process, by the run whose signals they wait for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use antwort_protocol::id::Id;

/// Runs that somebody waits for. All others cost nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct RunWatchers(Arc<Mutex<HashMap<Id, Watched>>>);

#[derive(Debug)]
struct Watched {
    progress: watch::Sender<RunSignals>,
    watches: usize,
}

/// What was told of a run since somebody waits for it.
#[derive(Debug, Clone, Copy, Default)]
struct RunSignals {
    next: u64,
    /// How many answers.
    answers: u64,
    ended: bool,
}

impl RunWatchers {
    pub(super) fn advanced(&self, id: &Id, next: u64) {
        self.change(id, |signals| {
            let is_more = signals.next < next;
            signals.next = signals.next.max(next);
            is_more
        });
    }

    pub(super) fn answered(&self, id: &Id) {
        self.change(id, |signals| {
            signals.answers += 1;
            true
        });
    }

    pub(super) fn ended(&self, id: &Id) {
        self.change(id, |signals| !std::mem::replace(&mut signals.ended, true));
    }

    fn change(&self, id: &Id, change: impl FnOnce(&mut RunSignals) -> bool) {
        if let Some(watched) = self.0.lock().get(id) {
            watched.progress.send_if_modified(change);
        }
    }

    pub(super) fn watch(&self, id: &Id) -> RunWatch {
        let mut runs = self.0.lock();
        let watched = runs
            .entry(id.clone())
            .or_insert_with(|| Watched { progress: watch::Sender::default(), watches: 0 });
        watched.watches += 1;
        RunWatch { signals: watched.progress.subscribe(), id: id.clone(), watchers: self.clone() }
    }
}

/// The signals of one run, until it is dropped.
#[derive(Debug)]
pub struct RunWatch {
    signals: watch::Receiver<RunSignals>,
    id: Id,
    watchers: RunWatchers,
}

impl RunWatch {
    /// Returns when it was told that the events before a higher number than `next` are logged, or that the run has ended.
    pub async fn advanced_beyond(&mut self, next: u64) {
        // An error cannot be: the sender is dropped with the last watch.
        _ = self.signals.wait_for(|signals| signals.next > next || signals.ended).await;
    }

    /// Returns when it was told of more answers than `seen`, and sets that to how many there are.
    pub async fn answered(&mut self, seen: &mut u64) {
        if let Ok(signals) = self.signals.wait_for(|signals| signals.answers > *seen).await {
            *seen = signals.answers;
        }
    }

    /// Returns when it was told that the run has ended.
    pub async fn ended(&mut self) {
        _ = self.signals.wait_for(|signals| signals.ended).await;
    }
}

impl Drop for RunWatch {
    fn drop(&mut self) {
        let mut runs = self.watchers.0.lock();
        if let Entry::Occupied(mut entry) = runs.entry(self.id.clone()) {
            entry.get_mut().watches -= 1;
            if entry.get().watches == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn waiters_of_a_run_are_told_of_it_alone_and_forgotten_with_the_last() {
        let watchers = RunWatchers::default();
        let (a, b) = (Id::from("resp_a"), Id::from("resp_b"));
        let (mut first, mut second) = (watchers.watch(&a), watchers.watch(&a));
        watchers.advanced(&b, 9);
        assert!(first.advanced_beyond(3).now_or_never().is_none());
        watchers.advanced(&a, 4);
        assert!(first.advanced_beyond(3).now_or_never().is_some());
        assert!(first.advanced_beyond(4).now_or_never().is_none());
        assert!(second.ended().now_or_never().is_none());
        watchers.ended(&a);
        assert!(first.advanced_beyond(4).now_or_never().is_some() && second.ended().now_or_never().is_some());
        drop(first);
        assert_eq!(watchers.0.lock().len(), 1);
        drop(second);
        assert!(watchers.0.lock().is_empty());
    }
}
