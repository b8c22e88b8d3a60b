//! Streamable HTTP: the SDK keeps the session, and what it sends and hears goes through the guard.

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
use super::stream::EventStream;
use crate::tools::mcp::error::McpError;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// Requests that one session works on at the same time. Callers have limits of their own.
const MAX_REQUESTS: usize = 1024;
/// Between two attempts to take a stream up again.
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(30);
/// Attempts.
const MAX_RECONNECTS: usize = 20;

/// What the SDK sends and hears through.
#[derive(Clone)]
pub(super) struct Streamable {
    http: Arc<HttpEndpoint>,
    router: Arc<MessageRouter>,
    /// Whether the server has opened a stream of the session: from then on it knows what is asked for.
    had_stream: Arc<AtomicBool>,
}

/// The SDK's transport over it.
pub(super) type Transport = StreamableHttpClientTransport<Streamable>;
/// Its errors.
pub(super) type TransportError = StreamableHttpError<McpError>;

/// A transport to a server.
pub(super) fn transport(http: Arc<HttpEndpoint>, wire: Arc<MessageRouter>) -> Transport {
    // The URL stays with `HttpEndpoint`: what the SDK does not know it does not log.
    let mut config = StreamableHttpClientTransportConfig::with_uri("mcp")
        .max_concurrent_requests(MAX_REQUESTS)
        // Lost sessions are replaced by whoever owns the connection, who notices more of them than a 404 tells of.
        .reinit_on_expired_session(false);
    config.channel_buffer_capacity = 64;
    let mut pauses = ExponentialBackoff::default();
    pauses.max_delay = Some(MAX_RECONNECT_DELAY);
    pauses.max_times = Some(MAX_RECONNECTS);
    config.retry_config = Arc::new(pauses);
    let client = Streamable { http, router: wire, had_stream: Arc::default() };
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
        let asked = self.router.pending.register(&message);
        let mut headers = HeaderMap::from_iter(extra);
        headers.insert(ACCEPT, EITHER);
        headers.insert(CONTENT_TYPE, JSON);
        add_session(&mut headers, session.as_deref());
        let body = Some(Bytes::from(message_router::write(&message).map_err(TransportError::Client)?));
        let request = Outgoing { method: Method::POST, headers, body };
        let response = self.http.send(&self.http.url, request).await.map_err(TransportError::Client)?;
        if !response.status().is_success() {
            return self.refused(response, asked, session.is_some()).await;
        }
        let named = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let Some(asked) = asked else { return Ok(StreamableHttpPostResponse::Accepted) };
        match http::kind_of(&response) {
            _ if is_empty(&response) => Ok(StreamableHttpPostResponse::Accepted),
            // Not every server says what it sends.
            BodyKind::Json | BodyKind::Other => {
                let body = self.http.body(response).await.map_err(TransportError::Client)?;
                let message = self.answer(&body, asked).map_err(TransportError::Client)?;
                Ok(StreamableHttpPostResponse::Json(message, named))
            }
            BodyKind::Events => {
                let events = EventStream::for_request(response, Arc::clone(&self.router), asked);
                Ok(StreamableHttpPostResponse::Sse(events.into_stream().boxed(), named))
            }
        }
    }

    /// What the SDK is told of the JSON that answers a request.
    fn answer(&self, body: &[u8], asked: i64) -> Result<ServerJsonRpcMessage, McpError> {
        let message = self.router.read_answer(body, asked)?;
        if !self.router.pending.is_answered(asked) {
            return Err(McpError::Malformed("it answers something else".to_owned()));
        }
        message.ok_or_else(|| McpError::Malformed("it is no answer".to_owned()))
    }

    /// What an error status means. A JSON-RPC error in its body is the better answer, unless the status says all.
    async fn refused(
        &self,
        response: Response,
        asked: Option<i64>,
        in_session: bool,
    ) -> Result<StreamableHttpPostResponse, TransportError> {
        let status = response.status();
        let error = http::status_error(&response);
        if in_session && status == StatusCode::NOT_FOUND {
            return Err(TransportError::SessionExpired);
        }
        let says_all = matches!(status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
        if says_all || !status.is_client_error() {
            return Err(TransportError::Client(error));
        }
        let body = self.http.error_body(response).await.unwrap_or_default();
        if in_session && message_router::names_lost_session(status, &body) {
            return Err(TransportError::SessionExpired);
        }
        // Any other JSON is somebody's on the way.
        let Some(asked) = asked.filter(|_| message_router::error_in(&body).is_some()) else {
            return Err(TransportError::Client(error));
        };
        let message = self.answer(&body, asked).map_err(TransportError::Client)?;
        Ok(StreamableHttpPostResponse::Json(message, None))
    }

    async fn open(
        &self,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        extra: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, TransportError> {
        // An error after which the SDK does not try again.
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

/// Whether a server that had opened a session's stream does not know the session any more.
fn means_lost(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::GONE)
}

/// Whether the answer comes another way: over the stream of the session.
fn is_empty(response: &Response) -> bool {
    let status = response.status();
    status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT || response.content_length() == Some(0)
}
