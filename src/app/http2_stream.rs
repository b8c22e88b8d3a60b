//! HTTP/2 streams whose peer takes nothing.
//!
//! Each stream has a window of its own. While that is shut its connection goes on, pings are answered, and no time that
//! is kept at the socket runs out. So time is kept here: a stream of which nothing is taken for `write_timeout` is
//! dropped with all that waits in it, and its connection takes no new ones.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::rt::Executor;
use tokio::time::Instant;

use super::connection::ConnectionActivity;
use super::exchange::Exchange;
use crate::telemetry::request_log::{RequestLog, RequestOutcome};

/// Bodies are handed on in pieces of at most this, so that it shows whether they are taken.
const PIECE: usize = 64 << 10;

tokio::task_local! {
    static STREAM: Arc<Sending>;
}

/// How far the body of a stream has come. Written and read by the task of the stream alone.
#[derive(Debug, Default)]
struct Sending {
    /// The number of the piece that was handed on last; 0 while the body itself is waited for.
    untaken: AtomicU64,
    /// The connection, and the request that is answered.
    of: OnceLock<(Arc<ConnectionActivity>, Arc<RequestLog>)>,
}

/// Runs the streams of HTTP/2 connections.
#[derive(Debug, Clone)]
pub(super) struct StreamExecutor {
    pub write_timeout: Duration,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        let sending = Arc::<Sending>::default();
        let limited = limit(stream, Arc::clone(&sending), self.write_timeout);
        #[expect(clippy::disallowed_methods, reason = "a stream ends with its connection")]
        tokio::spawn(STREAM.scope(sending, limited));
    }
}

/// Runs a stream to its end, or until its peer has taken nothing for so long.
async fn limit(stream: impl Future<Output = ()>, sending: Arc<Sending>, write_timeout: Duration) {
    let mut stream = pin!(stream);
    // Set where a peer is waited for: most streams touch no timer.
    let mut alarm = pin!(tokio::time::sleep(write_timeout));
    let mut last = 0;
    poll_fn(|context| {
        if stream.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let untaken = sending.untaken.load(Ordering::Relaxed);
        if untaken == 0 {
            return Poll::Pending;
        }
        if untaken != last {
            last = untaken;
            alarm.as_mut().reset(Instant::now() + write_timeout);
        }
        ready!(alarm.as_mut().poll(context));
        if let Some((connection, log)) = sending.of.get() {
            connection.close("write_timeout");
            log.set_outcome(RequestOutcome::TimedOut);
        }
        Poll::Ready(())
    })
    .await;
}

/// The body of a response as its connection sends it: on a stream of HTTP/2 in pieces, otherwise as it is.
pub(super) fn in_pieces(body: Body, exchange: &Exchange) -> Body {
    match STREAM.try_with(Arc::clone) {
        Err(_) => body,
        Ok(sending) => {
            // One response a stream.
            _ = sending.of.set((Arc::clone(exchange.connection()), Arc::clone(exchange.log())));
            Body::new(Pieces { body, rest: Bytes::new(), number: 0, sending })
        }
    }
}

struct Pieces {
    body: Body,
    /// What was not handed on of the frame that came last.
    rest: Bytes,
    number: u64,
    sending: Arc<Sending>,
}

impl Pieces {
    fn next_piece(&mut self) -> Bytes {
        if self.rest.len() <= PIECE && self.rest.is_unique() {
            return std::mem::take(&mut self.rest);
        }
        // Copied: what the library keeps of a stream that was given up must not keep the whole body.
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        Bytes::copy_from_slice(&piece)
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.sending.untaken.store(0, Ordering::Relaxed);
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        self.number += 1;
        self.sending.untaken.store(self.number, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(self.next_piece()))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}
