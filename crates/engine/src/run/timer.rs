//! The timers of a run: the one of what it does and when it ends, and that of silence in its stream.

use std::future::pending;
use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::time::Sleep;

/// Fires for one event at a time.
pub(super) struct RunTimer {
    pub(super) next: TimerEvent,
    pub(super) sleep: Pin<Box<Sleep>>,
    pub(super) deadline: Instant,
    /// The limit that sets the deadline.
    pub(super) deadline_name: &'static str,
    /// Since when it stands still.
    paused_at: Option<Instant>,
}

/// As long as a timer that stands still sleeps at most.
const FAR: Duration = Duration::from_hours(24 * 365);

/// What a timer does when it fires.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TimerEvent {
    /// Sends status 200, though the provider has sent nothing yet.
    Commit,
    /// Writes the row in progress.
    Record,
    /// Ends the run.
    Deadline,
}

/// Fires when a stream may have been silent for the interval.
pub(super) struct KeepaliveTimer {
    pub(super) interval: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl KeepaliveTimer {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, sleep: Box::pin(tokio::time::sleep(interval)) }
    }

    pub(super) fn reset(&mut self, at: Instant) {
        self.sleep.as_mut().reset(at.into());
    }

    /// Returns when the timer has fired; never without one.
    pub(super) async fn fired(timer: &mut Option<Self>) {
        match timer {
            Some(timer) => timer.sleep.as_mut().await,
            None => pending().await,
        }
    }
}

impl RunTimer {
    /// A timer that fires at `commit_at`, if that is before the deadline, and at the deadline.
    pub(super) fn new(commit_at: Option<Instant>, deadline: Instant, deadline_name: &'static str) -> Self {
        let (next, at) = match commit_at {
            Some(at) => (TimerEvent::Commit, at.min(deadline)),
            None => (TimerEvent::Deadline, deadline),
        };
        Self {
            next,
            sleep: Box::pin(tokio::time::sleep_until(at.into())),
            deadline,
            deadline_name,
            paused_at: None,
        }
    }

    pub(super) fn set(&mut self, next: TimerEvent, at: Instant) {
        self.next = next;
        self.sleep.as_mut().reset(at.into());
    }

    /// From now on, only the deadline is waited for.
    pub(super) fn set_deadline(&mut self) {
        self.set(TimerEvent::Deadline, self.deadline);
    }

    /// The deadline is not reached until [`Self::resume`]. Returns whether the timer has not stood still before.
    pub(super) fn pause(&mut self) -> bool {
        if self.paused_at.is_some() {
            return false;
        }
        let now = Instant::now();
        self.paused_at = Some(now);
        self.sleep.as_mut().reset((now + FAR).into());
        true
    }

    /// The deadline is later by the time for which the timer has stood still, which is returned; `None` if it has not.
    pub(super) fn resume(&mut self) -> Option<Duration> {
        let waited = self.paused_at.take()?.elapsed();
        self.deadline += waited;
        self.set_deadline();
        Some(waited)
    }

    /// The limit that sets the deadline, if it has passed.
    pub(super) fn passed_limit(&self) -> Option<&'static str> {
        (self.paused_at.is_none() && Instant::now() >= self.deadline).then_some(self.deadline_name)
    }
}
