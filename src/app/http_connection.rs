//! Serves one connection, with HTTP/1 or HTTP/2.
//!
//! The version is detected by peeking at the first bytes. hyper-util's detection reads them, and hyper then doubles the read
//! buffer, to 16 KiB for as long as the connection lives.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::HttpBody;
use axum::http::{Request, Response};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;

use super::connection::{self, ConnectionActivity};
use super::http2_stream::StreamExecutor;
use super::write_timeout::WriteTimeout;

/// What an HTTP/2 connection begins with (RFC 9113, 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How connections are served.
pub(super) struct HttpConnections {
    http1: http1::Builder,
    /// For connections that may speak HTTP/2.
    any: auto::Builder<StreamExecutor>,
    /// Closes a connection whose client reads nothing for this long.
    write_timeout: Duration,
}

impl HttpConnections {
    pub(super) fn new(write_timeout: Duration) -> Arc<Self> {
        let mut http1 = http1::Builder::new();
        let mut any = auto::Builder::new(StreamExecutor { write_timeout });
        // Replaced by the timeouts of `connection`, which cover HTTP/1 and HTTP/2.
        http1.header_read_timeout(None);
        any.http1().header_read_timeout(None);
        any.http2().timer(TokioTimer::new()).keep_alive_interval(Duration::from_secs(30));
        Arc::new(Self { http1, any, write_timeout })
    }

    /// Serves a connection to its end. Returns the reason if the gateway closed it.
    pub(super) async fn serve<S, B>(
        &self,
        stream: TcpStream,
        service: S,
        activity: &Arc<ConnectionActivity>,
    ) -> Option<&'static str>
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send,
        S::Future: Send + 'static,
        B: HttpBody<Data = Bytes, Error = axum::Error> + Send + 'static,
    {
        let is_http1 = match connection::first_bytes(speaks_http1(&stream), activity).await {
            Ok(Ok(is_http1)) => is_http1,
            Ok(Err(error)) => {
                tracing::debug!(%error, "connection ended with an error");
                return None;
            }
            Err(reason) => return reason,
        };
        let io = TokioIo::new(WriteTimeout::new(stream, self.write_timeout, Arc::clone(activity)));
        if is_http1 {
            let connection = self.http1.serve_connection(io, service).with_upgrades();
            connection::drive(Box::pin(connection), |http1| http1.graceful_shutdown(), activity).await
        } else {
            let connection = self.any.serve_connection_with_upgrades(io, service);
            connection::drive(Box::pin(connection), |any| any.graceful_shutdown(), activity).await
        }
    }
}

/// Whether a connection begins with something else than HTTP/2 does.
async fn speaks_http1(stream: &TcpStream) -> io::Result<bool> {
    let mut start = [0; HTTP2_PREFACE.len()];
    let peeked = stream.peek(&mut start).await?;
    Ok(start.get(..peeked).is_some_and(|start| !HTTP2_PREFACE.starts_with(start)))
}
