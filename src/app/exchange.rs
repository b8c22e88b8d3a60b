//! One request with its response: counts the bytes sent and records how the request ended, for the access log.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};

use super::connection::{self, ConnectionActivity};
use crate::transport::begin_log;
use antwort_telemetry::request_log::{DeliveryStats, RequestLog, RequestOutcome};

/// A request that is being answered. Its outcome is recorded on drop, however it ends.
pub(super) struct Exchange {
    log: Arc<RequestLog>,
    request: connection::ActiveRequest,
    /// A HEAD request: the body of its response is not sent.
    is_head: bool,
    bytes: u64,
    first_byte: Option<Instant>,
    /// `None` until the response was handed to the connection as a whole, or failed.
    ended: Option<RequestOutcome>,
}

impl Exchange {
    /// Begins with the request's head; adds its log entry to its extensions.
    pub(super) fn begin<B>(connection: &Arc<ConnectionActivity>, request: &mut Request<B>) -> Self {
        let log = begin_log(request);
        request.extensions_mut().insert(Arc::clone(&log));
        Self {
            log,
            request: connection.begin_request(request.version()),
            is_head: request.method() == Method::HEAD,
            bytes: 0,
            first_byte: None,
            ended: None,
        }
    }

    pub(super) fn connection(&self) -> &Arc<ConnectionActivity> {
        self.request.connection()
    }

    /// See [`connection::ActiveRequest::prepare_response`].
    pub(super) fn prepare_response(&self, headers: &mut HeaderMap) {
        self.request.prepare_response(headers);
    }

    /// Its access log entry.
    pub(super) fn log(&self) -> &Arc<RequestLog> {
        &self.log
    }

    fn count(&mut self, bytes: usize) {
        if bytes > 0 {
            self.bytes += bytes as u64;
            self.first_byte.get_or_insert_with(Instant::now);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let ended = self.ended.or(self.connection().abort_reason()).unwrap_or(RequestOutcome::ClientGone);
        self.log.set_delivery(DeliveryStats { bytes: self.bytes, first_byte: self.first_byte, ended });
    }
}

/// The body of a response; the request ends with it.
pub(super) struct TrackedBody {
    body: Body,
    exchange: Exchange,
}

impl TrackedBody {
    pub(super) fn new(body: Body, mut exchange: Exchange) -> Self {
        if exchange.is_head || body.is_end_stream() {
            exchange.ended = Some(RequestOutcome::Done);
        }
        Self { body, exchange }
    }
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(None) => self.exchange.ended = Some(RequestOutcome::Done),
            Poll::Ready(Some(Err(_))) => self.exchange.ended = Some(RequestOutcome::Cut),
            Poll::Ready(Some(Ok(frame))) => {
                self.exchange.count(frame.data_ref().map_or(0, Bytes::len));
                if self.body.is_end_stream() {
                    self.exchange.ended = Some(RequestOutcome::Done);
                }
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
