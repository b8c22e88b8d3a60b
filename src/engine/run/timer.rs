//! The one timer of a run.

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
    is_paused: bool,
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
            is_paused: false,
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

    /// The deadline is not reached until [`Self::resume`].
    pub(super) fn pause(&mut self) {
        if !self.is_paused {
            self.is_paused = true;
            self.sleep.as_mut().reset((Instant::now() + FAR).into());
        }
    }

    /// The deadline is later by the time for which the timer has stood still.
    pub(super) fn resume(&mut self, waited: Duration) {
        self.is_paused = false;
        self.deadline += waited;
        self.set_deadline();
    }

    /// The limit that sets the deadline, if it has passed.
    pub(super) fn passed_limit(&self) -> Option<&'static str> {
        (!self.is_paused && Instant::now() >= self.deadline).then_some(self.deadline_name)
    }
}
