//! The write timeout of HTTP/2 streams.
//!
//! Each stream has a flow-control window of its own. While it is closed, the connection still makes progress, so the write
//! timeout of the socket does not apply. So a timeout is enforced here: a stream whose client reads nothing for
//! `write_timeout` is dropped with its buffered data, and its connection takes no new streams.

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
use antwort_telemetry::request_log::{RequestLog, RequestOutcome};

/// Bodies are split into chunks of at most this size, so that progress is visible.
const MAX_CHUNK_BYTES: usize = 64 << 10;

tokio::task_local! {
    static STREAM: Arc<SendProgress>;
}

/// The send progress of a stream's body. Written and read by the task of the stream alone.
#[derive(Debug, Default)]
struct SendProgress {
    /// The number of the chunk that waits to be sent; 0 while the stream waits for its body.
    pending_chunk: AtomicU64,
    /// The connection and the log of the request, for a timeout.
    owner: OnceLock<(Arc<ConnectionActivity>, Arc<RequestLog>)>,
}

/// Runs the streams of HTTP/2 connections.
#[derive(Debug, Clone)]
pub(super) struct StreamExecutor {
    pub write_timeout: Duration,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        let progress = Arc::<SendProgress>::default();
        let limited = with_write_timeout(stream, Arc::clone(&progress), self.write_timeout);
        #[expect(clippy::disallowed_methods, reason = "a stream ends with its connection")]
        tokio::spawn(STREAM.scope(progress, limited));
    }
}

/// Runs a stream to its end, or until its client has read nothing for `write_timeout`.
async fn with_write_timeout(
    stream: impl Future<Output = ()>,
    progress: Arc<SendProgress>,
    write_timeout: Duration,
) {
    let mut stream = pin!(stream);
    // Reset only when a chunk is pending: most streams touch no timer.
    let mut alarm = pin!(tokio::time::sleep(write_timeout));
    let mut last = 0;
    poll_fn(|context| {
        if stream.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let pending = progress.pending_chunk.load(Ordering::Relaxed);
        if pending == 0 {
            return Poll::Pending;
        }
        if pending != last {
            last = pending;
            alarm.as_mut().reset(Instant::now() + write_timeout);
        }
        ready!(alarm.as_mut().poll(context));
        if let Some((connection, log)) = progress.owner.get() {
            connection.close("write_timeout");
            log.set_outcome(RequestOutcome::TimedOut);
        }
        Poll::Ready(())
    })
    .await;
}

/// The body of a response as its connection sends it: split into chunks on an HTTP/2 stream, otherwise unchanged.
pub(super) fn track_progress(body: Body, exchange: &Exchange) -> Body {
    match STREAM.try_with(Arc::clone) {
        Err(_) => body,
        Ok(progress) => {
            // Each stream has one response.
            _ = progress.owner.set((Arc::clone(exchange.connection()), Arc::clone(exchange.log())));
            Body::new(ProgressBody { body, rest: Bytes::new(), number: 0, progress })
        }
    }
}

struct ProgressBody {
    body: Body,
    /// The rest of the last frame, not sent yet.
    rest: Bytes,
    number: u64,
    progress: Arc<SendProgress>,
}

impl ProgressBody {
    fn next_chunk(&mut self) -> Bytes {
        if self.rest.len() <= MAX_CHUNK_BYTES && self.rest.is_unique() {
            return std::mem::take(&mut self.rest);
        }
        // Copied: the chunk that the library still holds of a reset stream must not keep the whole body alive.
        let chunk = self.rest.split_to(self.rest.len().min(MAX_CHUNK_BYTES));
        Bytes::copy_from_slice(&chunk)
    }
}

impl http_body::Body for ProgressBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.progress.pending_chunk.store(0, Ordering::Relaxed);
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
        self.progress.pending_chunk.store(self.number, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(self.next_chunk()))))
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
