//! The one timer of a run.

use std::pin::Pin;
use std::time::Instant;

use tokio::time::Sleep;

/// Fires for one event at a time.
pub(super) struct RunTimer {
    pub(super) next: TimerEvent,
    pub(super) sleep: Pin<Box<Sleep>>,
    pub(super) deadline: Instant,
    /// The limit that sets the deadline.
    pub(super) deadline_name: &'static str,
}

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
        Self { next, sleep: Box::pin(tokio::time::sleep_until(at.into())), deadline, deadline_name }
    }

    pub(super) fn set(&mut self, next: TimerEvent, at: Instant) {
        self.next = next;
        self.sleep.as_mut().reset(at.into());
    }

    /// From now on, only the deadline is waited for.
    pub(super) fn set_deadline(&mut self) {
        self.set(TimerEvent::Deadline, self.deadline);
    }

    /// The limit that sets the deadline, if it has passed.
    pub(super) fn passed_limit(&self) -> Option<&'static str> {
        (Instant::now() >= self.deadline).then_some(self.deadline_name)
    }
}
