//! Sends a run's events to its client over a bounded channel.
//!
//! Holds events back until the run is committed to an answer with status 200, and treats a client that reads
//! nothing for `server.write_timeout` as disconnected.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::protocol::error::ApiError;
use crate::response::machine::Events;

/// Batches between a run and its client. A batch holds the events of one upstream read, so this bounds memory.
const CHANNEL_CAPACITY: usize = 16;

/// What a run sends.
#[derive(Debug)]
pub(crate) enum RunOutput {
    /// Events that happened together, in order; the last batch ends with the terminal event.
    Events(Events),
    /// The request failed before any event was sent. Only ever the first and last message.
    Rejected(Box<ApiError>),
}

/// The client has disconnected, or has read nothing for `server.write_timeout`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disconnected;

/// The sending end of a run's channel.
pub(super) struct EventSink {
    to: mpsc::Sender<RunOutput>,
    buffer: Events,
    committed: bool,
    write_timeout: Duration,
    /// A batch could not be sent. Nothing is sent after it: a stream with a gap must not look complete.
    broken: bool,
}

impl EventSink {
    /// A sink, and the receiver for the transport.
    pub(super) fn new(write_timeout: Duration) -> (Self, mpsc::Receiver<RunOutput>) {
        let (to, from) = mpsc::channel(CHANNEL_CAPACITY);
        (Self { to, buffer: Events::new(), committed: false, write_timeout, broken: false }, from)
    }

    /// The buffer that the machine appends to.
    pub(super) fn events(&mut self) -> &mut Events {
        &mut self.buffer
    }

    /// Whether the answer's status is decided to be 200.
    pub(super) fn is_committed(&self) -> bool {
        self.committed
    }

    /// Decides on status 200 without sending anything, for requests that do not stream. Events so far are dropped:
    /// the terminal event holds their result.
    pub(super) fn commit(&mut self) {
        self.committed = true;
        self.buffer.clear();
    }

    /// Sends what is in the buffer.
    pub(super) async fn flush(&mut self) -> Result<(), Disconnected> {
        self.committed = true;
        if self.broken {
            return Err(Disconnected);
        }
        if self.buffer.is_empty() {
            return Ok(());
        }
        let batch = RunOutput::Events(std::mem::take(&mut self.buffer));
        let sent = match self.to.try_send(batch) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Disconnected),
            Err(mpsc::error::TrySendError::Full(batch)) => {
                self.to.send_timeout(batch, self.write_timeout).await.map_err(|_| Disconnected)
            }
        };
        self.broken = sent.is_err();
        sent
    }

    /// Answers the request with an error instead of a response.
    pub(super) async fn reject(self, error: ApiError) {
        // A client that has disconnected needs no answer.
        let _gone = self.to.send_timeout(RunOutput::Rejected(Box::new(error)), self.write_timeout).await;
    }

    /// Resolves when the client has disconnected.
    pub(super) async fn closed(&self) {
        self.to.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::event::{ResponseEvent, StreamEvent};

    /// Events of a run without a stream were once kept until its end: 270 bytes for each letter of the answer.
    #[test]
    fn where_nobody_streams_no_events_are_kept() {
        let (mut sink, _reader) = EventSink::new(Duration::from_secs(1));
        for sequence_number in 0..100 {
            let error = ApiError::internal().body;
            sink.events().push(StreamEvent { sequence_number, event: ResponseEvent::Error { error } });
            sink.commit();
        }
        assert!(sink.is_committed() && sink.buffer.is_empty());
    }
}
