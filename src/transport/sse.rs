//! A run's events as a stream of server-sent events.
//!
//! What happened together is written together: one batch of the run, or all that wait, become one body
//! frame and so one write. Idle streams are kept alive by comments. What a client does not take is bounded: a frame with
//! large events in it, as the first and the last of a response may be, is reserved like other responses.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_stream::try_stream;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{FutureExt, Stream};
use tokio::time::Sleep;

use super::error::ErrorResponse;
use super::response_budget::{self, ResponseBudget};
use antwort_engine::{BatchEvents, EventBatch, RunHandle};
use antwort_limits::Permit;
use antwort_protocol::error::ApiError;
use antwort_telemetry::request_log::{RequestLog, RequestOutcome};

/// A comment: clients ignore it, proxies see that the connection lives.
pub(super) const KEEPALIVE: &[u8] = b": keepalive\n\n";
pub(super) const DONE: &[u8] = b"data: [DONE]\n\n";
/// A frame is closed at about this size, so that one slow client does not hold much.
const TARGET_FRAME_BYTES: usize = 64 * 1024;
/// A frame beyond this has large events in it.
const MAX_UNRESERVED_BYTES: usize = 2 * TARGET_FRAME_BYTES;

/// The response to a streamed request.
///
/// # Errors
/// 503 if there is no room for its first events.
pub(super) async fn response(
    first: EventBatch,
    run: RunHandle,
    keepalive: Duration,
    budget: ResponseBudget,
    log: Arc<RequestLog>,
) -> Result<Response, ErrorResponse> {
    let mut frames = FrameReader::new(run, keepalive, budget, log);
    frames.push(Some(first)).map_err(|_| ApiError::internal())?;
    if frames.buffer.bytes.len() > MAX_UNRESERVED_BYTES {
        frames.reserved = Some(frames.budget.clone().acquire(frames.buffer.bytes.len()).await?);
    }
    Ok(event_stream(stream(frames)))
}

/// The response with a stream of events.
pub(super) fn event_stream(frames: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Response {
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Tells nginx and its kin not to collect events before passing them on.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Dropping it drops the handle of the run, which is cancelled by that unless it goes on without a reader.
fn stream(mut frames: FrameReader) -> impl Stream<Item = io::Result<Bytes>> {
    try_stream! {
        while let Some(frame) = frames.next().await? {
            yield frame;
        }
    }
}

/// Encoded events that are not sent yet.
#[derive(Default)]
struct FrameBuffer {
    bytes: Vec<u8>,
    /// The sequence number of the next event.
    next: u64,
    /// The terminal event is among them, or was.
    ended: bool,
}

impl FrameBuffer {
    /// Adds a batch. An error if events are missing before it: a stream with a gap must not look complete.
    fn push(&mut self, batch: EventBatch) -> io::Result<()> {
        let (BatchEvents::Sse(bytes), true) = (batch.events, batch.first == self.next) else {
            return Err(io::Error::other("events of the run are missing"));
        };
        self.next = batch.last + 1;
        if self.bytes.is_empty() {
            self.bytes = bytes;
        } else {
            self.bytes.extend_from_slice(&bytes);
        }
        if batch.terminal.is_some() {
            self.bytes.extend_from_slice(DONE);
            self.ended = true;
        }
        Ok(())
    }

    fn takes_more(&self) -> bool {
        !self.ended && self.bytes.len() < TARGET_FRAME_BYTES
    }
}

/// Reads a run's events frame by frame.
struct FrameReader {
    run: RunHandle,
    buffer: FrameBuffer,
    keepalive: Keepalive,
    /// For the first frame, if it is large.
    reserved: Option<Permit>,
    budget: ResponseBudget,
    log: Arc<RequestLog>,
}

impl FrameReader {
    fn new(run: RunHandle, keepalive: Duration, budget: ResponseBudget, log: Arc<RequestLog>) -> Self {
        Self {
            run,
            buffer: FrameBuffer::default(),
            keepalive: Keepalive::new(keepalive),
            reserved: None,
            budget,
            log,
        }
    }

    /// Waits for the next frame; `None` after the one with the terminal event.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.buffer.bytes.is_empty() {
            if self.buffer.ended {
                return Ok(None);
            }
            self.wait().await?;
        }
        while self.buffer.takes_more()
            && let Some(batch) = self.run.next().now_or_never()
        {
            self.push(batch)?;
        }
        let frame = self.take_frame().await?;
        self.keepalive.restart();
        Ok(Some(frame))
    }

    /// Waits for events, or until a keepalive is due.
    async fn wait(&mut self) -> io::Result<()> {
        tokio::select! {
            biased;
            batch = self.run.next() => self.push(batch)?,
            () = self.keepalive.expired() => self.buffer.bytes.extend_from_slice(KEEPALIVE),
        }
        Ok(())
    }

    /// The run ends its events early when the client takes none. Then the connection breaks, so that what the client
    /// has does not look whole.
    fn push(&mut self, batch: Option<EventBatch>) -> io::Result<()> {
        let Some(batch) = batch else {
            tracing::info!(
                response_id = %self.run.id,
                "client stalled for longer than server.write_timeout; closing its stream"
            );
            self.log.set_outcome(RequestOutcome::TimedOut);
            return Err(io::ErrorKind::TimedOut.into());
        };
        self.buffer.push(batch).inspect_err(|error| {
            tracing::error!(response_id = %self.run.id, %error, "closing the stream of a response");
        })
    }

    /// What is buffered, once there is room for it.
    async fn take_frame(&mut self) -> io::Result<Bytes> {
        let frame = Bytes::from(std::mem::take(&mut self.buffer.bytes));
        if frame.len() <= MAX_UNRESERVED_BYTES {
            return Ok(frame);
        }
        let permit = match self.reserved.take() {
            Some(permit) => permit,
            // Boxed, as few streams wait here and the body of each would have room for it.
            None => match Box::pin(self.budget.clone().acquire(frame.len())).await {
                Ok(permit) => permit,
                Err(_) => {
                    tracing::info!(
                        response_id = %self.run.id,
                        "no response buffer available for a slow client (server.max_buffered_body_bytes); closing its \
                         stream"
                    );
                    return Err(io::ErrorKind::TimedOut.into());
                }
            },
        };
        Ok(response_budget::bytes_with_permit(frame, Arc::new(permit)))
    }
}

/// When an idle stream needs a sign of life.
pub(super) struct Keepalive {
    interval: Duration,
    /// When the last frame was sent.
    last: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Keepalive {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, last: Instant::now(), timer: Box::pin(tokio::time::sleep(interval)) }
    }

    pub(super) fn restart(&mut self) {
        self.last = Instant::now();
    }

    /// The timer is not reset for each frame: when it fires, it is moved to where it belongs by then.
    pub(super) async fn expired(&mut self) {
        loop {
            self.timer.as_mut().await;
            let due = self.last + self.interval;
            let now = Instant::now();
            self.timer.as_mut().reset((if now >= due { now + self.interval } else { due }).into());
            if now >= due {
                return;
            }
        }
    }
}
