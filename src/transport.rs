//! The HTTP layer: routes, authorization, request and response bodies. Calls the engine; decides nothing about responses.

pub(crate) mod client_profile;
pub(crate) mod openapi;
pub(crate) mod route_table;
pub(crate) mod routes;

mod access;
mod agents;
mod authority;
mod body;
mod body_reader;
mod compact;
mod drain;
mod error;
mod forwarded;
mod health;
mod mcp;
mod models;
mod origin;
mod pass_through;
mod query;
mod request_context;
mod response_budget;
mod responses;
mod sse;
pub(crate) mod startup;
mod stored;
pub(crate) mod tool_result;
mod tools;
mod upgrade;

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use crate::auth::Authenticator;
use crate::config::{ReadyRequirement, UnservedTools};
use crate::engine::Engine;
use crate::protocol::dialect::Dialect;
use crate::protocol::request::RequestSizeLimits;
use crate::provider::models::ModelCatalog;
use crate::telemetry::metrics::Metrics;

pub(crate) use forwarded::PeerAddress;
pub(crate) use health::{ReadinessCache, ShutdownFlag, is_ready};
pub(crate) use request_context::begin_log;

/// The shared state of a server, as handlers extract it.
#[derive(Clone)]
pub(crate) struct AppState(Arc<SharedState>);

/// What all requests of one configuration generation share.
pub(crate) struct SharedState {
    /// Runs responses.
    pub engine: Arc<Engine>,
    /// API keys and their scopes.
    pub auth: Authenticator,
    /// The providers' models, cached.
    pub catalog: Arc<ModelCatalog>,
    pub metrics: Arc<Metrics>,
    /// Default dialect of responses; a key or a request may override it.
    pub dialect: Dialect,
    /// Interval of SSE keepalive comments while no event is sent.
    pub keepalive: Duration,
    /// Maximum size of a request body in bytes, compressed and decompressed.
    pub body_limit: usize,
    /// Idle timeout between two chunks of a request body.
    pub body_idle_timeout: Duration,
    /// Limits on lists, schemas and instructions of a request.
    pub request_limits: RequestSizeLimits,
    /// Allowed CORS origins.
    pub cors_origins: Vec<String>,
    /// Host names under which a gateway without API keys may be called.
    pub allowed_hosts: Vec<String>,
    /// Proxies whose `Forwarded` and `X-Forwarded-*` headers are trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether clients are detected by their headers.
    pub client_profiles: bool,
    /// What to do with hosted tools that the gateway does not serve.
    pub unserved_tools: UnservedTools,
    /// Checks that `/readyz` requires.
    pub ready_requires: Vec<ReadyRequirement>,
    /// The last results of readiness checks.
    pub readiness: ReadinessCache,
    /// Set once shutdown was requested.
    pub stopping: ShutdownFlag,
}

impl AppState {
    /// Shares the state among all clones.
    pub(crate) fn new(shared: SharedState) -> Self {
        Self(Arc::new(shared))
    }
}

impl std::ops::Deref for AppState {
    type Target = SharedState;

    fn deref(&self) -> &SharedState {
        &self.0
    }
}
