//! A connection that reads a large message only once there is room for it.
//!
//! Messages of up to [`UNRESERVED_BYTES`], together, are read freely. For more than that, the maximum size of a message
//! is reserved in the budget of request bodies, as for an HTTP body without a length.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::frames::Frames;
use antwort_identity::Requester;
use antwort_limits::{Admission, Permit};
use antwort_protocol::error::ApiError;

/// Bytes of messages that a connection may hold without a reservation.
const UNRESERVED_BYTES: usize = 64 << 10;

/// A connection whose reads are bounded by a budget.
///
/// No read goes beyond the end of a frame: between messages, no byte of the next one is buffered anywhere.
pub(super) struct Metered<S> {
    /// None: another has taken its place.
    stream: Option<S>,
    admission: Arc<Admission>,
    requester: Requester,
    max_message_bytes: usize,
    frames: Frames,
    /// Bytes of messages that are complete, not reserved, and not taken.
    held: usize,
    /// For the message that is being read.
    permit: Option<Permit>,
    waiting: Option<BoxFuture<'static, Result<Permit, ApiError>>>,
    /// When the first bytes of a message that is not complete were read.
    partial_since: Option<Instant>,
    /// When anything was read.
    last_read: Instant,
}

/// The memory of a message.
pub(super) enum MessageMemory {
    /// A reservation.
    Reserved(Permit),
    /// None: its length counts in [`UNRESERVED_BYTES`] until it is taken.
    Held(usize),
}

impl<S> Metered<S> {
    pub(super) fn new(
        stream: S,
        admission: Arc<Admission>,
        requester: Requester,
        max_message_bytes: usize,
    ) -> Self {
        Self {
            stream: Some(stream),
            admission,
            requester,
            max_message_bytes,
            frames: Frames::default(),
            held: 0,
            permit: None,
            waiting: None,
            partial_since: None,
            last_read: Instant::now(),
        }
    }

    /// Moves the connection out; what remains has ended.
    pub(super) fn take(&mut self) -> Self {
        let (admission, requester) = (Arc::clone(&self.admission), self.requester.clone());
        let ended = Self {
            stream: None,
            admission,
            requester,
            max_message_bytes: self.max_message_bytes,
            frames: Frames::default(),
            held: 0,
            permit: None,
            waiting: None,
            partial_since: None,
            last_read: self.last_read,
        };
        let mut taken = std::mem::replace(self, ended);
        taken.frames = Frames::default();
        taken
    }

    /// The frames since the connection was made, or taken.
    pub(super) fn frames(&self) -> &Frames {
        &self.frames
    }

    /// A message of this length is complete.
    pub(super) fn on_message(&mut self, length: usize) -> MessageMemory {
        match self.permit.take() {
            Some(mut permit) => {
                permit.shrink_to(length as u64);
                MessageMemory::Reserved(permit)
            }
            None => {
                self.held = self.held.saturating_add(length);
                MessageMemory::Held(length)
            }
        }
    }

    /// A message is about to be parsed, which reserves its bytes.
    pub(super) fn on_taken(&mut self, memory: &MessageMemory) {
        if let MessageMemory::Held(length) = memory {
            self.held = self.held.saturating_sub(*length);
        }
    }

    /// For how long a message has been incomplete.
    pub(super) fn partial_for(&self) -> Option<Duration> {
        self.partial_since.map(|since| since.elapsed())
    }

    /// When anything was read, be it a part of a message: in the midst of a frame no client can answer a ping.
    pub(super) fn last_read(&self) -> Instant {
        self.last_read
    }

    /// Waits until there is room for more.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.permit.is_some() || self.held.saturating_add(self.frames.message_bytes()) < UNRESERVED_BYTES {
            return Poll::Ready(Ok(()));
        }
        let waiting = self.waiting.get_or_insert_with(|| {
            let (admission, requester) = (Arc::clone(&self.admission), self.requester.clone());
            let bytes = self.max_message_bytes.max(UNRESERVED_BYTES + 1) as u64;
            Box::pin(async move { admission.large_bodies.acquire(&requester, bytes).await })
        });
        let permit = ready!(waiting.as_mut().poll(context));
        self.waiting = None;
        let refused = |error: ApiError| io::Error::new(io::ErrorKind::OutOfMemory, error.body.message);
        self.permit = Some(permit.map_err(refused)?);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_room(context))?;
        let this = &mut *self;
        let Some(stream) = &mut this.stream else { return Poll::Ready(Ok(())) };
        let most = this.frames.rest().min(buffer.remaining());
        let mut rest = ReadBuf::new(buffer.initialize_unfilled_to(most));
        ready!(Pin::new(stream).poll_read(context, &mut rest))?;
        let read = rest.filled();
        this.frames.follow(read);
        if !read.is_empty() {
            this.last_read = Instant::now();
        }
        if this.frames.is_between_messages() {
            this.partial_since = None;
        } else if !read.is_empty() {
            this.partial_since.get_or_insert_with(Instant::now);
        }
        let read = read.len();
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_write(context, bytes),
            None => Poll::Ready(Ok(0)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_flush(context),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_shutdown(context),
            None => Poll::Ready(Ok(())),
        }
    }
}
