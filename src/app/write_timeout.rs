//! A connection whose writes time out when its client takes nothing (`tokio-io-timeout`), and that says when it reads or
//! has to wait.
//!
//! Whatever is sent — streams, whole bodies — a client that stops reading would otherwise hold the connection and
//! all that waits behind it for as long as it likes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_io_timeout::TimeoutWriter;

use super::connection::ConnectionActivity;
use antwort_telemetry::request_log::RequestOutcome;

/// A connection whose writes fail once the client has taken nothing for the timeout.
pub(super) struct WriteTimeout<S> {
    stream: Pin<Box<TimeoutWriter<S>>>,
    /// The last write has to wait.
    blocked: bool,
    activity: Arc<ConnectionActivity>,
}

impl<S: AsyncWrite> WriteTimeout<S> {
    pub(super) fn new(stream: S, timeout: Duration, activity: Arc<ConnectionActivity>) -> Self {
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(timeout));
        Self { stream: Box::pin(stream), blocked: false, activity }
    }

    /// Tells the connection what came of a write: whether it waits for the client, and that it is over if that took
    /// too long.
    fn record<T>(&mut self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &written {
            // The system's own timeout of a connection has an error number.
            Poll::Ready(Err(error))
                if error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none() =>
            {
                self.activity.abort(RequestOutcome::TimedOut);
            }
            _ if written.is_pending() != self.blocked => {
                self.blocked = written.is_pending();
                self.activity.set_blocked(self.blocked);
            }
            _ => {}
        }
        written
    }
}

impl<S: AsyncRead + AsyncWrite> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(self.stream.as_mut().poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.activity.on_read();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream.as_mut().poll_write(context, bytes);
        self.record(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream.as_mut().poll_write_vectored(context, pieces);
        self.record(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.stream.as_mut().poll_flush(context);
        if let Poll::Ready(Ok(())) = &flushed {
            self.activity.on_flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::app::connection::ConnectionTimeouts;
    use crate::transport::ShutdownFlag;

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_given_up_and_one_that_takes_a_little_is_not() {
        let (near, mut far) = tokio::io::duplex(4);
        let hour = Duration::from_hours(1);
        let timeouts = ConnectionTimeouts { first_byte: hour, header: hour, keep_alive: hour };
        let activity = ConnectionActivity::new(timeouts, CancellationToken::new(), ShutdownFlag::default());
        let mut near = WriteTimeout::new(near, Duration::from_millis(500), activity);
        near.write_all(b"1234").await.expect("room");
        for _ in 0..5 {
            let (written, read) = tokio::join!(near.write_all(b"5678"), async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                far.read_exact(&mut [0; 4]).await
            });
            assert!(written.is_ok() && read.is_ok());
        }
        let error = near.write_all(b"9").await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
