//! When runs that wait can be claimed again though nobody answers: the worker of this process looks for them then, and need
//! not poll for them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Maximum number of deadlines that are remembered; the others are found by polling.
const MAX_DEADLINES: usize = 100_000;
/// Runs are looked for a moment later: the clock of the database is another one.
const SLACK: Duration = Duration::from_millis(20);

/// The deadlines of the runs that this process has put to wait.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    heap: Mutex<BinaryHeap<Reverse<Instant>>>,
    is_earlier: Notify,
}

impl Deadlines {
    /// A run can be claimed after this time.
    pub(super) fn add(&self, after: Duration) {
        let Some(at) = Instant::now().checked_add(after + SLACK) else { return };
        let mut heap = self.heap.lock();
        let is_first = heap.peek().is_none_or(|Reverse(first)| at < *first);
        if heap.len() < MAX_DEADLINES {
            heap.push(Reverse(at));
        }
        drop(heap);
        if is_first {
            self.is_earlier.notify_one();
        }
    }

    /// Returns when one has passed. For one waiter.
    pub(super) async fn passed(&self) {
        loop {
            let next = self.heap.lock().peek().map(|Reverse(at)| *at);
            match next {
                Some(at) if at <= Instant::now() => {
                    let (now, mut heap) = (Instant::now(), self.heap.lock());
                    while heap.peek().is_some_and(|Reverse(at)| *at <= now) {
                        heap.pop();
                    }
                    return;
                }
                Some(at) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(at.into()) => {}
                        () = self.is_earlier.notified() => {}
                    }
                }
                None => self.is_earlier.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_earliest_deadline_wakes_the_worker_once() {
        let deadlines = Deadlines::default();
        deadlines.add(Duration::from_secs(60));
        let waits = tokio::time::timeout(Duration::from_millis(50), deadlines.passed());
        let (timed_out, ()) = tokio::join!(waits, async { deadlines.add(Duration::from_secs(30)) });
        assert!(timed_out.is_err(), "none has passed");
        deadlines.add(Duration::ZERO);
        deadlines.add(Duration::ZERO);
        deadlines.passed().await;
        assert_eq!(deadlines.heap.lock().len(), 2, "those that have passed are forgotten together");
    }
}
