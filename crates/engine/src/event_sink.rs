//! Sends a run's events to its reader over a bounded channel.
//!
//! Events that happened together are one batch. For a client that streams they are encoded here, once, whoever reads
//! the bytes. Nothing is sent until the run is committed to an answer with status 200, and a reader that takes
//! nothing for `server.write_timeout` counts as disconnected. What that means for the run says [`OnDisconnect`]: the events of one
//! that goes on are sent to nobody.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::event_log::{self, EventLogger};
use antwort_protocol::error::ApiError;
use antwort_protocol::event::EventEncoder;
use antwort_protocol::request::OnDisconnect;
use antwort_protocol::response::ResponseSnapshot;
use antwort_response::machine::{ClosedResponse, Events};
use antwort_store::{LogEnd, LoggedEvents};

/// Batches between a run and its reader. A batch holds the events of one upstream read, so this bounds memory.
const CHANNEL_CAPACITY: usize = 16;
/// Bytes of a delta with its frame, about.
const TYPICAL_EVENT_BYTES: usize = 256;

/// In which form the reader of a run takes its events.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EventFormat {
    /// As server-sent events.
    Sse(EventEncoder),
    /// As JSON texts, one for each event.
    Frames(EventEncoder),
    /// As values: the reader is in this process.
    Typed,
    /// Not at all: only the response is wanted.
    ResponseOnly,
}

/// Events that happened together, in order.
#[derive(Debug)]
pub struct EventBatch {
    /// The sequence number of the first event.
    pub first: u64,
    /// The sequence number of the last event.
    pub last: u64,
    /// The events.
    pub events: BatchEvents,
    /// The response in its final state, if the last event is the terminal event.
    pub terminal: Option<Arc<ResponseSnapshot>>,
}

/// The events of a batch in the format of its reader.
#[derive(Debug)]
pub enum BatchEvents {
    /// [`EventFormat::Sse`]
    Sse(Vec<u8>),
    /// [`EventFormat::Frames`]
    Frames(Vec<String>),
    /// [`EventFormat::Typed`]
    Typed(Events),
    /// [`EventFormat::ResponseOnly`]
    None,
}

impl BatchEvents {
    /// The events as values; none in another format.
    pub fn typed(self) -> Events {
        match self {
            Self::Typed(events) => events,
            Self::Sse(_) | Self::Frames(_) | Self::None => Events::new(),
        }
    }
}

/// What a run sends.
#[derive(Debug)]
pub(super) enum RunOutput {
    /// Events; the last batch ends with the terminal event. Boxed: the channel allocates 32 slots when it is made.
    Batch(Box<EventBatch>),
    /// The request failed before any event was sent. Only ever the last message, and the first of a stream.
    Rejected(Box<ApiError>),
}

/// The reader has disconnected, or has taken nothing for `server.write_timeout`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disconnected;

/// The sending end of a run's channel.
pub(super) struct EventSink {
    /// `None` once the reader of a run that goes on without one is gone.
    to: Option<mpsc::Sender<RunOutput>>,
    on_disconnect: OnDisconnect,
    format: EventFormat,
    buffer: Events,
    committed: bool,
    write_timeout: Duration,
    /// A batch could not be sent. Nothing is sent after it: a stream with a gap must not look complete.
    broken: bool,
    /// Where events are written besides.
    log: Option<EventLogger>,
    /// After which silence the reader needs an event.
    keepalive: Option<Duration>,
    /// When the last batch was sent; only of a reader that needs events.
    last_sent: Option<Instant>,
}

impl EventSink {
    /// A sink, and the receiver for the reader.
    pub(super) fn new(
        format: EventFormat,
        write_timeout: Duration,
        on_disconnect: OnDisconnect,
    ) -> (Self, mpsc::Receiver<RunOutput>) {
        let (to, from) = mpsc::channel(CHANNEL_CAPACITY);
        let sink = Self {
            to: Some(to),
            on_disconnect,
            format,
            buffer: Events::new(),
            committed: false,
            write_timeout,
            broken: false,
            log: None,
            keepalive: None,
            last_sent: None,
        };
        (sink, from)
    }

    /// A sink without a reader: events are only logged.
    pub(super) fn to_log(encoder: EventEncoder, log: Option<EventLogger>, write_timeout: Duration) -> Self {
        Self {
            to: None,
            on_disconnect: OnDisconnect::Continue,
            format: EventFormat::Sse(encoder),
            buffer: Events::new(),
            committed: true,
            write_timeout,
            broken: false,
            log,
            keepalive: None,
            last_sent: None,
        }
    }

    /// The reader takes a stream without events for a broken one after some time; comments do not help it.
    #[must_use]
    pub(super) fn with_keepalive(self, interval: Option<Duration>) -> Self {
        let is_streamed = matches!(self.format, EventFormat::Sse(_) | EventFormat::Frames(_));
        Self { keepalive: interval.filter(|_| is_streamed), ..self }
    }

    /// After which silence the reader needs an event.
    pub(super) fn keepalive(&self) -> Option<Duration> {
        self.keepalive
    }

    /// When the last batch was sent, if the reader needs events.
    pub(super) fn last_sent(&self) -> Option<Instant> {
        self.last_sent
    }

    /// Whether the reader is there, as far as is known.
    pub(super) fn has_reader(&self) -> bool {
        self.to.as_ref().is_some_and(|to| !to.is_closed())
    }

    /// The buffer that the machine appends to.
    pub(super) fn events(&mut self) -> &mut Events {
        &mut self.buffer
    }

    /// Whether `response.failed` is announced by an event `error`. Over WebSocket it is not: a message of this type ends the
    /// turn.
    pub(super) fn announces_errors(&self) -> bool {
        !matches!(self.format, EventFormat::Frames(_))
    }

    /// Whether the reader gets events, and not the response alone.
    pub(super) fn is_streamed(&self) -> bool {
        !matches!(self.format, EventFormat::ResponseOnly)
    }

    /// Whether the answer's status is decided to be 200.
    pub(super) fn is_committed(&self) -> bool {
        self.committed
    }

    /// Sends what is in the buffer, as far as the reader wants it.
    pub(super) async fn flush(&mut self) -> Result<(), Disconnected> {
        self.committed = true;
        if self.broken {
            return Err(Disconnected);
        }
        if self.log.is_some() {
            self.log_buffer().await;
        }
        let Some(to) = &self.to else {
            self.buffer.clear();
            return Ok(());
        };
        let Some(batch) = take_batch(&mut self.buffer, self.format) else { return Ok(()) };
        let sent = match to.try_send(RunOutput::Batch(Box::new(batch))) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Disconnected),
            Err(mpsc::error::TrySendError::Full(batch)) => {
                to.send_timeout(batch, self.write_timeout).await.map_err(|_| Disconnected)
            }
        };
        if self.keepalive.is_some() {
            self.last_sent = Some(Instant::now());
        }
        match (sent, self.on_disconnect) {
            (Err(Disconnected), OnDisconnect::Continue) => {
                // The reader, if it still is there, finds that nothing more comes.
                self.to = None;
                Ok(())
            }
            (sent, _) => {
                self.broken = sent.is_err();
                sent
            }
        }
    }

    /// Logs events from now on; those in the buffer are logged already.
    pub(super) fn start_log(&mut self, log: EventLogger) {
        self.log = Some(log);
    }

    /// The events in the buffer, encoded for the log; `None` in a format that is not logged.
    pub(super) fn buffered(&self) -> Option<(EventEncoder, LoggedEvents)> {
        match self.format {
            EventFormat::Sse(encoder) => Some((encoder, event_log::logged(encoder, &self.buffer)?)),
            EventFormat::Frames(_) | EventFormat::Typed | EventFormat::ResponseOnly => None,
        }
    }

    async fn log_buffer(&mut self) {
        let Some(log) = &mut self.log else { return };
        log.log(&self.buffer).await;
        if self.committed {
            log.show_begun();
        }
    }

    /// Returns once all events so far are in the log, if there is one.
    pub(super) async fn settle_log(&mut self) {
        self.log_buffer().await;
        if let Some(log) = &mut self.log {
            log.settle().await;
        }
    }

    /// How the log ends with this response, if there is one. Nothing is logged after it.
    pub(super) async fn end_log(&mut self, closed: &ClosedResponse) -> Option<LogEnd> {
        self.settle_log().await;
        Some(self.log.take()?.end(closed))
    }

    /// Answers the request with an error instead of a response.
    pub(super) async fn reject(self, error: ApiError) {
        // A client that has disconnected needs no answer.
        if let Some(to) = &self.to {
            let _gone = to.send_timeout(RunOutput::Rejected(Box::new(error)), self.write_timeout).await;
        }
    }

    /// Resolves when the reader of a run that ends with it has disconnected.
    pub(super) async fn closed(&self) {
        match (&self.to, self.on_disconnect) {
            (Some(to), OnDisconnect::Cancel) => to.closed().await,
            _ => pending().await,
        }
    }
}

/// The buffered events as a batch; `None` if there is nothing to send.
fn take_batch(buffer: &mut Events, format: EventFormat) -> Option<EventBatch> {
    let (first, last) = (buffer.first()?.sequence_number, buffer.last()?);
    let terminal = last.event.terminal().cloned();
    let last = last.sequence_number;
    let events = match format {
        EventFormat::Sse(encoder) => {
            let mut bytes = Vec::with_capacity(buffer.len() * TYPICAL_EVENT_BYTES);
            for event in buffer.drain(..) {
                encoder.write_sse(&event, &mut bytes);
            }
            BatchEvents::Sse(bytes)
        }
        EventFormat::Frames(encoder) => {
            BatchEvents::Frames(buffer.drain(..).map(|event| encoder.to_json(&event)).collect())
        }
        EventFormat::Typed => BatchEvents::Typed(std::mem::take(buffer)),
        EventFormat::ResponseOnly => {
            buffer.clear();
            terminal.as_ref()?;
            BatchEvents::None
        }
    };
    Some(EventBatch { first, last, events, terminal })
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use antwort_protocol::event::{ResponseEvent, StreamEvent};

    fn push(sink: &mut EventSink, sequence_number: u64) {
        let error = ApiError::internal().body;
        sink.events().push(StreamEvent { sequence_number, event: ResponseEvent::Error { error } });
    }

    /// Events of a run without a stream were once kept until its end: 270 bytes for each letter of the answer.
    #[tokio::test]
    async fn where_nobody_streams_no_events_are_kept_or_encoded() {
        let (mut sink, mut reader) =
            EventSink::new(EventFormat::ResponseOnly, Duration::from_secs(1), OnDisconnect::Cancel);
        for sequence_number in 0..100 {
            push(&mut sink, sequence_number);
            sink.flush().await.unwrap();
        }
        assert!(sink.is_committed() && sink.buffer.is_empty());
        assert!(reader.try_recv().is_err(), "no event is sent");
    }

    #[tokio::test]
    async fn a_run_that_goes_on_without_its_reader_keeps_and_encodes_nothing_for_it() {
        let format = EventFormat::Sse(EventEncoder::default());
        let (mut sink, reader) = EventSink::new(format, Duration::from_secs(1), OnDisconnect::Continue);
        push(&mut sink, 0);
        drop(reader);
        for sequence_number in 1..100 {
            sink.flush().await.unwrap();
            push(&mut sink, sequence_number);
        }
        sink.flush().await.unwrap();
        assert!(sink.buffer.is_empty() && sink.is_committed());
        assert!(sink.closed().now_or_never().is_none(), "nobody has to stop for it");
    }

    #[tokio::test]
    async fn a_batch_is_encoded_once_and_knows_its_sequence_numbers() {
        let encoder = EventEncoder::default();
        let (mut sink, mut reader) =
            EventSink::new(EventFormat::Sse(encoder), Duration::from_secs(1), OnDisconnect::Cancel);
        for sequence_number in 3..6 {
            push(&mut sink, sequence_number);
        }
        let mut expected = Vec::new();
        for event in sink.events() {
            encoder.write_sse(event, &mut expected);
        }
        sink.flush().await.unwrap();
        let Some(RunOutput::Batch(batch)) = reader.recv().await else { panic!("a batch") };
        let EventBatch { first: 3, last: 5, events, terminal: None } = *batch else {
            panic!("a batch of three events")
        };
        let BatchEvents::Sse(bytes) = events else { panic!("{events:?}") };
        assert_eq!(bytes, expected);
    }
}
