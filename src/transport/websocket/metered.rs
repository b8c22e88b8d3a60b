//! A connection that reads a large message only once there is room for it.
//!
//! Messages of up to [`UNRESERVED_BYTES`], together, are read freely. For more than that, the maximum size of a message
//! is reserved in the budget of request bodies, as for an HTTP body without a length.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::admission::{Admission, Permit};
use crate::identity::Requester;
use crate::protocol::error::ApiError;

/// Bytes of messages that a connection may hold without a reservation.
const UNRESERVED_BYTES: usize = 64 << 10;

/// A connection whose reads are bounded by a budget.
pub(super) struct Metered<S> {
    stream: S,
    admission: Arc<Admission>,
    requester: Requester,
    max_message_bytes: usize,
    /// Bytes that were read, of messages that are neither reserved nor released.
    held: usize,
    /// For the message that is being read.
    permit: Option<Permit>,
    waiting: Option<BoxFuture<'static, Result<Permit, ApiError>>>,
    /// When the first bytes of a message that is not complete were read.
    partial_since: Option<Instant>,
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
            stream,
            admission,
            requester,
            max_message_bytes,
            held: 0,
            permit: None,
            waiting: None,
            partial_since: None,
        }
    }

    /// A control frame with a payload of this length was read.
    pub(super) fn on_control_frame(&mut self, payload: usize) {
        self.release(payload);
        if self.held == 0 {
            self.partial_since = None;
        }
    }

    /// A message of this length is complete.
    pub(super) fn on_message(&mut self, length: usize) -> MessageMemory {
        self.partial_since = None;
        match self.permit.take() {
            Some(mut permit) => {
                permit.shrink_to(length as u64);
                self.held = 0;
                MessageMemory::Reserved(permit)
            }
            None => MessageMemory::Held(length),
        }
    }

    /// A message is about to be read, which reserves its bytes.
    pub(super) fn on_taken(&mut self, memory: &MessageMemory) {
        if let MessageMemory::Held(length) = memory {
            self.release(*length);
        }
    }

    fn release(&mut self, length: usize) {
        self.held = self.held.saturating_sub(length + frame_overhead(length));
    }

    /// For how long a message has been incomplete.
    pub(super) fn partial_for(&self) -> Option<Duration> {
        self.partial_since.map(|since| since.elapsed())
    }

    /// Waits until there is room for more.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.permit.is_some() || self.held < UNRESERVED_BYTES {
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

/// Bytes of the head and the mask of a client's frame (RFC 6455 section 5.2).
fn frame_overhead(length: usize) -> usize {
    match length {
        0..126 => 6,
        126..65_536 => 8,
        _ => 14,
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_room(context))?;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = buffer.filled().len() - before;
        if read > 0 {
            self.held = self.held.saturating_add(read);
            self.partial_since.get_or_insert_with(Instant::now);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
