//! A chat-completions server over HTTP: connections, headers, timeouts.
//!
//! Bodies are translated by `chat`; `retry` decides about retries.

mod completion;
mod failure_log;
mod pass_through;
#[cfg(test)]
mod tests;
mod upstream_body;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use secrecy::ExposeSecret;
use serde::Deserialize;

use super::chat::{self, ChatOptions};
use super::errors::transport_cause;
use super::masking::Secrets;
use super::upstream_error::UpstreamError;
use super::{
    CallContext, ModelInfo, ModelStream, Provider, ProviderError, ProviderErrorKind, ProviderInfo,
    ProxiedResponse,
};
use crate::config::ProviderSettings;
use crate::net::FailureCause;
use crate::net::client::{HttpClientOptions, ProxyError};
use crate::response::turn::ModelRequest;
use crate::telemetry::metrics::Metrics;
use completion::CompletionStream;
use pass_through::ProxiedCall;
use upstream_body::{UpstreamBody, with_timeouts};

const USER_AGENT: &str = concat!("antwort/", env!("CARGO_PKG_VERSION"));
/// Idle connections that are pooled for each server.
const MAX_IDLE_CONNECTIONS: usize = 128;
/// How long idle connections are pooled.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bytes of an error body that are read.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// Maximum size of a list of models.
const MAX_LIST_BODY: usize = 16 * 1024 * 1024;
/// Timeout of listing models.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that speaks chat completions.
pub(super) struct ChatProvider(Arc<Server>);

/// What all calls of a server share.
struct Server {
    name: String,
    settings: ProviderSettings,
    options: ChatOptions,
    info: ProviderInfo,
    http: reqwest::Client,
    metrics: Arc<Metrics>,
    headers: HeaderMap,
    completions_url: reqwest::Url,
    proxy_mode: ProxyMode,
    /// The base URL without secrets.
    url_for_log: String,
    /// Whether `stream_options` is sent; cleared when the server refuses it.
    stream_options: AtomicBool,
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProxyMode {
    Direct,
    /// Through a forward proxy, which sees requests and may answer itself.
    Proxy,
    /// Through a tunnel (CONNECT).
    Tunnel,
}

impl ProxyMode {
    fn for_url(url: &reqwest::Url, http: &HttpClientOptions) -> Self {
        match (http.proxies.for_url(url), url.scheme()) {
            (None, _) => Self::Direct,
            (Some(_), "https") => Self::Tunnel,
            (Some(_), _) => Self::Proxy,
        }
    }

    /// Classifies an error of sending a request.
    fn send_error(self, error: &reqwest::Error) -> ProviderError {
        let proxy =
            (self != Self::Direct).then(|| ProxyError::from_reqwest(error, self == Self::Tunnel)).flatten();
        match proxy {
            Some(proxy) => {
                ProviderError { cause: Some(transport_cause(error)), ..ProviderError::from_proxy(proxy) }
            }
            None => transport_error(error),
        }
    }
}

/// Invalid settings of a provider.
#[derive(Debug, thiserror::Error)]
#[error("provider '{name}': {problem}")]
pub struct InvalidProvider {
    name: String,
    problem: String,
}

impl ChatProvider {
    /// Creates the provider; makes no connection.
    pub(super) fn new(
        name: &str,
        settings: &ProviderSettings,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, InvalidProvider> {
        let bad = |problem: String| InvalidProvider { name: name.to_owned(), problem };
        let completions_url = completions_url(&settings.url).map_err(bad)?;
        let builder = settings
            .http
            .builder_for(&completions_url)
            .user_agent(USER_AGENT)
            .connect_timeout(settings.timeouts.connect)
            .tcp_nodelay(true)
            // Bounded: each pooled connection of a burst would hold its buffers.
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE_TIMEOUT)
            // Redirects are not followed: only the configured server may answer.
            .redirect(reqwest::redirect::Policy::none());
        let http = builder.build().map_err(|error| bad(error.to_string()))?;
        Ok(Self(Arc::new(Server {
            name: name.to_owned(),
            info: ProviderInfo {
                context_window: settings.context_window.clone(),
                prices: settings.prices.clone(),
                passthrough: settings.passthrough.clone(),
                address: address(&settings.url),
            },
            options: ChatOptions::from(settings),
            headers: headers(settings).map_err(bad)?,
            proxy_mode: ProxyMode::for_url(&completions_url, &settings.http),
            completions_url,
            url_for_log: failure_log::redact_url(&settings.url),
            stream_options: AtomicBool::new(settings.supports.stream_options),
            settings: settings.clone(),
            metrics: Arc::clone(metrics),
            http,
        })))
    }
}

/// The URL of chat completions, parsed once.
fn completions_url(url: &str) -> Result<reqwest::Url, String> {
    let url = format!("{url}/chat/completions");
    reqwest::Url::parse(&url).map_err(|error| format!("url: {error}"))
}

/// Host and port of a URL.
fn address(url: &str) -> Option<(String, u16)> {
    let url = reqwest::Url::parse(url).ok()?;
    Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
}

/// The headers of every request, from the configuration only: no header of a client is forwarded.
fn headers(settings: &ProviderSettings) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(key) = &settings.api_key {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))
            .map_err(|_| "api_key contains characters that are not allowed in a header".to_owned())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    for (name, value) in &settings.headers {
        let key = HeaderName::try_from(name.as_str())
            .map_err(|_| format!("headers.{name} is not a valid header name"))?;
        let mut value = HeaderValue::from_str(value.expose_secret())
            .map_err(|_| format!("headers.{name} contains characters that are not allowed in a header"))?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

#[async_trait]
impl Provider for ChatProvider {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn info(&self) -> &ProviderInfo {
        &self.0.info
    }

    fn infer(
        &self,
        request: &ModelRequest,
        call: &CallContext,
    ) -> Result<Box<dyn ModelStream>, ProviderError> {
        Ok(Box::new(CompletionStream::new(Arc::clone(&self.0), request, call.clone())?))
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        let server = &self.0;
        let url = format!("{}/models", server.settings.url);
        let request = server.http.get(url).headers(server.headers.clone()).send();
        let answer = async {
            let response = server
                .check_status(request.await.map_err(|error| server.proxy_mode.send_error(&error))?)
                .await?;
            server.upstream_body(response, Instant::now()).read_to_end(MAX_LIST_BODY).await
        };
        let answer = tokio::time::timeout(LIST_TIMEOUT, answer).await.unwrap_or_else(|_| {
            let cause =
                FailureCause::from_timeout("total_timeout", "the timeout for listing models", LIST_TIMEOUT);
            let late = ProviderError::new(ProviderErrorKind::FirstByteTimeout, "the provider took too long");
            Err(ProviderError { cause: Some(Box::new(cause)), ..late })
        });
        answer
            .and_then(|text| read_models(&text))
            .inspect_err(|error| server.log_failure("/models", None, error, None))
    }

    async fn pass_through(
        &self,
        path: &str,
        body: Bytes,
        call: &CallContext,
    ) -> Result<ProxiedResponse, ProviderError> {
        let proxied = self.0.pass_through(path, body, call).await;
        proxied.inspect_err(|error| self.0.log_failure(path, Some(call), error, None))
    }
}

impl Server {
    async fn pass_through(
        self: &Arc<Self>,
        path: &str,
        body: Bytes,
        call: &CallContext,
    ) -> Result<ProxiedResponse, ProviderError> {
        let server = self;
        let url = format!("{}{path}", server.settings.url);
        let request = server.http.post(url).headers(server.call_headers(call)).body(body).send();
        let limits = &server.settings.timeouts;
        let sent = Instant::now();
        let response =
            with_timeouts(limits.first_byte, ProviderErrorKind::FirstByteTimeout, limits.total, request)
                .await?;
        let response = response.map_err(|error| server.proxy_mode.send_error(&error))?;
        let header = |name: HeaderName| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let status = response.status().as_u16();
        let content_type = header(CONTENT_TYPE).unwrap_or_else(|| "application/json".to_owned());
        // Client errors are passed on with the server's message. Other errors get a message of the gateway: the server's
        // body could be a web page, or disclose hosts and keys.
        let to_client =
            matches!(status, 200..=299 | 400 | 404..=406 | 408..=429) && !content_type.contains("html");
        if !to_client {
            return Err(server.error_from_response(response).await);
        }
        let retry_after = header(RETRY_AFTER);
        let is_error = !response.status().is_success();
        let incoming = server.upstream_body(response, sent);
        let body = if is_error {
            let text = incoming.read_to_end(MAX_ERROR_BODY).await.map_err(|error| match error.kind {
                ProviderErrorKind::Malformed => ProviderError::new(
                    ProviderErrorKind::Status(status),
                    format!(
                        "The model provider answered with status {status} and an error body that is too large."
                    ),
                ),
                _ => error,
            })?;
            server.log_failure(
                path,
                Some(call),
                &ProviderError::new(ProviderErrorKind::Status(status), ""),
                None,
            );
            server.secrets().mask_body(text).into()
        } else {
            pass_through::masked_body(
                server,
                incoming,
                &content_type,
                ProxiedCall { path: path.to_owned(), call: call.clone() },
            )
            .await?
        };
        Ok(ProxiedResponse { status, content_type, retry_after, body })
    }

    /// The headers of a call that belongs to a request.
    fn call_headers(&self, call: &CallContext) -> HeaderMap {
        let mut headers = self.headers.clone();
        if let Ok(id) = HeaderValue::from_str(&call.request_id) {
            headers.insert("x-request-id", id);
        }
        if let Some(parent) =
            call.traceparent.as_deref().and_then(|parent| HeaderValue::from_str(parent).ok())
        {
            headers.insert("traceparent", parent);
        }
        headers
    }

    fn upstream_body(&self, response: reqwest::Response, sent: Instant) -> UpstreamBody {
        UpstreamBody::new(response, self.settings.timeouts.clone(), sent, sent)
    }

    /// Sends a chat completion; returns the response if its status is a success.
    async fn send(
        &self,
        body: Bytes,
        stream: bool,
        call: &CallContext,
    ) -> Result<reqwest::Response, ProviderError> {
        let mut headers = self.call_headers(call);
        let accept = if stream { "text/event-stream" } else { "application/json" };
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let request = self.http.post(self.completions_url.clone()).headers(headers).body(body);
        self.check_status(request.send().await.map_err(|error| self.proxy_mode.send_error(&error))?).await
    }

    async fn check_status(&self, response: reqwest::Response) -> Result<reqwest::Response, ProviderError> {
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(self.error_from_response(response).await)
        }
    }

    /// The error for a response whose status is not 2xx.
    async fn error_from_response(&self, response: reqwest::Response) -> ProviderError {
        let status = response.status().as_u16();
        if status == 407 && self.proxy_mode == ProxyMode::Proxy {
            return ProviderError::from_proxy(ProxyError::Credentials);
        }
        let wait = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let wait = wait.and_then(|value| crate::net::retry_after(value, SystemTime::now()));
        if response.status().is_redirection() {
            let message = "The model provider answered with a redirect; its configured URL is wrong.";
            return ProviderError::new(ProviderErrorKind::Malformed, message);
        }
        let text = read_start(response, MAX_ERROR_BODY).await;
        let secret = self.settings.api_key.as_ref().map(|key| key.expose_secret());
        let mut error = UpstreamError::parse(&text).into_error(Some(status), secret);
        error.retry_after = wait;
        self.mask_error(&mut error);
        error
    }

    /// Masks this server's secrets in an error that a client will see: messages may repeat what was sent.
    fn mask_error(&self, error: &mut ProviderError) {
        self.secrets().mask_error(error);
    }

    fn secrets(&self) -> Secrets<'_> {
        Secrets::from_settings(&self.settings)
    }

    /// If the server refused `stream_options`, stops sending it; returns whether to send the request again without it.
    fn disable_stream_options(&self, error: &ProviderError) -> bool {
        matches!(error.kind, ProviderErrorKind::Status(400 | 422))
            && error.message.contains("stream_options")
            && self.stream_options.swap(false, Ordering::Relaxed)
    }

    /// The body of a chat completion.
    fn encode(&self, request: &ModelRequest) -> Result<Bytes, ProviderError> {
        let include_usage = self.stream_options.load(Ordering::Relaxed);
        chat::encode(request, &self.options, include_usage).map(Bytes::from)
    }
}

/// A failure of the connection. The library's own text is not passed on, as it may contain the URL.
fn transport_error(error: &reqwest::Error) -> ProviderError {
    let kind = match (error.is_connect(), error.is_timeout()) {
        (true, true) => ProviderErrorKind::ConnectTimeout,
        (true, false) => ProviderErrorKind::Connect,
        (false, true) => ProviderErrorKind::FirstByteTimeout,
        (false, false) => ProviderErrorKind::Cut,
    };
    ProviderError { cause: Some(transport_cause(error)), ..ProviderError::new(kind, "the connection failed") }
}

/// The beginning of a body, as far as it can be read.
async fn read_start(mut response: reqwest::Response, limit: usize) -> String {
    let mut body = Vec::new();
    while body.len() < limit
        && let Ok(Ok(Some(piece))) = tokio::time::timeout(LIST_TIMEOUT, response.chunk()).await
    {
        body.extend_from_slice(&piece);
    }
    body.truncate(limit);
    String::from_utf8_lossy(&body).into_owned()
}

/// Parses a list of models; `data[].id` is the only field that all servers have.
fn read_models(text: &str) -> Result<Vec<ModelInfo>, ProviderError> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        id: String,
        #[serde(default)]
        created: Option<f64>,
        #[serde(default)]
        owned_by: Option<String>,
    }
    let list: List = serde_json::from_str(text).map_err(|_| {
        ProviderError::new(
            ProviderErrorKind::Malformed,
            "The model provider's list of models cannot be read.",
        )
    })?;
    Ok(list
        .data
        .into_iter()
        .map(|model| ModelInfo {
            id: model.id,
            created: model.created.unwrap_or(0.0) as i64,
            owned_by: model.owned_by.unwrap_or_default(),
        })
        .collect())
}
