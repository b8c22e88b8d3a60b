//! Signs of life for clients that count events only: after a silence the run sends the event `keepalive`.
//!
//! The run sends it, not the transport, as it has a sequence number of the response and is in the log of its events: whoever
//! reads the stream again reads the same. Only the reader that the run began with is kept alive; others get comments.

use std::time::Instant;

use super::live::{Run, RunError};

impl Run {
    /// Sends a sign of life if one is due. The timer is not reset for each event: when it fires, it is moved to where it
    /// belongs by then.
    pub(super) async fn keep_alive(&mut self) -> Result<(), RunError> {
        let (Some(timer), now) = (&mut self.keepalive, Instant::now()) else { return Ok(()) };
        // Before the first event there is nothing that it could follow.
        let due = self.sink.last_sent().map_or(now + timer.interval, |last| last + timer.interval);
        if due > now {
            timer.reset(due);
            return Ok(());
        }
        timer.reset(now + timer.interval);
        if !self.sink.has_reader() {
            self.keepalive = None;
            return Ok(());
        }
        // What waits to be sent is a sign of life, too.
        if self.sink.events().is_empty() {
            self.machine.keep_alive(self.sink.events());
        }
        self.flush().await
    }
}
