//! A response of either HTTP client.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};

use super::transport_error::{http1_error, transport_error};
use crate::ProviderError;
use antwort_http1::Http1Response;

/// A response whose headers have arrived.
pub(super) enum UpstreamResponse {
    /// Of the client with a task for each connection.
    Pooled(Box<reqwest::Response>),
    /// Of the client whose connections are read by who waits for them.
    Lean(Box<Http1Response>),
}

impl From<reqwest::Response> for UpstreamResponse {
    fn from(response: reqwest::Response) -> Self {
        Self::Pooled(Box::new(response))
    }
}

impl From<Http1Response> for UpstreamResponse {
    fn from(response: Http1Response) -> Self {
        Self::Lean(Box::new(response))
    }
}

impl UpstreamResponse {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Pooled(response) => response.status(),
            Self::Lean(response) => response.status(),
        }
    }

    pub(super) fn content_type(&self) -> Option<&str> {
        text(match self {
            Self::Pooled(response) => response.headers().get(CONTENT_TYPE),
            Self::Lean(response) => response.content_type(),
        })
    }

    pub(super) fn retry_after(&self) -> Option<&str> {
        text(match self {
            Self::Pooled(response) => response.headers().get(RETRY_AFTER),
            Self::Lean(response) => response.retry_after(),
        })
    }

    /// The next bytes of the body; `None` at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, ProviderError> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ProviderError>> {
        match self {
            // The future keeps nothing between polls.
            Self::Pooled(response) => {
                pin!(response.chunk()).poll(cx).map_err(|error| transport_error(&error))
            }
            Self::Lean(response) => response.poll_chunk(cx).map_err(|error| http1_error(&error)),
        }
    }

    /// Whether a task of its own reads the socket, which has to run before more can arrive.
    pub(super) fn has_own_task(&self) -> bool {
        matches!(self, Self::Pooled(_))
    }
}

fn text(value: Option<&HeaderValue>) -> Option<&str> {
    value.and_then(|value| value.to_str().ok())
}
