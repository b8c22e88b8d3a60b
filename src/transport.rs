//! HTTP: routes, who may use them, bodies in and out. Knows the engine; decides nothing about responses.

pub(crate) mod client_profile;
pub(crate) mod openapi;
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

/// What handlers work with.
#[derive(Clone)]
pub(crate) struct AppState(Arc<SharedState>);

/// What all requests share.
pub(crate) struct SharedState {
    /// Makes responses.
    pub engine: Arc<Engine>,
    /// Knows callers.
    pub auth: Authenticator,
    /// Knows models.
    pub catalog: Arc<ModelCatalog>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Names on the wire, unless key or request say otherwise.
    pub dialect: Dialect,
    /// A comment is sent after this long without an event.
    pub keepalive: Duration,
    /// Bytes of a request body, as sent and decompressed.
    pub body_limit: usize,
    /// How long a request body may pause.
    pub body_idle_timeout: Duration,
    /// What a request may hold.
    pub request_limits: RequestSizeLimits,
    /// Origins of web pages that may call.
    pub cors_origins: Vec<String>,
    /// Names that a gateway without keys is served under.
    pub allowed_hosts: Vec<String>,
    /// Proxies that are believed what they say of a request's client and host.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether clients are recognised by their headers.
    pub client_profiles: bool,
    /// Tools of the API that are not served.
    pub unserved_tools: UnservedTools,
    /// What readiness takes.
    pub ready_requires: Vec<ReadyRequirement>,
    /// What readiness probes were told last.
    pub readiness: ReadinessCache,
    /// Whether the process was told to stop.
    pub stopping: ShutdownFlag,
}

impl AppState {
    /// The state of a server.
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
