//! Streamable HTTP: the SDK maintains the session; its requests go through [`HttpEndpoint`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::{BoxedSseResponse, ExponentialBackoff};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpClientWorker,
    StreamableHttpError, StreamableHttpPostResponse,
};

use super::http::{self, BodyKind, HttpEndpoint, Outgoing};
use super::message_router::{self, MessageRouter};
use super::pending;
use super::protocol_error;
use super::stream::EventStream;
use crate::error::McpError;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// Maximum concurrent requests of one session; callers have lower limits of their own.
const MAX_REQUESTS: usize = 1024;
/// Maximum delay between attempts to resume a stream.
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(30);
/// Maximum number of attempts to resume a stream.
const MAX_RECONNECTS: usize = 20;

/// The HTTP client that the SDK uses.
#[derive(Clone)]
pub(super) struct Streamable {
    http: Arc<HttpEndpoint>,
    router: Arc<MessageRouter>,
    /// Whether the server has opened a session stream before, so that an error means the session is lost.
    had_stream: Arc<AtomicBool>,
}

/// The SDK's transport over this client.
pub(super) type Transport = StreamableHttpClientTransport<Streamable>;
/// Errors of the SDK's transport.
pub(super) type TransportError = StreamableHttpError<McpError>;

/// A transport to a server.
pub(super) fn transport(http: Arc<HttpEndpoint>, router: Arc<MessageRouter>) -> Transport {
    // A placeholder: the real URL stays in `HttpEndpoint`, so the SDK cannot log it.
    let mut config = StreamableHttpClientTransportConfig::with_uri("mcp")
        .max_concurrent_requests(MAX_REQUESTS)
        // Lost sessions are replaced by `recovery`, which detects more of them than those answered with 404.
        .reinit_on_expired_session(false);
    config.channel_buffer_capacity = 64;
    let mut backoff = ExponentialBackoff::default();
    backoff.max_delay = Some(MAX_RECONNECT_DELAY);
    backoff.max_times = Some(MAX_RECONNECTS);
    config.retry_config = Arc::new(backoff);
    let client = Streamable { http, router, had_stream: Arc::default() };
    Transport::spawn(StreamableHttpClientWorker::new(client, config))
}

impl Streamable {
    async fn post(
        &self,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        extra: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, TransportError> {
        self.router.check_open().map_err(TransportError::Client)?;
        let _open = self.router.sending(&message);
        let request_id = self.router.pending.register(&message);
        let mut headers = HeaderMap::from_iter(extra);
        headers.insert(ACCEPT, EITHER);
        headers.insert(CONTENT_TYPE, JSON);
        add_session(&mut headers, session.as_deref());
        http::add_trace(&mut headers, pending::traceparent(&message));
        let body = Some(Bytes::from(message_router::write(&message).map_err(TransportError::Client)?));
        let request = Outgoing { method: Method::POST, headers, body };
        let response = self.http.send(&self.http.url, request).await.map_err(TransportError::Client)?;
        if !response.status().is_success() {
            return self.refused(response, request_id, session.is_some()).await;
        }
        let named = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let Some(request_id) = request_id else { return Ok(StreamableHttpPostResponse::Accepted) };
        match http::kind_of(&response) {
            _ if is_empty(&response) => Ok(StreamableHttpPostResponse::Accepted),
            // Some servers omit the content type.
            BodyKind::Json | BodyKind::Other => {
                let body = self.http.body(response).await.map_err(TransportError::Client)?;
                let message = self.answer(&body, request_id).map_err(TransportError::Client)?;
                Ok(StreamableHttpPostResponse::Json(message, named))
            }
            BodyKind::Events => {
                let events = EventStream::for_request(response, Arc::clone(&self.router), request_id);
                Ok(StreamableHttpPostResponse::Sse(events.into_stream().boxed(), named))
            }
        }
    }

    /// Handles a JSON response; returns the message for the SDK.
    fn answer(&self, body: &[u8], request_id: i64) -> Result<ServerJsonRpcMessage, McpError> {
        let message = self.router.read_answer(body, request_id)?;
        if !self.router.pending.is_answered(request_id) {
            return Err(McpError::Malformed("the response does not match the request".to_owned()));
        }
        message.ok_or_else(|| McpError::Malformed("the body is not a response".to_owned()))
    }

    /// Handles an error status. A JSON-RPC error in the body is more precise, unless the status is conclusive.
    async fn refused(
        &self,
        response: Response,
        request_id: Option<i64>,
        in_session: bool,
    ) -> Result<StreamableHttpPostResponse, TransportError> {
        let status = response.status();
        let error = http::status_error(&response);
        if in_session && status == StatusCode::NOT_FOUND {
            return Err(TransportError::SessionExpired);
        }
        let is_conclusive = matches!(status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
        if is_conclusive || !status.is_client_error() {
            return Err(TransportError::Client(error));
        }
        let body = self.http.error_body(response).await.unwrap_or_default();
        if in_session && message_router::names_lost_session(status, &body) {
            return Err(TransportError::SessionExpired);
        }
        // Other JSON comes from a proxy in between.
        let Some(request_id) = request_id.filter(|_| protocol_error::error_in(&body).is_some()) else {
            return Err(TransportError::Client(error));
        };
        let message = self.answer(&body, request_id).map_err(TransportError::Client)?;
        Ok(StreamableHttpPostResponse::Json(message, None))
    }

    async fn open(
        &self,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        extra: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, TransportError> {
        // This error keeps the SDK from retrying.
        self.router.check_open().map_err(|_| TransportError::ServerDoesNotSupportSse)?;
        let mut headers = HeaderMap::from_iter(extra);
        headers.insert(ACCEPT, EVENTS);
        add_session(&mut headers, session.as_deref());
        if let Some(id) = last_event.and_then(|id| HeaderValue::from_str(&id).ok()) {
            headers.insert(LAST_EVENT, id);
        }
        let request = Outgoing { method: Method::GET, headers, body: None };
        let response = self.http.send(&self.http.url, request).await.map_err(|error| match error {
            McpError::Unauthorized { .. } | McpError::InsufficientScope { .. } => {
                TransportError::ServerDoesNotSupportSse
            }
            error => TransportError::Client(error),
        })?;
        let status = response.status();
        if session.is_some() && self.had_stream.load(Ordering::Acquire) && means_lost(status) {
            self.router.mark_lost();
        }
        if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS {
            return Err(TransportError::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            return Err(TransportError::Client(http::status_error(&response)));
        }
        if http::kind_of(&response) != BodyKind::Events {
            return Err(TransportError::ServerDoesNotSupportSse);
        }
        self.had_stream.store(true, Ordering::Release);
        Ok(EventStream::for_session(response, Arc::clone(&self.router)).into_stream().boxed())
    }

    async fn delete(
        &self,
        session: &str,
        extra: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), TransportError> {
        let mut headers = HeaderMap::from_iter(extra);
        add_session(&mut headers, Some(session));
        let request = Outgoing { method: Method::DELETE, headers, body: None };
        let response = self.http.send(&self.http.url, request).await.map_err(TransportError::Client)?;
        tracing::debug!(target: "antwort::mcp", server = &*self.router.server, status = response.status().as_u16(),
            "session deleted");
        Ok(())
    }
}

impl StreamableHttpClient for Streamable {
    type Error = McpError;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, TransportError> {
        self.post(message, session_id, custom_headers).await
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), TransportError> {
        self.delete(&session_id, custom_headers).await
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, TransportError> {
        self.open(session_id, last_event_id, custom_headers).await
    }
}

fn add_session(headers: &mut HeaderMap, session: Option<&str>) {
    if let Some(session) = session.and_then(|id| HeaderValue::from_str(id).ok()) {
        headers.insert(SESSION, session);
    }
}

/// Whether the status means a lost session, if the server had opened a session stream before.
fn means_lost(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::GONE)
}

/// Whether the response has no body, as it will arrive on the session stream.
fn is_empty(response: &Response) -> bool {
    let status = response.status();
    status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT || response.content_length() == Some(0)
}
