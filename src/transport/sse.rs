//! A run's events as a stream of server-sent events.
//!
//! What happened together is written together: one batch of the run, or all that wait, become one body
//! frame and so one write. Idle streams are kept alive by comments. What a client does not take is bounded: a frame with
//! large events in it, as the first and the last of a response may be, is reserved like other answers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use http_body::Frame;
use tokio::time::Sleep;

use super::error::ErrorResponse;
use super::response_budget::{self, ResponseBudget};
use crate::admission::Permit;
use crate::engine::RunHandle;
use crate::protocol::event::EventEncoder;
use crate::response::machine::Events;
use crate::telemetry::request_log::{RequestLog, RequestOutcome};

/// A comment: clients ignore it, proxies see that the connection lives.
const KEEPALIVE: &[u8] = b": keepalive\n\n";
/// Bytes of a delta with its frame, about; room is made for as many at once as there are.
const TYPICAL_EVENT_BYTES: usize = 256;
const DONE: &[u8] = b"data: [DONE]\n\n";
/// A frame is closed at about this size, so that one slow reader does not hold much.
const FRAME_BYTES: usize = 64 * 1024;
/// A frame beyond this has large events in it.
const MAX_UNRESERVED_BYTES: usize = 2 * FRAME_BYTES;

/// The answer to a streamed request.
///
/// # Errors
/// 503 if there is no room for its first events.
pub(super) async fn response(
    first: &Events,
    run: RunHandle,
    keepalive: Duration,
    budget: ResponseBudget,
    log: Arc<RequestLog>,
) -> Result<Response, ErrorResponse> {
    let mut body = EventBody::new(first, run, keepalive, budget, log);
    if body.buffer.len() > MAX_UNRESERVED_BYTES {
        body.reserved = Some(body.budget.clone().acquire(body.buffer.len()).await?);
    }
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Tells nginx and its kin not to collect events before passing them on.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

type Reserving = Pin<Box<dyn Future<Output = Result<Permit, ErrorResponse>> + Send>>;

struct EventBody {
    run: RunHandle,
    encoding: EventEncoder,
    buffer: Vec<u8>,
    /// For the frame that is next, if it is large.
    reserved: Option<Permit>,
    reserving: Option<Reserving>,
    budget: ResponseBudget,
    log: Arc<RequestLog>,
    ended: bool,
    keepalive: Duration,
    last: Instant,
    alarm: Pin<Box<Sleep>>,
}

impl EventBody {
    fn new(
        first: &Events,
        run: RunHandle,
        keepalive: Duration,
        budget: ResponseBudget,
        log: Arc<RequestLog>,
    ) -> Self {
        let encoding = run.encoding;
        let mut body = Self {
            run,
            encoding,
            buffer: Vec::new(),
            reserved: None,
            reserving: None,
            budget,
            log,
            ended: false,
            keepalive,
            last: Instant::now(),
            alarm: Box::pin(tokio::time::sleep(keepalive)),
        };
        body.encode(first);
        body
    }

    fn encode(&mut self, events: &Events) {
        self.buffer.reserve(events.len() * TYPICAL_EVENT_BYTES);
        for event in events {
            self.encoding.write_sse(event, &mut self.buffer);
            if event.event.terminal().is_some() {
                self.buffer.extend_from_slice(DONE);
                self.ended = true;
            }
        }
    }

    /// What is to be sent, once there is room for it.
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, ErrorResponse>> {
        if self.buffer.len() <= MAX_UNRESERVED_BYTES {
            return Poll::Ready(Ok(std::mem::take(&mut self.buffer).into()));
        }
        let permit = match self.reserved.take() {
            Some(permit) => permit,
            None => {
                let (budget, bytes) = (&self.budget, self.buffer.len());
                let reserving = self.reserving.get_or_insert_with(|| Box::pin(budget.clone().acquire(bytes)));
                let outcome = ready!(reserving.as_mut().poll(context));
                self.reserving = None;
                outcome?
            }
        };
        Poll::Ready(Ok(response_budget::keep(std::mem::take(&mut self.buffer).into(), Arc::new(permit))))
    }

    /// The alarm is not set anew for each event: when it rings, it is moved to where it belongs by then.
    fn poll_keepalive(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.alarm.as_mut().poll(context));
            let due = self.last + self.keepalive;
            let rings = Instant::now() >= due;
            self.alarm.as_mut().reset((if rings { Instant::now() + self.keepalive } else { due }).into());
            if rings {
                return Poll::Ready(());
            }
        }
    }
}

impl http_body::Body for EventBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        while !self.ended && self.buffer.len() < FRAME_BYTES {
            match self.run.poll_next(context) {
                Poll::Ready(Some(events)) => self.encode(&events),
                // The reader was given up by the run. The connection breaks, so that what it has does not
                // look whole.
                Poll::Ready(None) => {
                    tracing::info!(response_id = %self.run.id, "a reader that took nothing was cut");
                    self.log.set_outcome(RequestOutcome::TimedOut);
                    self.ended = true;
                    self.buffer.clear();
                    return Poll::Ready(Some(Err(std::io::ErrorKind::TimedOut.into())));
                }
                Poll::Pending => break,
            }
        }
        if self.buffer.is_empty() {
            if self.ended {
                return Poll::Ready(None);
            }
            ready!(self.poll_keepalive(context));
            self.buffer.extend_from_slice(KEEPALIVE);
        }
        let Ok(bytes) = ready!(self.poll_bytes(context)) else {
            tracing::info!(response_id = %self.run.id, "a reader was cut: there was no room for what it does not take");
            self.ended = true;
            self.buffer.clear();
            return Poll::Ready(Some(Err(std::io::ErrorKind::TimedOut.into())));
        };
        self.last = Instant::now();
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.buffer.is_empty()
    }
}
