//! HTTP requests to one server: with the caller's credentials, through the egress policy, and never repeated if the
//! server may have processed them.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, Url};

use crate::credentials::{Credentials, WwwAuthenticate};
use crate::error::McpError;
use antwort_net::egress::Egress;
use antwort_net::retry_after;

/// Maximum bytes of the body of an error response.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;

/// An HTTP server.
pub(super) struct HttpEndpoint {
    /// URL of the server.
    pub url: Url,
    /// Maximum bytes of one message.
    pub limit: usize,
    egress: Arc<Egress>,
    credentials: Arc<dyn Credentials>,
}

/// A request without credentials.
#[derive(Clone)]
pub(super) struct Outgoing {
    /// HTTP method.
    pub method: Method,
    /// Headers of the protocol; they override those of the credentials.
    pub headers: HeaderMap,
    /// Body.
    pub body: Option<Bytes>,
}

/// Content type of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyKind {
    Json,
    Events,
    Other,
}

impl HttpEndpoint {
    /// An endpoint with these credentials.
    pub(super) fn new(
        url: Url,
        limit: usize,
        egress: Arc<Egress>,
        credentials: Arc<dyn Credentials>,
    ) -> Arc<Self> {
        Arc::new(Self { url, limit, egress, credentials })
    }

    /// Sends a request. Any status is returned as a response, except a challenge (401, or 403 with `insufficient_scope`),
    /// which is an error after one retry with new credentials, if there are any.
    pub(super) async fn send(&self, url: &Url, request: Outgoing) -> Result<Response, McpError> {
        let auth_headers = self.credentials.headers().await?;
        let response = self.send_with(url, request.clone(), &auth_headers).await?;
        let Some(challenged) = WwwAuthenticate::from_response(&response, url) else { return Ok(response) };
        if !self.credentials.rejected(&auth_headers, &challenged).await {
            return Err(challenged.into_error(""));
        }
        drop(response);
        let auth_headers = self.credentials.headers().await?;
        let response = self.send_with(url, request, &auth_headers).await?;
        match WwwAuthenticate::from_response(&response, url) {
            Some(challenged) => Err(challenged.into_error(" again")),
            None => Ok(response),
        }
    }

    async fn send_with(
        &self,
        url: &Url,
        request: Outgoing,
        auth_headers: &HeaderMap,
    ) -> Result<Response, McpError> {
        let mut headers = auth_headers.clone();
        headers.extend(request.headers);
        let mut builder = self.egress.client(url)?.request(request.method, url.clone()).headers(headers);
        if let Some(body) = request.body {
            builder = builder.body(body);
        }
        let response = builder.send().await.map_err(|error| self.failure(&error))?;
        match self.egress.proxy_refusal(url, response.status()) {
            Some(refusal) => Err(McpError::Egress(refusal)),
            None => Ok(response),
        }
    }

    /// Reads a body up to the limit of messages.
    pub(super) async fn body(&self, response: Response) -> Result<Vec<u8>, McpError> {
        self.body_up_to(response, self.limit).await
    }

    /// The body of an error response, if it is JSON.
    pub(super) async fn error_body(&self, response: Response) -> Option<Vec<u8>> {
        match kind_of(&response) {
            BodyKind::Json => self.body_up_to(response, MAX_ERROR_BODY_BYTES).await.ok(),
            BodyKind::Events | BodyKind::Other => None,
        }
    }

    /// Converts an error of reading a response.
    pub(super) fn failure(&self, error: &reqwest::Error) -> McpError {
        McpError::Egress(self.egress.classify_error(&self.url, error))
    }

    async fn body_up_to(&self, mut response: Response, limit: usize) -> Result<Vec<u8>, McpError> {
        let content_length = response.content_length().unwrap_or(0);
        if content_length > limit as u64 {
            return Err(McpError::TooLarge { limit: self.limit });
        }
        let mut body = Vec::with_capacity(usize::try_from(content_length).unwrap_or(0));
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failure(&error))? {
            if body.len().saturating_add(chunk.len()) > limit {
                return Err(McpError::TooLarge { limit: self.limit });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// Adds the trace of a call, which proxies and tracing middleware of servers look for in the headers, not in `_meta`.
pub(super) fn add_trace(headers: &mut HeaderMap, traceparent: Option<&str>) {
    if let Some(value) = traceparent.and_then(|parent| HeaderValue::from_str(parent).ok()) {
        headers.insert(HeaderName::from_static("traceparent"), value);
    }
}

/// The error for a response with an error status.
pub(super) fn status_error(response: &Response) -> McpError {
    let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = header.and_then(|header| retry_after(header, SystemTime::now()));
    McpError::Http { status: response.status().as_u16(), retry_after }
}

/// The content type of a response.
pub(super) fn kind_of(response: &Response) -> BodyKind {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("text/event-stream") {
        BodyKind::Events
    } else if kind.eq_ignore_ascii_case("application/json") || kind.ends_with("+json") {
        BodyKind::Json
    } else {
        BodyKind::Other
    }
}
