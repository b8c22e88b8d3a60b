//! Providers: the model servers behind the gateway.
//!
//! The engine uses them through the trait [`Provider`]. It knows the protocol and the neutral turn, not the engine.

pub mod chat;
mod context_overflow;
mod errors;
mod http;
mod lenient;
mod masking;
pub mod model_choice;
pub mod models;
mod retry;
pub mod routing;
mod tokens;
mod upstream_error;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;

use antwort_config::{ContextWindow, ModelPrice};
use antwort_protocol::id::Id;
use antwort_protocol::response::Usage;
use antwort_response::turn::{ModelEvent, ModelRequest};

pub use errors::{ProviderError, ProviderErrorKind};
pub use http::{headers as request_headers, redact_url};
pub use masking::mask_excerpt;
pub use upstream_error::read_error;

/// A model server.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Its key under `providers` in the configuration; a metric label and the seal's associated data.
    fn name(&self) -> &str;

    /// Its configured properties that the engine needs before a request.
    fn info(&self) -> &ProviderInfo;

    /// One inference. The request is sent at the first [`ModelStream::poll_next`].
    fn infer(
        &self,
        request: &Arc<ModelRequest>,
        call: &CallContext,
    ) -> Result<Box<dyn ModelStream>, ProviderError>;

    /// The request as this provider's tokenizer takes it. `None` if it has no tokenizer, or one that cannot count this
    /// prompt. Fails where `infer` would refuse the request.
    fn encode_for_tokenizer(&self, request: &ModelRequest) -> Result<Option<Bytes>, ProviderError>;

    /// Has the tokenizer count an encoded prompt; `None` if its answer cannot be used.
    async fn count_tokens(&self, prompt: Bytes, call: &CallContext) -> Option<u64>;

    /// Estimates the tokens of a prompt, which is long work. Fails where `infer` would refuse the request.
    fn estimate_tokens(&self, request: &ModelRequest) -> Result<u64, ProviderError>;

    /// The models that it serves.
    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError>;

    /// Proxies a request body to `path` (such as `/chat/completions`), and the response back, unparsed.
    async fn pass_through(
        &self,
        path: &str,
        body: ProxiedBody,
        call: &CallContext,
    ) -> Result<ProxiedResponse, ProviderError>;
}

/// The body of a proxied request.
#[derive(Debug, Clone)]
pub struct ProxiedBody {
    /// What is sent: the body of the client, with the provider's own name of the model.
    pub bytes: Bytes,
    /// The Content-Type of a form; `None`: JSON.
    pub form: Option<String>,
}

/// When an inference was sent and answered.
#[derive(Debug, Clone, Default)]
pub struct InferenceTiming {
    /// When its first attempt was sent.
    pub sent: Option<Instant>,
    /// When each further attempt was sent.
    pub retried: Vec<Instant>,
    /// Why each of them was made: the kind of the failure before, as metrics name it.
    pub retry_reasons: Vec<&'static str>,
    /// When the headers of the answer came, of the last attempt that has one.
    pub first_byte: Option<Instant>,
}

/// A model's answer, as a stream of events. Dropping it cancels the upstream request.
pub trait ModelStream: Send {
    /// Waits for events and appends all that have arrived.
    ///
    /// `Ok(true)`: more may follow. `Ok(false)`: the answer is complete. On an error, the events that were appended before it
    /// are valid. A poll, and no boxed future for each call: it would be as large as the whole state of a call.
    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Poll<Result<bool, ProviderError>>;

    /// What is known so far of its times.
    fn timing(&self) -> &InferenceTiming;

    /// Tokens that were used and are in no event: of attempts that failed, and of an answer that has failed or is not read
    /// to its end.
    fn take_usage(&mut self) -> Option<Usage>;
}

impl dyn ModelStream {
    /// [`ModelStream::poll_next`] as a future.
    pub async fn next(&mut self, events: &mut Vec<ModelEvent>) -> Result<bool, ProviderError> {
        poll_fn(|cx| self.poll_next(cx, events)).await
    }
}

/// The context of a provider call: deadline, trace parent and ids of the request.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// Deadline of the run as a whole.
    pub deadline: Option<Instant>,
    /// `traceparent` to send upstream.
    pub traceparent: Option<String>,
    /// Sent as `x-request-id`.
    pub request_id: String,
    /// Id of the response, for the log.
    pub response_id: Option<Id>,
}

/// Configured properties of a provider.
#[derive(Debug, Clone, Default)]
pub struct ProviderInfo {
    /// Context window in tokens, by the provider's model names.
    pub context_window: ContextWindow,
    /// Prices, by the provider's model names.
    pub prices: BTreeMap<String, ModelPrice>,
    /// Request fields outside the API that are forwarded unchanged.
    pub passthrough: Vec<String>,
    /// Host and port, for traces.
    pub address: Option<(String, u16)>,
}

/// A model in `GET /v1/models`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The provider's model name.
    pub id: String,
    /// Unix seconds; 0 if the provider does not report it.
    pub created: i64,
    /// As the provider reports it.
    pub owned_by: String,
}

/// A proxied response; its body is unparsed, except for errors, whose secrets are masked.
pub struct ProxiedResponse {
    /// The provider's status.
    pub status: u16,
    /// The provider's content type.
    pub content_type: String,
    /// The provider's `Retry-After`, verbatim.
    pub retry_after: Option<String>,
    /// The body, streamed.
    pub body: reqwest::Body,
}
