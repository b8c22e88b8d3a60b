//! HTTP with SSE, the transport of 2024-11-05: one stream for all messages of the server, and a URL to post messages to.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;

use super::http::{self, BodyKind, HttpEndpoint, Outgoing};
use super::message_router::{self, MessageRouter};
use super::pending;
use crate::error::McpError;
use antwort_net::sse::{Decoded, Event, SkippingDecoder};

/// The transport of one session.
pub(super) struct SseTransport {
    http: Arc<HttpEndpoint>,
    router: Arc<MessageRouter>,
    /// Where messages are posted to.
    endpoint_url: Url,
    /// `None` after the end of the stream.
    response: Option<Response>,
    decoder: SkippingDecoder,
    ready: VecDeque<ServerJsonRpcMessage>,
}

impl SseTransport {
    /// Opens the stream and waits for the event with the URL to post messages to.
    pub(super) async fn open(http: Arc<HttpEndpoint>, router: Arc<MessageRouter>) -> Result<Self, McpError> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/event-stream"))]);
        let request = Outgoing { method: Method::GET, headers, body: None };
        let mut response = http.send(&http.url, request).await?;
        if !response.status().is_success() {
            return Err(http::status_error(&response));
        }
        if http::kind_of(&response) != BodyKind::Events {
            return Err(McpError::Connect("the server does not return an event stream".into()));
        }
        let mut decoder = SkippingDecoder::new(router.max_event_bytes());
        let endpoint_url = loop {
            let Some(bytes) = response.chunk().await.map_err(|error| http.failure(&error))? else {
                return Err(McpError::Connect("the stream ended before the `endpoint` event".into()));
            };
            decoder.feed(&bytes);
            if let Some(endpoint_url) = endpoint_url(&mut decoder, &http.url)? {
                break endpoint_url;
            }
        };
        Ok(Self { http, router, endpoint_url, response: Some(response), decoder, ready: VecDeque::new() })
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = McpError;

    fn name() -> Cow<'static, str> {
        "sse".into()
    }

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), McpError>> + Send + 'static {
        let (http, router, endpoint_url) =
            (Arc::clone(&self.http), Arc::clone(&self.router), self.endpoint_url.clone());
        async move { post(&http, &router, &endpoint_url, &message).await }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            let Ok(Some(bytes)) = self.response.as_mut()?.chunk().await else {
                self.response = None;
                self.router.close("the server ended its event stream");
                return None;
            };
            self.decoder.feed(&bytes);
            while let Some(event) = self.decoder.next_event() {
                self.ready.extend(read(&self.router, event));
            }
            self.router.count_stray_bytes(self.decoder.take_stray_bytes());
            if self.decoder.is_skipping() {
                self.router.count_skipped(bytes.len());
            }
            if self.router.closed.is_cancelled() {
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), McpError> {
        self.response = None;
        self.router.close("the session was closed");
        Ok(())
    }
}

async fn post(
    http: &HttpEndpoint,
    router: &MessageRouter,
    endpoint_url: &Url,
    message: &ClientJsonRpcMessage,
) -> Result<(), McpError> {
    router.check_open()?;
    let _open = router.sending(message);
    router.pending.register(message);
    let json = HeaderValue::from_static("application/json");
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, json.clone()), (ACCEPT, json)]);
    http::add_trace(&mut headers, pending::traceparent(message));
    let body = Some(Bytes::from(message_router::write(message)?));
    let response = http.send(endpoint_url, Outgoing { method: Method::POST, headers, body }).await?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let error = http::status_error(&response);
    let lost = status == StatusCode::NOT_FOUND
        || message_router::names_lost_session(status, &http.error_body(response).await.unwrap_or_default());
    Err(if lost { McpError::SessionLost } else { error })
}

/// Routes a message; what the SDK needs to see of it, if anything.
fn read(router: &MessageRouter, decoded: Decoded<'_>) -> Option<ServerJsonRpcMessage> {
    match decoded {
        // Messages come in events without a name.
        Decoded::Event(Event { name: Some(_), data, .. }) => {
            router.count_notification(data.len());
            None
        }
        Decoded::Event(Event { data, .. }) if data.is_empty() => {
            router.count_notification(0);
            None
        }
        Decoded::Event(Event { data, .. }) => router.read(data.as_bytes(), None).unwrap_or_else(|error| {
            tracing::debug!(target: "antwort::mcp", server = &*router.server, %error, "ignoring an event that is not a JSON-RPC message");
            None
        }),
        Decoded::Oversized(Event { name: Some(_), .. }, _) => {
            router.count_notification(0);
            None
        }
        Decoded::Oversized(_, excerpt) => {
            router.skip(&excerpt, None).map(message_router::placeholder_response)
        }
    }
}

/// The URL of the `endpoint` event, once it has come. Of the server's own origin only: the credentials are sent there, and
/// a server may not choose what else the gateway reaches.
fn endpoint_url(decoder: &mut SkippingDecoder, base: &Url) -> Result<Option<Url>, McpError> {
    while let Some(decoded) = decoder.next_event() {
        let Decoded::Event(Event { name: Some(name), data: target, .. }) = decoded else { continue };
        if name != "endpoint" || target.is_empty() {
            continue;
        }
        let endpoint_url = base
            .join(target.trim())
            .map_err(|_| McpError::Connect("its `endpoint` event has no valid URL".into()))?;
        if endpoint_url.origin() != base.origin() {
            return Err(McpError::Connect("its `endpoint` event points to another server".into()));
        }
        return Ok(Some(endpoint_url));
    }
    Ok(None)
}
