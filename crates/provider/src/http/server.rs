//! A server with what all calls of it share: connections, headers, how it is reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use secrecy::ExposeSecret;

use super::response::UpstreamResponse;
use super::timer::Timer;
use super::transport_error::{http1_error, transport_error};
use super::upstream_body::UpstreamBody;
use crate::chat::{self, ChatOptions};
use crate::errors::transport_cause;
use crate::masking::Secrets;
use crate::upstream_error::UpstreamError;
use crate::{CallContext, ProviderError, ProviderErrorKind, ProviderInfo};
use antwort_config::ProviderSettings;
use antwort_http1::Http1Client;
use antwort_net::client::{HttpClientOptions, ProxyError};
use antwort_response::turn::ModelRequest;
use antwort_telemetry::metrics::Metrics;

/// Maximum bytes of an error body that are read.
pub(super) const MAX_ERROR_BODY: usize = 64 * 1024;
/// Timeout between the pieces of an error body.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Headers of a call, besides the configured ones.
pub(super) const REQUEST_ID: &str = "x-request-id";
pub(super) const TRACEPARENT: &str = "traceparent";

/// What all calls of a server share.
pub(super) struct Server {
    pub name: String,
    pub settings: ProviderSettings,
    pub options: ChatOptions,
    pub info: ProviderInfo,
    pub http: reqwest::Client,
    /// For completions, unless they need what only the other client does.
    pub(crate) lean: Option<Http1Client>,
    pub metrics: Arc<Metrics>,
    pub headers: HeaderMap,
    pub(crate) completions_url: reqwest::Url,
    pub(crate) proxy_mode: ProxyMode,
    /// The base URL without secrets.
    pub(crate) url_for_log: String,
    /// Whether `stream_options` is sent; cleared when the server refuses it.
    pub stream_options: AtomicBool,
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProxyMode {
    Direct,
    /// Through a forward proxy, which sees requests and may answer itself.
    Proxy,
    /// Through a tunnel (CONNECT).
    Tunnel,
}

impl ProxyMode {
    pub(super) fn for_url(url: &reqwest::Url, http: &HttpClientOptions) -> Self {
        match (http.proxies.for_url(url), url.scheme()) {
            (None, _) => Self::Direct,
            (Some(_), "https") => Self::Tunnel,
            (Some(_), _) => Self::Proxy,
        }
    }

    /// Classifies an error of sending a request.
    pub(super) fn send_error(self, error: &reqwest::Error) -> ProviderError {
        let proxy =
            (self != Self::Direct).then(|| ProxyError::from_reqwest(error, self == Self::Tunnel)).flatten();
        match proxy {
            Some(proxy) => {
                let cause = Some(transport_cause(error, error.is_connect(), error.is_timeout()));
                ProviderError { cause, ..ProviderError::from_proxy(proxy) }
            }
            None => transport_error(error),
        }
    }
}

impl Server {
    /// The headers of a call that belongs to a request.
    pub(super) fn call_headers(&self, call: &CallContext) -> HeaderMap {
        let mut headers = self.headers.clone();
        if let Ok(id) = HeaderValue::from_str(&call.request_id) {
            headers.insert(REQUEST_ID, id);
        }
        if let Some(parent) =
            call.traceparent.as_deref().and_then(|parent| HeaderValue::from_str(parent).ok())
        {
            headers.insert(TRACEPARENT, parent);
        }
        headers
    }

    pub(super) fn upstream_body(&self, response: impl Into<UpstreamResponse>, sent: Instant) -> UpstreamBody {
        let timeouts = self.settings.timeouts.clone();
        UpstreamBody::new(response.into(), timeouts, sent, sent, Timer::default())
    }

    /// Sends a chat completion; returns the response if its status is a success.
    pub(super) async fn send(
        &self,
        body: Bytes,
        stream: bool,
        call: &CallContext,
    ) -> Result<UpstreamResponse, ProviderError> {
        let accept = if stream { "text/event-stream" } else { "application/json" };
        if let Some(lean) = &self.lean {
            let headers = [
                (ACCEPT.as_str(), Some(accept)),
                (REQUEST_ID, Some(call.request_id.as_str())),
                (TRACEPARENT, call.traceparent.as_deref()),
            ];
            let response = lean.post(&headers, body).await.map_err(|error| http1_error(&error))?;
            return self.check_status(response).await;
        }
        // Boxed, as are errors below: it would take space in the future of most calls, which use the other client.
        Box::pin(async {
            let mut headers = self.call_headers(call);
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            let request = self.http.post(self.completions_url.clone()).headers(headers).body(body);
            let sent = request.send().await;
            self.check_status(sent.map_err(|error| self.proxy_mode.send_error(&error))?).await
        })
        .await
    }

    pub(super) async fn check_status(
        &self,
        response: impl Into<UpstreamResponse>,
    ) -> Result<UpstreamResponse, ProviderError> {
        let response = response.into();
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(Box::pin(self.error_from_response(response)).await)
        }
    }

    /// The error for a response whose status is not 2xx.
    pub(super) async fn error_from_response(&self, response: impl Into<UpstreamResponse>) -> ProviderError {
        let response = response.into();
        let status = response.status().as_u16();
        if status == 407 && self.proxy_mode == ProxyMode::Proxy {
            return ProviderError::from_proxy(ProxyError::Credentials);
        }
        let wait =
            response.retry_after().and_then(|value| antwort_net::retry_after(value, SystemTime::now()));
        if response.status().is_redirection() {
            let message = "The model provider answered with a redirect; its configured URL is wrong.";
            return ProviderError::new(ProviderErrorKind::Redirect, message);
        }
        let text = read_start(response, MAX_ERROR_BODY).await;
        let secret = self.settings.api_key.as_ref().map(|key| key.expose_secret());
        let mut error = UpstreamError::parse(&text).into_error(Some(status), secret);
        error.retry_after = wait;
        self.mask_error(&mut error);
        error
    }

    /// Masks this server's secrets in an error that a client will see, as messages may repeat what was sent; what the
    /// configuration says of its errors is applied before.
    pub(super) fn mask_error(&self, error: &mut ProviderError) {
        error.apply_patterns(&self.settings);
        self.secrets().mask_error(error);
    }

    pub(super) fn secrets(&self) -> Secrets<'_> {
        Secrets::from_settings(&self.settings)
    }

    /// If the server refused `stream_options`, stops sending it; returns whether to send the request again without it.
    pub(super) fn disable_stream_options(&self, error: &ProviderError) -> bool {
        matches!(error.kind, ProviderErrorKind::Status(400 | 422))
            && error.message.contains("stream_options")
            && self.stream_options.swap(false, Ordering::Relaxed)
    }

    /// The body of a chat completion.
    pub(super) fn encode(&self, request: &ModelRequest) -> Result<Bytes, ProviderError> {
        let include_usage = self.stream_options.load(Ordering::Relaxed);
        let body = chat::encode(request, &self.options, include_usage)?;
        // Without spare capacity: it is kept for retries until the first events.
        Ok(body.into_boxed_slice().into())
    }
}

/// The beginning of a body, as far as it can be read.
async fn read_start(mut response: UpstreamResponse, limit: usize) -> String {
    let mut body = Vec::new();
    while body.len() < limit
        && let Ok(Ok(Some(piece))) = tokio::time::timeout(ERROR_BODY_TIMEOUT, response.chunk()).await
    {
        body.extend_from_slice(&piece);
    }
    body.truncate(limit);
    String::from_utf8_lossy(&body).into_owned()
}
