//! What interrupts a run that waits: its client disconnects, it is cancelled, a shutdown aborts it, its timer fires, or its
//! client needs a sign of life.

use std::pin::pin;
use std::time::{Duration, Instant};

use super::live::{Run, RunError};
use super::saved::save;
use super::timer::{KeepaliveTimer, TimerEvent};
use crate::in_flight::shutting_down;
use crate::record;
use crate::stops::Stop;

/// A stream that runs for longer gets a row in progress. Most end earlier, and are written once.
const RECORD_AFTER: Duration = Duration::from_millis(500);

/// The message of a response that a shutdown ends.
const SHUTDOWN_MESSAGE: &str =
    "The gateway was stopped before the response was complete. What was received is kept; try again.";

impl RunError {
    /// A shutdown ends the run, or another process goes on with it.
    pub(super) fn shutdown() -> Self {
        Self::Failed(shutting_down(SHUTDOWN_MESSAGE))
    }
}

impl Run {
    /// Sends the events so far.
    pub(super) async fn flush(&mut self) -> Result<(), RunError> {
        self.sink.flush().await?;
        if self.clock.timer.next == TimerEvent::Commit {
            self.set_timer_after_commit();
        }
        Ok(())
    }

    /// Awaits a future unless the client disconnects or the run is stopped, and serves the timer meanwhile.
    pub(super) async fn until_cancelled<T>(&mut self, work: impl Future<Output = T>) -> Result<T, RunError> {
        let mut work = pin!(work);
        loop {
            let is_silent = tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                () = self.sink.closed() => return Err(RunError::Cancelled),
                stop = self.stops.stopped(&self.spec.response.id) => return Err(match stop {
                    Stop::Shutdown => RunError::shutdown(),
                    Stop::Cancelled => RunError::Cancelled,
                }),
                () = &mut self.clock.timer.sleep => false,
                () = KeepaliveTimer::fired(&mut self.clock.keepalive) => true,
            };
            if is_silent {
                self.keep_alive().await?;
                continue;
            }
            match self.clock.timer.next {
                TimerEvent::Deadline => return Err(RunError::LimitReached(self.clock.timer.deadline_name)),
                TimerEvent::Commit => {
                    self.sink.flush().await?;
                    self.set_timer_after_commit();
                }
                TimerEvent::Record => self.record_running().await,
            }
        }
    }

    /// Sends a sign of life if one is due, as the event `keepalive`, to clients that count events only. The run sends it, not the transport, as it
    /// has a sequence number of the response and is in the log of its events: whoever reads the stream again reads the same. Only the reader that
    /// the run began with is kept alive; others get comments. The timer is not reset for each event: when it fires, it is moved to where it
    /// belongs by then.
    pub(super) async fn keep_alive(&mut self) -> Result<(), RunError> {
        let (Some(timer), now) = (&mut self.clock.keepalive, Instant::now()) else { return Ok(()) };
        // Before the first event there is nothing that it could follow.
        let due = self.sink.last_sent().map_or(now + timer.interval, |last| last + timer.interval);
        if due > now {
            timer.reset(due);
            return Ok(());
        }
        timer.reset(now + timer.interval);
        if !self.sink.has_reader() {
            self.clock.keepalive = None;
            return Ok(());
        }
        // What waits to be sent is a sign of life, too.
        if self.sink.events().is_empty() {
            self.machine.keep_alive(self.sink.events());
        }
        self.flush().await
    }

    pub(super) fn check_deadline(&self) -> Result<(), RunError> {
        self.clock.timer.passed_limit().map_or(Ok(()), |limit| Err(RunError::LimitReached(limit)))
    }

    /// After the commit the client knows the response's id: a stored stream gets a row if it runs for some time.
    fn set_timer_after_commit(&mut self) {
        let record_at = (self.clock.started + RECORD_AFTER).max(Instant::now());
        if self.spec.store && record_at < self.clock.timer.deadline {
            self.clock.timer.set(TimerEvent::Record, record_at);
        } else {
            self.clock.timer.set_deadline();
        }
    }

    /// A failure is only logged: the row that counts is the one at the end.
    async fn record_running(&mut self) {
        self.clock.timer.set_deadline();
        if self.state.committed.is_recorded {
            return;
        }
        let record = record::running(&self.spec, self.machine.response());
        self.state.committed.is_recorded = true;
        let state = save(&self.parts.seal, &self.spec, &self.state, &self.machine, None);
        if let Err(error) = self.parts.store.begin(record, state).await {
            self.state.committed.is_recorded = false;
            tracing::warn!(%error, "writing the row of a response in progress failed");
        }
    }
}
