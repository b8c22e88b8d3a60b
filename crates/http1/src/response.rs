//! A response, whose body its reader takes from the connection.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

use super::body::Body;
use super::connection::{Connection, Received};
use super::error::{Cause, Http1Error, InvalidResponse};
use super::pool::Pool;

/// A response whose head has arrived. At the end of its body the connection is kept for the next request; dropped before, it
/// closes the connection.
pub struct Http1Response {
    status: StatusCode,
    content_type: Option<HeaderValue>,
    retry_after: Option<HeaderValue>,
    body: Body,
    /// Payload that came with the head.
    first: Bytes,
    /// Absent after the end or a failure.
    connection: Option<Connection>,
    keep_alive: bool,
    pool: Arc<Pool>,
}

impl Http1Response {
    pub(super) fn new(
        received: Received,
        connection: Connection,
        pool: Arc<Pool>,
    ) -> Result<Self, Http1Error> {
        let Received { head, mut rest } = received;
        let mut response = Self {
            status: head.status,
            content_type: head.content_type,
            retry_after: head.retry_after,
            body: head.body,
            first: Bytes::new(),
            connection: Some(connection),
            keep_alive: head.keep_alive,
            pool,
        };
        let payload = response.decode(&mut rest)?;
        rest.truncate(payload);
        response.first = rest.into();
        Ok(response)
    }

    /// The status code that the server sent.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// `Content-Type` as the server sent it; `None` if there is none that is valid.
    pub fn content_type(&self) -> Option<&HeaderValue> {
        self.content_type.as_ref()
    }

    /// `Retry-After` as the server sent it, seconds or a date; `None` if there is none that is valid.
    pub fn retry_after(&self) -> Option<&HeaderValue> {
        self.retry_after.as_ref()
    }

    /// The payload of the next read; `None` at the end of the body.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Http1Error>> {
        if !self.first.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.first))));
        }
        loop {
            if self.body.is_over() {
                self.release();
                return Poll::Ready(Ok(None));
            }
            let payload = ready!(self.poll_payload(cx));
            match payload.inspect_err(|_| self.connection = None)? {
                // Nothing but framing was read.
                Some(payload) if payload.is_empty() => {}
                payload => return Poll::Ready(Ok(payload)),
            }
        }
    }

    /// The payload of one read, which may be empty; `None` if the connection ended, and the body with it.
    fn poll_payload(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Http1Error>> {
        let Some(mut connection) = self.connection.take() else {
            return Poll::Ready(Err(Http1Error::Cut(Cause::Closed)));
        };
        let read = connection.poll_read(cx, |bytes| {
            if bytes.is_empty() {
                return Ok(None);
            }
            let payload = self.decode(bytes)?;
            Ok(Some(Bytes::copy_from_slice(bytes.get(..payload).unwrap_or_default())))
        });
        self.connection = Some(connection);
        Poll::Ready(match ready!(read) {
            Ok(Ok(None)) if !matches!(self.body, Body::UntilClose) => Err(Http1Error::Cut(Cause::Closed)),
            Ok(Ok(None)) => {
                self.body = Body::Length(0);
                self.connection = None;
                Ok(None)
            }
            Ok(payload) => payload.map_err(Http1Error::Invalid),
            Err(error) => Err(Http1Error::Cut(Cause::Io(error))),
        })
    }

    /// Decodes what was read: the payload is then at its front.
    fn decode(&mut self, bytes: &mut [u8]) -> Result<usize, InvalidResponse> {
        let decoded = self.body.decode(bytes)?;
        // The server sent what nobody asked for: it cannot be known what the next response would belong to.
        self.keep_alive &= decoded.consumed == bytes.len();
        Ok(decoded.payload)
    }

    /// The body is over: the connection serves the next request, if it can.
    fn release(&mut self) {
        if let Some(connection) = self.connection.take()
            && self.keep_alive
            && connection.has_sent()
        {
            self.pool.put(connection);
        }
    }
}
