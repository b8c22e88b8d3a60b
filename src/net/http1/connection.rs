//! A connection, which is read and written by whoever waits for its response.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use super::error::{Cause, Http1Error};
use super::head::{HeadReader, ResponseHead};

/// Maximum bytes of one read. They are read to the stack: a connection that waits has no buffer.
pub(super) const READ_BYTES: usize = 16 * 1024;

type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// An HTTP/1.1 connection. Dropping it closes the socket.
pub(super) struct Connection {
    stream: Stream,
}

/// The head of a response, and what came with it.
pub(super) struct Received {
    pub head: ResponseHead,
    /// Bytes behind the head, not decoded.
    pub rest: Vec<u8>,
    /// The server answered before it had read all of the request.
    pub is_early: bool,
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream }
    }

    /// Sends a request and waits for the head of its response.
    pub(super) async fn exchange(&mut self, head: &[u8], body: &[u8]) -> Result<Received, Http1Error> {
        let mut exchange = Exchange {
            stream: &mut self.stream,
            unsent: Unsent { head, body, is_flushed: false },
            send_error: None,
            reader: HeadReader::default(),
        };
        poll_fn(|cx| exchange.poll(cx)).await
    }

    /// Reads once, and gives what has arrived to `decode`; nothing is the end of the connection.
    pub(super) fn poll_read<T>(
        &mut self,
        cx: &mut Context<'_>,
        decode: impl FnOnce(&mut [u8]) -> T,
    ) -> Poll<io::Result<T>> {
        poll_read(&mut self.stream, cx, decode)
    }

    /// Whether another request can be sent: for a connection that nobody waits for. An end of the connection, or a response
    /// that nobody asked for, may have arrived.
    pub(super) fn is_usable(&mut self) -> bool {
        self.poll_read(&mut Context::from_waker(Waker::noop()), |_| ()).is_pending()
    }
}

fn poll_read<T>(
    stream: &mut Stream,
    cx: &mut Context<'_>,
    decode: impl FnOnce(&mut [u8]) -> T,
) -> Poll<io::Result<T>> {
    let mut space = [const { MaybeUninit::uninit() }; READ_BYTES];
    let mut buffer = ReadBuf::uninit(&mut space);
    Pin::new(stream).poll_read(cx, &mut buffer).map_ok(|()| decode(buffer.filled_mut()))
}

/// A request that is being sent, and the response that may come before all of it was.
struct Exchange<'a> {
    stream: &'a mut Stream,
    unsent: Unsent<'a>,
    /// Sending failed. The server may have said why before it closed the connection.
    send_error: Option<io::Error>,
    reader: HeadReader,
}

/// What is left of a request.
struct Unsent<'a> {
    head: &'a [u8],
    body: &'a [u8],
    is_flushed: bool,
}

impl Exchange<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Received, Http1Error>> {
        if self.send_error.is_none()
            && let Poll::Ready(Err(error)) = self.unsent.poll_send(self.stream, cx)
        {
            self.send_error = Some(error);
        }
        loop {
            let reader = &mut self.reader;
            let read = poll_read(self.stream, cx, |bytes| {
                if bytes.is_empty() {
                    return Ok(Read::End);
                }
                let found = reader.push(bytes)?;
                Ok(found.map_or(Read::More, |(head, end)| {
                    Read::Head(head, bytes.get(end..).unwrap_or_default().to_vec())
                }))
            });
            match read {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(Ok(Read::More))) => {}
                Poll::Ready(Ok(Ok(Read::Head(head, rest)))) => {
                    let is_early = !self.unsent.is_flushed;
                    return Poll::Ready(Ok(Received { head, rest, is_early }));
                }
                Poll::Ready(Ok(Ok(Read::End))) => return Poll::Ready(Err(self.ended(None))),
                Poll::Ready(Ok(Err(error))) => return Poll::Ready(Err(Http1Error::Invalid(error))),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.ended(Some(error)))),
            }
        }
    }

    /// The connection ended before the response had begun, or within its head.
    fn ended(&mut self, error: Option<io::Error>) -> Http1Error {
        let cause = self.send_error.take().or(error).map_or(Cause::Closed, Cause::Io);
        if self.reader.is_untouched() { Http1Error::Unanswered(cause) } else { Http1Error::Cut(cause) }
    }
}

enum Read {
    End,
    More,
    Head(ResponseHead, Vec<u8>),
}

impl Unsent<'_> {
    fn poll_send(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !(self.head.is_empty() && self.body.is_empty()) {
            let pieces = [IoSlice::new(self.head), IoSlice::new(self.body)];
            let sent = std::task::ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &pieces))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_head = sent.min(self.head.len());
            self.head = self.head.get(of_head..).unwrap_or_default();
            self.body = self.body.get(sent - of_head..).unwrap_or_default();
        }
        if !self.is_flushed {
            std::task::ready!(Pin::new(stream).poll_flush(cx))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }
}
