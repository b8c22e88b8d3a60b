//! A chat-completions server over HTTP: connections, headers, timeouts.
//!
//! Bodies are translated by `chat`; `retry` decides about retries.

mod completion;
mod failure_log;
mod pass_through;
mod response;
mod server;
mod streaming;
#[cfg(test)]
mod tests;
mod timer;
mod tokenizer;
mod transport_error;
mod upstream_body;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use secrecy::ExposeSecret;
use serde::Deserialize;

use super::chat::{self, ChatOptions};
use super::{
    CallContext, ModelInfo, ModelStream, Provider, ProviderError, ProviderErrorKind, ProviderInfo,
    ProxiedBody, ProxiedResponse, tokens,
};
use antwort_config::{ProviderClient, ProviderSettings};
use antwort_http1::{Http1Client, Http1Options};
use antwort_net::FailureCause;
use antwort_response::turn::ModelRequest;
use antwort_telemetry::metrics::Metrics;
use completion::CompletionStream;
pub use failure_log::redact_url;
use server::{ProxyMode, REQUEST_ID, Server, TRACEPARENT};

const AGENT: &str = concat!("antwort/", env!("CARGO_PKG_VERSION"));
/// Idle connections that are pooled for each server.
const MAX_IDLE_CONNECTIONS: usize = 128;
/// How long idle connections are pooled.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a list of models.
const MAX_LIST_BODY: usize = 16 * 1024 * 1024;
/// Timeout of listing models.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that speaks chat completions.
pub(super) struct ChatProvider(Arc<Server>);

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
            .user_agent(AGENT)
            .connect_timeout(settings.timeouts.connect)
            .tcp_nodelay(true)
            // Bounded: each pooled connection of a burst would hold its buffers.
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE_TIMEOUT)
            // Redirects are not followed: only the configured server may answer.
            .redirect(reqwest::redirect::Policy::none());
        let http = builder.build().map_err(|error| bad(error.to_string()))?;
        let headers = headers(settings).map_err(bad)?;
        Ok(Self(Arc::new(Server {
            name: name.to_owned(),
            info: ProviderInfo {
                context_window: settings.context_window.clone(),
                prices: settings.prices.clone(),
                passthrough: settings.passthrough.clone(),
                address: address(&settings.url),
            },
            options: ChatOptions::from(settings),
            lean: lean_client(settings, &completions_url, &headers).map_err(bad)?,
            headers,
            proxy_mode: ProxyMode::for_url(&completions_url, &settings.http),
            completions_url,
            url_for_log: redact_url(&settings.url),
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

/// The lean client for completions, unless they need what only the other one does, or that one is configured.
fn lean_client(
    settings: &ProviderSettings,
    url: &reqwest::Url,
    headers: &HeaderMap,
) -> Result<Option<Http1Client>, String> {
    let is_proxied = ProxyMode::for_url(url, &settings.http) != ProxyMode::Direct;
    let is_possible = !is_proxied && headers.keys().all(Http1Client::allows_header);
    if settings.client == ProviderClient::Pooled || !is_possible {
        return Ok(None);
    }
    let mut headers = headers.clone();
    headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
    for own in [ACCEPT.as_str(), REQUEST_ID, TRACEPARENT] {
        headers.remove(own);
    }
    let options = Http1Options {
        connect_timeout: settings.timeouts.connect,
        max_idle: MAX_IDLE_CONNECTIONS,
        idle_timeout: IDLE_TIMEOUT,
    };
    Http1Client::new(url, &headers, &settings.http, options).map(Some)
}

/// Host and port of a URL.
fn address(url: &str) -> Option<(String, u16)> {
    let url = reqwest::Url::parse(url).ok()?;
    Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
}

/// The headers of every request, from the configuration only: no header of a client is forwarded.
pub fn headers(settings: &ProviderSettings) -> Result<HeaderMap, String> {
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
        request: &Arc<ModelRequest>,
        call: &CallContext,
    ) -> Result<Box<dyn ModelStream>, ProviderError> {
        Ok(Box::new(CompletionStream::new(Arc::clone(&self.0), Arc::clone(request), call.clone())?))
    }

    fn encode_for_tokenizer(&self, request: &ModelRequest) -> Result<Option<Bytes>, ProviderError> {
        let Some(api) = self.0.settings.tokenizer_api() else { return Ok(None) };
        Ok(chat::encode_prompt(request, &self.0.options, api)?.map(Bytes::from))
    }

    async fn count_tokens(&self, prompt: Bytes, call: &CallContext) -> Option<u64> {
        let api = self.0.settings.tokenizer_api()?;
        let counted = tokenizer::count(&self.0, api, prompt, call).await;
        counted.inspect_err(|error| self.0.log_no_count(call, error)).ok()
    }

    fn estimate_tokens(&self, request: &ModelRequest) -> Result<u64, ProviderError> {
        chat::estimate(request, &self.0.options, tokens::count).map(|tokens| tokens as u64)
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
        body: ProxiedBody,
        call: &CallContext,
    ) -> Result<ProxiedResponse, ProviderError> {
        let proxied = pass_through::pass_through(&self.0, path, body, call).await;
        proxied.inspect_err(|error| self.0.log_failure(path, Some(call), error, None))
    }
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
