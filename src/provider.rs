//! The model servers behind the gateway.
//!
//! [`Provider`] is what the engine sees of them. Floor 3: knows the protocol and the neutral turn, not
//! the engine.

pub(crate) mod chat;
mod errors;
mod http;
mod lenient;
mod masking;
pub(crate) mod models;
mod retry;
pub(crate) mod routing;
mod upstream_error;

use std::collections::BTreeMap;
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;

use crate::config::{ContextWindow, ModelPrice};
use crate::protocol::id::Id;
use crate::response::turn::{ModelEvent, ModelRequest};

pub(crate) use errors::{ProviderError, ProviderErrorKind, TransportCause};

/// A server that answers inferences.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Its key under `providers` in the configuration; a metric label and the seal's associated data.
    fn name(&self) -> &str;

    /// What the engine must know of it before it asks.
    fn info(&self) -> &ProviderInfo;

    /// One inference. Nothing is sent before its answer is asked for.
    fn infer(
        &self,
        request: &ModelRequest,
        call: &CallContext,
    ) -> Result<Box<dyn ModelStream>, ProviderError>;

    /// The models that it serves.
    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError>;

    /// Hands a request body through to `path` (such as `/chat/completions`) and the answer back, unread.
    async fn pass_through(
        &self,
        path: &str,
        body: Bytes,
        call: &CallContext,
    ) -> Result<ProxiedResponse, ProviderError>;
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
    /// The response that is made, for the log.
    pub response_id: Option<Id>,
}

/// What a provider can take, by configuration.
#[derive(Debug, Clone, Default)]
pub struct ProviderInfo {
    /// Tokens that fit into its models, by the provider's names of them.
    pub context_window: ContextWindow,
    /// Prices, by the provider's names of models.
    pub prices: BTreeMap<String, ModelPrice>,
    /// Names of request fields outside the API that are sent on as they are.
    pub passthrough: Vec<String>,
    /// Where it is, for traces: host and port.
    pub address: Option<(String, u16)>,
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

/// An answer that is handed on unread, but for the body of an error.
pub struct ProxiedResponse {
    /// The provider's status.
    pub status: u16,
    /// The provider's content type.
    pub content_type: String,
    /// The provider's `Retry-After`, word for word.
    pub retry_after: Option<String>,
    /// The body as it comes in.
    pub body: reqwest::Body,
}
