//! Where a run's events leave: a bounded channel to whoever asked.
//!
//! Holds events back until the run is committed to an answer of status 200, and turns a reader that takes
//! nothing for too long into one that is gone.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::protocol::error::ApiError;
use crate::response::machine::Events;

/// Batches between a run and its reader. Each holds what one upstream read brought, so this bounds memory.
const CHANNEL_CAPACITY: usize = 16;

/// What comes out of a run.
#[derive(Debug)]
pub(crate) enum RunOutput {
    /// Events that happened together, in order; the last batch ends with a terminal event.
    Events(Events),
    /// Instead of any event: the request came to nothing. Only ever first and last.
    Rejected(Box<ApiError>),
}

/// The reader is gone, or takes nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disconnected;

/// The run's end of the channel.
pub(super) struct EventSink {
    to: mpsc::Sender<RunOutput>,
    buffer: Events,
    committed: bool,
    write_timeout: Duration,
    /// The reader missed something. It gets nothing more: a stream with a hole must not look whole.
    broken: bool,
}

impl EventSink {
    /// An outlet and the reader's end. `patience`: how long a reader may take nothing.
    pub(super) fn new(patience: Duration) -> (Self, mpsc::Receiver<RunOutput>) {
        let (to, from) = mpsc::channel(CHANNEL_CAPACITY);
        (Self { to, buffer: Events::new(), committed: false, write_timeout: patience, broken: false }, from)
    }

    /// Where the machine writes.
    pub(super) fn events(&mut self) -> &mut Events {
        &mut self.buffer
    }

    /// Whether something has left, so that the answer's status is 200.
    pub(super) fn is_committed(&self) -> bool {
        self.committed
    }

    /// From now on the answer is a response, though nothing leaves yet. What has happened is dropped: it is in the
    /// terminal event, which is all that is waited for.
    pub(super) fn commit(&mut self) {
        self.committed = true;
        self.buffer.clear();
    }

    /// Lets everything leave that waits.
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

    /// Answers with an error instead of a response.
    pub(super) async fn reject(self, error: ApiError) {
        // A reader that has gone needs no answer.
        let _gone = self.to.send_timeout(RunOutput::Rejected(Box::new(error)), self.write_timeout).await;
    }

    /// Resolves when the reader has gone.
    pub(super) async fn closed(&self) {
        self.to.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::event::{ResponseEvent, StreamEvent};

    /// They were kept until the end: 270 bytes for each letter of a provider that streams to a client who does not.
    #[test]
    fn where_nobody_streams_no_events_are_kept() {
        let (mut outlet, _reader) = EventSink::new(Duration::from_secs(1));
        for sequence_number in 0..100 {
            let error = ApiError::internal().body;
            outlet.events().push(StreamEvent { sequence_number, event: ResponseEvent::Error { error } });
            outlet.commit();
        }
        assert!(outlet.is_committed() && outlet.buffer.is_empty());
    }
}
