//! A chat-completions server over HTTP: connections, headers, time limits and tries.
//!
//! What is said over them is the translators' (`chat`); when to try again is `resilience`'s.

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
use super::masking::Secrets;
use super::upstream_error::UpstreamError;
use super::{
    CallContext, ModelInfo, ModelStream, Provider, ProviderError, ProviderErrorKind, ProviderInfo,
    ProxiedResponse, TransportCause,
};
use crate::config::ProviderSettings;
use crate::net::client::{HttpClientOptions, ProxyError};
use crate::response::turn::ModelRequest;
use crate::telemetry::metrics::Metrics;
use completion::CompletionStream;
use pass_through::ProxiedCall;
use upstream_body::{UpstreamBody, with_timeouts};

const USER_AGENT: &str = concat!("antwort/", env!("CARGO_PKG_VERSION"));
/// Idle connections to a server that are kept for the next calls.
const MAX_IDLE_CONNECTIONS: usize = 128;
/// For this long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How much of an error's body is read.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// How much of a list of models is read.
const MAX_LIST_BODY: usize = 16 * 1024 * 1024;
/// How long a list of models may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that speaks chat completions.
pub(super) struct ChatProvider(Arc<Server>);

/// What all calls to a server share.
struct Server {
    name: String,
    settings: ProviderSettings,
    options: ChatOptions,
    info: ProviderInfo,
    http: reqwest::Client,
    metrics: Arc<Metrics>,
    headers: HeaderMap,
    completions: reqwest::Url,
    proxy_mode: ProxyMode,
    /// Without secrets.
    url_for_log: String,
    /// Cleared when the server refuses `stream_options`; it is not asked again.
    stream_options: AtomicBool,
}

/// What lies between the gateway and a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProxyMode {
    Direct,
    /// A proxy that sees requests and answers itself.
    Proxy,
    /// A proxy that hands bytes on.
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

    /// What an error of sending a request means.
    fn send_error(self, error: &reqwest::Error) -> ProviderError {
        let proxy =
            (self != Self::Direct).then(|| ProxyError::from_reqwest(error, self == Self::Tunnel)).flatten();
        match proxy {
            Some(proxy) => ProviderError {
                cause: Some(TransportCause::from_reqwest(error)),
                ..ProviderError::from_proxy(proxy)
            },
            None => transport_error(error),
        }
    }
}

/// Settings of a provider that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("provider '{name}': {problem}")]
pub struct InvalidProvider {
    name: String,
    problem: String,
}

impl ChatProvider {
    /// A provider that has not been asked anything; no connection is made.
    pub(super) fn new(
        name: &str,
        settings: &ProviderSettings,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, InvalidProvider> {
        let bad = |problem: String| InvalidProvider { name: name.to_owned(), problem };
        let completions = completions(&settings.url).map_err(bad)?;
        let builder = settings
            .http
            .builder_for(&completions)
            .user_agent(USER_AGENT)
            .connect_timeout(settings.timeouts.connect)
            .tcp_nodelay(true)
            // Connections of a burst are not kept: each holds its buffers.
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE_TIMEOUT)
            // An answer from elsewhere than the configured server is none of ours.
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
            proxy_mode: ProxyMode::for_url(&completions, &settings.http),
            completions,
            url_for_log: failure_log::redact_url(&settings.url),
            stream_options: AtomicBool::new(settings.supports.stream_options),
            settings: settings.clone(),
            metrics: Arc::clone(metrics),
            http,
        })))
    }
}

/// Where chat completions are asked for. Read once, not with every request.
fn completions(url: &str) -> Result<reqwest::Url, String> {
    let url = format!("{url}/chat/completions");
    reqwest::Url::parse(&url).map_err(|error| format!("url: {error}"))
}

/// Host and port of a URL.
fn address(url: &str) -> Option<(String, u16)> {
    let url = reqwest::Url::parse(url).ok()?;
    Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
}

/// The headers of every request. Built from the configuration alone: a client's never get here.
fn headers(settings: &ProviderSettings) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(key) = &settings.api_key {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))
            .map_err(|_| "api_key holds characters that a header cannot".to_owned())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    for (name, value) in &settings.headers {
        let key =
            HeaderName::try_from(name.as_str()).map_err(|_| format!("headers.{name} is no header name"))?;
        let mut value = HeaderValue::from_str(value.expose_secret())
            .map_err(|_| format!("headers.{name} holds characters that a header cannot"))?;
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
            let response =
                server.accepted(request.await.map_err(|error| server.proxy_mode.send_error(&error))?).await?;
            server.upstream_body(response, Instant::now()).read_to_end(MAX_LIST_BODY).await
        };
        let answer = tokio::time::timeout(LIST_TIMEOUT, answer).await.unwrap_or_else(|_| {
            let cause = Some(TransportCause::from_timeout("a list of models has", LIST_TIMEOUT));
            let late = ProviderError::new(ProviderErrorKind::FirstByteTimeout, "the provider took too long");
            Err(ProviderError { cause, ..late })
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
        let passed = self.0.pass_through(path, body, call).await;
        passed.inspect_err(|error| self.0.log_failure(path, Some(call), error, None))
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
        // The client's own mistakes are told in the server's words. Other failures are the gateway's to
        // explain: the server's words could be a web page, or name its hosts and keys.
        let to_client =
            matches!(status, 200..=299 | 400 | 404..=406 | 408..=429) && !content_type.contains("html");
        if !to_client {
            return Err(server.refusal(response).await);
        }
        let retry_after = header(RETRY_AFTER);
        let is_error = !response.status().is_success();
        let incoming = server.upstream_body(response, sent);
        let body = if is_error {
            let told = incoming.read_to_end(MAX_ERROR_BODY).await.map_err(|error| match error.kind {
                ProviderErrorKind::Malformed => ProviderError::new(
                    ProviderErrorKind::Status(status),
                    format!(
                        "The model provider answered with status {status} and too many words to be read."
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
            server.secrets().mask_body(told).into()
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

    /// Sends a chat completion; returns once the server has accepted it.
    async fn send(
        &self,
        body: Bytes,
        stream: bool,
        call: &CallContext,
    ) -> Result<reqwest::Response, ProviderError> {
        let mut headers = self.call_headers(call);
        let accept = if stream { "text/event-stream" } else { "application/json" };
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let request = self.http.post(self.completions.clone()).headers(headers).body(body);
        self.accepted(request.send().await.map_err(|error| self.proxy_mode.send_error(&error))?).await
    }

    async fn accepted(&self, response: reqwest::Response) -> Result<reqwest::Response, ProviderError> {
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response).await) }
    }

    /// What a status other than 2xx means.
    async fn refusal(&self, response: reqwest::Response) -> ProviderError {
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

    /// Takes the secrets of this server out of words that a client will see: its errors may repeat what it was sent.
    fn mask_error(&self, error: &mut ProviderError) {
        self.secrets().mask_error(error);
    }

    fn secrets(&self) -> Secrets<'_> {
        Secrets::from_settings(&self.settings)
    }

    /// Whether a refusal was about `stream_options`, which is then left out from now on.
    fn refused_stream_options(&self, error: &ProviderError) -> bool {
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

/// What went wrong between us and the server. The library's own text may hold the URL and is not passed on.
fn transport_error(error: &reqwest::Error) -> ProviderError {
    let kind = match (error.is_connect(), error.is_timeout()) {
        (true, true) => ProviderErrorKind::ConnectTimeout,
        (true, false) => ProviderErrorKind::Connect,
        (false, true) => ProviderErrorKind::FirstByteTimeout,
        (false, false) => ProviderErrorKind::Cut,
    };
    ProviderError {
        cause: Some(TransportCause::from_reqwest(error)),
        ..ProviderError::new(kind, "the connection failed")
    }
}

/// The start of a body, as much of it as comes.
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

/// Servers agree on `data[].id` and on little else.
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
