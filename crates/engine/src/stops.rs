//! Tells runs to end though nobody of theirs has gone: all of them, when the drain deadline passes, or one that is
//! cancelled.
//!
//! One channel for the process: a run that is not stopped pays for it with nothing but a look when it begins to wait.

use std::collections::HashMap;
use std::future::pending;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use antwort_protocol::id::Id;

/// How long a cancellation is remembered. The store remembers it for as long as the run goes on.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Why a run has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The process stops.
    Shutdown,
    /// Its owner wants it to.
    Cancelled,
}

/// Stops runs.
#[derive(Debug, Default)]
pub(super) struct StopSignals(watch::Sender<Stops>);

#[derive(Debug, Default)]
struct Stops {
    all: bool,
    /// With the time of the last request.
    cancelled: HashMap<Id, Instant>,
}

/// Waits for a stop.
pub(super) struct StopListener(watch::Receiver<Stops>);

impl StopSignals {
    /// Stops all runs.
    pub(super) fn stop_all(&self) {
        self.0.send_modify(|stops| stops.all = true);
    }

    /// Stops those of these runs that are of this process. Wakes the runs that wait only if one of them is new.
    pub(super) fn cancel(&self, ids: impl IntoIterator<Item = Id>) {
        let now = Instant::now();
        self.0.send_if_modified(|stops| {
            stops.cancelled.retain(|_, last_request| now.duration_since(*last_request) < REMEMBERED);
            let known = stops.cancelled.len();
            stops.cancelled.extend(ids.into_iter().map(|id| (id, now)));
            stops.cancelled.len() > known
        });
    }

    pub(super) fn listen(&self) -> StopListener {
        StopListener(self.0.subscribe())
    }
}

impl StopListener {
    /// Resolves when the run of this id has to end.
    pub(super) async fn stopped(&mut self, id: &Id) -> Stop {
        loop {
            {
                let stops = self.0.borrow_and_update();
                if stops.all {
                    return Stop::Shutdown;
                }
                if stops.cancelled.contains_key(id) {
                    return Stop::Cancelled;
                }
            }
            if self.0.changed().await.is_err() {
                return pending().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_cancellation_that_is_repeated_wakes_nobody() {
        let signals = StopSignals::default();
        let listener = signals.listen();
        signals.cancel([Id::from("resp_1"), Id::from("resp_2")]);
        let mut receiver = listener.0;
        assert!(receiver.borrow_and_update().cancelled.len() == 2 && !receiver.has_changed().unwrap());
        signals.cancel([Id::from("resp_2")]);
        assert!(!receiver.has_changed().unwrap());
        signals.cancel([Id::from("resp_2"), Id::from("resp_3")]);
        assert!(receiver.has_changed().unwrap());
    }

    #[tokio::test]
    async fn a_run_is_stopped_alone_or_with_all_before_or_while_it_waits() {
        let signals = StopSignals::default();
        let (mine, other) = (Id::from("resp_1"), Id::from("resp_2"));
        let mut listener = signals.listen();
        signals.cancel([other.clone()]);
        assert_eq!(listener.stopped(&mine).now_or_never(), None, "another one was cancelled");
        assert_eq!(signals.listen().stopped(&other).await, Stop::Cancelled);
        let (stop, ()) = tokio::join!(listener.stopped(&mine), async { signals.cancel([mine.clone()]) });
        assert_eq!(stop, Stop::Cancelled);
        signals.stop_all();
        assert_eq!(signals.listen().stopped(&"resp_3".into()).await, Stop::Shutdown);
    }
}
