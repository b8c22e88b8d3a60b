//! The body of a provider's response, read within the timeouts of the provider.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use async_stream::try_stream;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream};

use super::response::UpstreamResponse;
use super::timer::{Timer, Wait};
use crate::{ProviderError, ProviderErrorKind};
use antwort_config::ProviderTimeouts;

/// Timeout of the end of a body after its last event, which is read so that the connection can be reused.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(20);
/// Maximum bytes of it: a server that goes on is not worth its connection.
const MAX_DRAIN_BYTES: usize = 64 * 1024;

/// A response whose headers have arrived.
pub(super) struct UpstreamBody {
    response: UpstreamResponse,
    limits: ProviderTimeouts,
    /// When this attempt was sent, and when the first one was.
    sent: Instant,
    started: Instant,
    begun: bool,
    /// Until when the rest of an answer is waited for that is complete without it.
    ends_by: Option<Instant>,
    timer: Timer,
    /// The wait for the next bytes, if there is one.
    wait: Option<Wait>,
    yielding: Option<BoxFuture<'static, ()>>,
    left_to_drain: usize,
}

impl UpstreamBody {
    pub(super) fn new(
        response: UpstreamResponse,
        limits: ProviderTimeouts,
        sent: Instant,
        started: Instant,
        timer: Timer,
    ) -> Self {
        Self {
            response,
            limits,
            sent,
            started,
            begun: false,
            ends_by: None,
            timer,
            wait: None,
            yielding: None,
            left_to_drain: MAX_DRAIN_BYTES,
        }
    }

    /// The `Content-Type`, in lower case.
    pub(super) fn content_type(&self) -> String {
        self.response.content_type().unwrap_or_default().to_ascii_lowercase()
    }

    /// Waits no longer than this from now on.
    pub(super) fn end_by(&mut self, end: Instant) {
        self.ends_by = Some(end);
    }

    /// Waits for the next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ProviderError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The same, as a poll.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ProviderError>> {
        if let Poll::Ready(piece) = self.response.poll_chunk(cx) {
            self.wait = None;
            self.begun |= piece.is_ok();
            return Poll::Ready(piece);
        }
        let wait = self.wait.take().unwrap_or_else(|| self.begin_wait());
        let wait = self.wait.insert(wait);
        self.timer.poll(wait, cx).map(Err)
    }

    fn begin_wait(&self) -> Wait {
        let (limit, kind) = if self.begun {
            let rest = self.ends_by.map(|end| end.saturating_duration_since(Instant::now()));
            (rest.map_or(self.limits.idle, |rest| rest.min(self.limits.idle)), ProviderErrorKind::IdleTimeout)
        } else {
            (self.limits.first_byte.saturating_sub(self.sent.elapsed()), ProviderErrorKind::FirstByteTimeout)
        };
        Wait::new(limit, kind, self.limits.total.saturating_sub(self.started.elapsed()))
    }

    /// The next bytes if they have arrived. If a task reads them from the socket, it runs first.
    pub(super) fn poll_arrived(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Option<Bytes>, ProviderError>>> {
        if self.response.has_own_task() {
            let yielding = self.yielding.get_or_insert_with(|| tokio::task::yield_now().boxed());
            ready!(yielding.as_mut().poll(cx));
            self.yielding = None;
        }
        Poll::Ready(match self.response.poll_chunk(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(piece) => Some(piece),
            Poll::Pending => None,
        })
    }

    /// Reads to the end of the body, so that the connection can be reused: servers end a stream a moment after
    /// its last event.
    pub(super) fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.response.poll_chunk(cx) {
                Poll::Ready(Ok(Some(piece))) if piece.len() <= self.left_to_drain => {
                    self.left_to_drain -= piece.len();
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => {
                    let wait = || Wait::new(DRAIN_TIMEOUT, ProviderErrorKind::IdleTimeout, DRAIN_TIMEOUT);
                    return self.timer.poll(self.wait.get_or_insert_with(wait), cx).map(drop);
                }
            }
        }
    }

    /// The whole body, of at most `limit` bytes.
    pub(super) async fn read_to_end(mut self, limit: usize) -> Result<String, ProviderError> {
        // Most bodies come in one piece, which is not copied.
        let mut body = self.next().await?.map_or_else(Vec::new, Vec::from);
        while body.len() <= limit
            && let Some(piece) = self.next().await?
        {
            body.extend_from_slice(&piece);
        }
        if body.len() > limit {
            let message = "The model provider's answer is too large.";
            return Err(ProviderError::new(ProviderErrorKind::Malformed, message));
        }
        Ok(String::from_utf8(body)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// The body as a stream that fails at a timeout.
    pub(super) fn into_stream(mut self) -> impl Stream<Item = Result<Bytes, ProviderError>> {
        try_stream! {
            while let Some(piece) = self.next().await? {
                yield piece;
            }
        }
    }
}
