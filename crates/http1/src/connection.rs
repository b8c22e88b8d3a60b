//! A connection, which is read and written by whoever waits for its response.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use tokio_util::io::poll_write_buf;

use super::error::{Cause, Http1Error};
use super::head::{HeadReader, ResponseHead};

/// Maximum bytes of one read. They are read to the stack: a connection that waits has no buffer.
const READ_BYTES: usize = 16 * 1024;

type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// An HTTP/1.1 connection. Dropping it closes the socket.
pub(super) struct Connection {
    stream: Stream,
    request: Sending,
}

/// How far a request was sent.
enum Sending {
    /// Its head and body, as far as they are left.
    Unsent(Chain<Bytes, Bytes>),
    Sent,
    /// The server may have said why before it closed the connection.
    Failed(Option<io::Error>),
}

/// The head of a response, and what came with it.
pub(super) struct Received {
    pub head: ResponseHead,
    /// Bytes behind the head, not decoded.
    pub rest: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, request: Sending::Sent }
    }

    /// Sends a request and waits for the head of its response. What the server did not take until then is sent while the body
    /// is read.
    pub(super) async fn exchange(&mut self, head: Bytes, body: Bytes) -> Result<Received, Http1Error> {
        self.request = Sending::Unsent(head.chain(body));
        let mut reader = HeadReader::default();
        loop {
            let read = poll_fn(|cx| {
                self.poll_read(cx, |bytes| {
                    if bytes.is_empty() {
                        return Ok(Read::End);
                    }
                    let found = reader.push(bytes)?;
                    Ok(found.map_or(Read::More, |(head, end)| {
                        Read::Head(Received { head, rest: bytes.get(end..).unwrap_or_default().to_vec() })
                    }))
                })
            });
            let error = match read.await {
                Ok(Ok(Read::Head(received))) => return Ok(received),
                Ok(Ok(Read::More)) => continue,
                Ok(Ok(Read::End)) => None,
                Ok(Err(error)) => return Err(Http1Error::Invalid(error)),
                Err(error) => Some(error),
            };
            let cause = self.send_error().or(error).map_or(Cause::Closed, Cause::Io);
            let is_unanswered = reader.is_untouched();
            return Err(if is_unanswered { Http1Error::Unanswered(cause) } else { Http1Error::Cut(cause) });
        }
    }

    /// Sends what is left of the request. Reads once, and gives what has arrived to `decode`; nothing is the end of the
    /// connection.
    pub(super) fn poll_read<T>(
        &mut self,
        cx: &mut Context<'_>,
        decode: impl FnOnce(&mut [u8]) -> T,
    ) -> Poll<io::Result<T>> {
        self.send(cx);
        let mut space = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut buffer = ReadBuf::uninit(&mut space);
        Pin::new(&mut self.stream).poll_read(cx, &mut buffer).map_ok(|()| decode(buffer.filled_mut()))
    }

    /// Whether all of the request was sent.
    pub(super) fn has_sent(&self) -> bool {
        matches!(self.request, Sending::Sent)
    }

    /// Whether another request can be sent: for a connection that nobody waits for. An end of the connection, or a response
    /// that nobody asked for, may have arrived.
    pub(super) fn is_usable(&mut self) -> bool {
        self.poll_read(&mut Context::from_waker(Waker::noop()), |_| ()).is_pending()
    }

    /// Sends as much of the request as the socket takes.
    fn send(&mut self, cx: &mut Context<'_>) {
        let Sending::Unsent(unsent) = &mut self.request else { return };
        match poll_send(&mut self.stream, unsent, cx) {
            Poll::Pending => {}
            Poll::Ready(Ok(())) => self.request = Sending::Sent,
            Poll::Ready(Err(error)) => self.request = Sending::Failed(Some(error)),
        }
    }

    fn send_error(&mut self) -> Option<io::Error> {
        if let Sending::Failed(error) = &mut self.request { error.take() } else { None }
    }
}

enum Read {
    End,
    More,
    Head(Received),
}

fn poll_send(
    stream: &mut Stream,
    unsent: &mut Chain<Bytes, Bytes>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while unsent.has_remaining() {
        if ready!(poll_write_buf(Pin::new(&mut *stream), cx, unsent))? == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
    }
    Pin::new(stream).poll_flush(cx)
}
