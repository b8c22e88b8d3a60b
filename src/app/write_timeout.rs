//! A socket that is cut when its peer takes nothing for too long, and that says when it reads or has to wait.
//!
//! Whatever is sent — streams, whole bodies — a peer that stops reading would otherwise hold the connection and
//! all that waits behind it for as long as it likes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::connection::ConnectionActivity;
use crate::telemetry::request_log::RequestOutcome;

/// A connection whose writes fail once the peer has taken nothing for `patience`.
pub(super) struct WriteTimeout<S> {
    stream: S,
    patience: Duration,
    /// Runs from the first write that had to wait.
    alarm: Pin<Box<Sleep>>,
    waiting: bool,
    activity: Arc<ConnectionActivity>,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, patience: Duration, activity: Arc<ConnectionActivity>) -> Self {
        Self { stream, patience, alarm: Box::pin(tokio::time::sleep(patience)), waiting: false, activity }
    }

    fn check_timeout<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.waiting {
                self.waiting = false;
                self.activity.set_blocked(false);
            }
            return written;
        }
        if !self.waiting {
            self.waiting = true;
            self.activity.set_blocked(true);
            self.alarm.as_mut().reset(Instant::now() + self.patience);
        }
        self.alarm.as_mut().poll(context).map(|()| {
            self.activity.abort(RequestOutcome::TimedOut);
            Err(io::ErrorKind::TimedOut.into())
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.activity.on_read();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_timeout(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.check_timeout(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
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
