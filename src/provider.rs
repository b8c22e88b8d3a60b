//! The model servers behind the gateway.
//!
//! [`Provider`] is what the engine sees of them. Floor 3: knows the protocol and the neutral turn, not
//! the engine.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;

use crate::protocol::error::ApiError;
use crate::response::turn::{ModelEvent, ModelRequest};

/// A server that answers inferences.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Its key under `providers` in the configuration; a metric label and the seal's associated data.
    fn name(&self) -> &str;

    /// What the engine must know of it before it asks.
    fn profile(&self) -> &Profile;

    /// Starts one inference. Returns when the provider has accepted it (status 2xx and headers are in).
    async fn infer(&self, request: &ModelRequest, call: &CallContext) -> Result<Box<dyn ModelStream>, ProviderError>;

    /// The models that it serves.
    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError>;

    /// Hands a request body through to `path` (such as `/chat/completions`) and the answer back, unread.
    async fn pass_through(&self, path: &str, body: Bytes, call: &CallContext) -> Result<Passed, ProviderError>;
}

/// An answer while it comes in. Dropping it ends the upstream request.
#[async_trait]
pub trait ModelStream: Send {
    /// Waits for more and appends all of it that has arrived.
    ///
    /// `Ok(true)`: more may come. `Ok(false)`: the answer ended properly, nothing more will come.
    /// On an error, what was appended before it is good.
    async fn next(&mut self, events: &mut Vec<ModelEvent>) -> Result<bool, ProviderError>;
}

/// What a call takes along from the run that makes it.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// When the run as a whole must be over.
    pub deadline: Option<Instant>,
    /// `traceparent` to send, so that the provider's spans join ours.
    pub traceparent: Option<String>,
    /// Sent as `x-request-id`.
    pub request_id: String,
}

/// What a provider can take, by configuration.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Tokens that fit into the model's context, where it is known.
    pub context_window: Option<u64>,
    /// Names of request fields outside the API that are sent on as they are.
    pub passthrough: Vec<String>,
}

/// A model in `GET /v1/models`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The provider's name for it.
    pub id: String,
    /// Unix seconds; 0 where the provider does not say.
    pub created: i64,
    /// As the provider says.
    pub owned_by: String,
}

/// An answer that is handed on unread.
pub struct Passed {
    /// The provider's status.
    pub status: u16,
    /// The provider's content type.
    pub content_type: String,
    /// The provider's `Retry-After`, word for word.
    pub retry_after: Option<String>,
    /// The body as it comes in.
    pub body: reqwest::Body,
}

/// Why a provider did not answer, or not to the end.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{kind:?}: {message}")]
pub struct ProviderError {
    /// What happened.
    pub kind: Failure,
    /// In words fit for the client: no URL, no header, no key.
    pub message: String,
    /// What the provider asked for by `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The provider's own `error.code` or `error.type`, where it gave one as a string.
    pub code: Option<String>,
}

/// What happened to an upstream call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No connection within the connect timeout, or none at all.
    Connect,
    /// No response headers, or no first byte of the body, in time.
    FirstByteTimeout,
    /// A gap between two chunks was too long.
    IdleTimeout,
    /// The call as a whole took too long.
    TotalTimeout,
    /// The provider answered with this status, 400 to 599.
    Status(u16),
    /// The prompt does not fit into the model's context.
    ContextLength,
    /// The provider said within a 200 answer that it failed.
    Reported,
    /// The connection ended before the answer did.
    Cut,
    /// The answer is not what the protocol allows.
    Malformed,
}

impl ProviderError {
    /// A failure without particulars.
    pub fn new(kind: Failure, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, code: None }
    }
}

/// What the client is told when nothing was sent to it yet.
impl From<ProviderError> for ApiError {
    fn from(_error: ProviderError) -> Self {
        Self::internal()
    }
}
