//! Requests to one server: with the credentials of whoever calls, through the guard, and never two where one may have
//! been worked on.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, Response, Url};

use crate::net::egress::Egress;
use crate::net::retry_after;
use crate::tools::mcp::credentials::{Credentials, WwwAuthenticate};
use crate::tools::mcp::error::McpError;

/// Bytes that are read of an error's body.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;

/// A server at a URL.
pub(super) struct HttpEndpoint {
    /// Where it is.
    pub url: Url,
    /// Bytes of one message.
    pub limit: usize,
    egress: Arc<Egress>,
    credentials: Arc<dyn Credentials>,
}

/// A request, apart from the credentials.
#[derive(Clone)]
pub(super) struct Outgoing {
    /// The method.
    pub method: Method,
    /// The headers that the protocol asks for; they win over those of the credentials.
    pub headers: HeaderMap,
    /// The body.
    pub body: Option<Bytes>,
}

/// What the body of an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyKind {
    Json,
    Events,
    Other,
}

impl HttpEndpoint {
    /// A server at a URL.
    pub(super) fn new(
        url: Url,
        limit: usize,
        egress: Arc<Egress>,
        credentials: Arc<dyn Credentials>,
    ) -> Arc<Self> {
        Arc::new(Self { url, limit, egress, credentials })
    }

    /// Sends a request, whatever the answer's status is: but a challenge (401, or a 403 that asks for more scopes) is an
    /// error, after one more try if the credentials have changed since.
    pub(super) async fn send(&self, url: &Url, request: Outgoing) -> Result<Response, McpError> {
        let shown = self.credentials.headers().await?;
        let response = self.send_with(url, request.clone(), &shown).await?;
        let Some(challenged) = WwwAuthenticate::from_response(&response, url) else { return Ok(response) };
        if !self.credentials.rejected(&shown, &challenged).await {
            return Err(challenged.into_error(""));
        }
        drop(response);
        let shown = self.credentials.headers().await?;
        let response = self.send_with(url, request, &shown).await?;
        match WwwAuthenticate::from_response(&response, url) {
            Some(challenged) => Err(challenged.into_error(" again")),
            None => Ok(response),
        }
    }

    async fn send_with(&self, url: &Url, request: Outgoing, shown: &HeaderMap) -> Result<Response, McpError> {
        let mut headers = shown.clone();
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

    /// Reads a whole body, unless it is longer than a message may be.
    pub(super) async fn body(&self, response: Response) -> Result<Vec<u8>, McpError> {
        self.body_up_to(response, self.limit).await
    }

    /// The body of an error if it is JSON.
    pub(super) async fn error_body(&self, response: Response) -> Option<Vec<u8>> {
        match kind_of(&response) {
            BodyKind::Json => self.body_up_to(response, MAX_ERROR_BODY_BYTES).await.ok(),
            BodyKind::Events | BodyKind::Other => None,
        }
    }

    /// What an error of reading an answer means.
    pub(super) fn failure(&self, error: &reqwest::Error) -> McpError {
        McpError::Egress(self.egress.classify_error(&self.url, error))
    }

    async fn body_up_to(&self, mut response: Response, limit: usize) -> Result<Vec<u8>, McpError> {
        let announced = response.content_length().unwrap_or(0);
        if announced > limit as u64 {
            return Err(McpError::TooLarge { limit: self.limit });
        }
        let mut body = Vec::with_capacity(usize::try_from(announced).unwrap_or(0));
        while let Some(piece) = response.chunk().await.map_err(|error| self.failure(&error))? {
            if body.len().saturating_add(piece.len()) > limit {
                return Err(McpError::TooLarge { limit: self.limit });
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }
}

/// The answer's status as an error.
pub(super) fn status_error(response: &Response) -> McpError {
    let wait = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = wait.and_then(|wait| retry_after(wait, SystemTime::now()));
    McpError::Http { status: response.status().as_u16(), retry_after }
}

/// What the body of an answer is.
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
