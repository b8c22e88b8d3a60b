//! What all requests of one configuration generation share, by what it is for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use super::readiness::{ReadinessCache, ShutdownFlag};
use super::route_table::PassThroughRoutes;
use super::shared_bodies::SharedBodies;
use super::ui_files::UiFiles;
use crate::auth::Authenticator;
use antwort_config::settings::AgentSettings;
use antwort_config::settings::WebSocketSettings;
use antwort_config::{ReadyRequirement, UnservedTools};
use antwort_engine::Engine;
use antwort_limits::Admission;
use antwort_mcp::McpServers;
use antwort_protocol::dialect::Dialect;
use antwort_protocol::request::RequestSizeLimits;
use antwort_provider::models::ModelCatalog;
use antwort_provider::routing::ProviderRouter;
use antwort_store::Store;
use antwort_telemetry::metrics::Metrics;
use antwort_tools::ToolRegistry;

/// The shared state of a server, as handlers extract it.
#[derive(Clone)]
pub(crate) struct AppState(Arc<SharedState>);

/// What all requests of one configuration generation share.
pub(crate) struct SharedState {
    /// Runs responses.
    pub engine: Arc<Engine>,
    /// What routes use without a run.
    pub services: Services,
    /// Who may send requests, and from where.
    pub access: AccessRules,
    /// How requests are read and answered.
    pub requests: RequestSettings,
    /// Whether the API is served beside probes and metrics.
    pub serves_api: bool,
    /// The files of the web page, if it is served.
    pub ui: Option<UiFiles>,
    /// What `/readyz` reports.
    pub readiness: ReadinessState,
    pub metrics: Arc<Metrics>,
    /// Stored responses that are being sent.
    pub shared_bodies: SharedBodies,
}

/// What routes use without a run.
pub(crate) struct Services {
    /// Stored responses.
    pub store: Arc<dyn Store>,
    /// The semaphores of admission control.
    pub admission: Arc<Admission>,
    /// Routes models to providers.
    pub router: Arc<ProviderRouter>,
    /// The providers' models, cached.
    pub catalog: Arc<ModelCatalog>,
    /// The registry of server-side tools.
    pub toolbox: Arc<ToolRegistry>,
    /// The MCP servers.
    pub mcp: Arc<McpServers>,
    /// Agent profiles by name.
    pub agents: Arc<BTreeMap<String, AgentSettings>>,
}

/// Who may send requests, and from where.
pub(crate) struct AccessRules {
    /// API keys and their scopes.
    pub auth: Arc<Authenticator>,
    /// The routes that are passed through to providers.
    pub pass_through: PassThroughRoutes,
    /// Allowed CORS origins.
    pub cors_origins: Vec<String>,
    /// Host names under which a gateway without API keys may be called.
    pub allowed_hosts: Vec<String>,
    /// Proxies whose `Forwarded` and `X-Forwarded-*` headers are trusted.
    pub trusted_proxies: Vec<IpNet>,
}

/// How requests are read and answered.
pub(crate) struct RequestSettings {
    /// Default dialect of responses; a key or a request may override it.
    pub dialect: Dialect,
    /// Interval of SSE keepalive comments while no event is sent.
    pub keepalive: Duration,
    /// Maximum size of a request body in bytes, compressed and decompressed.
    pub body_limit: usize,
    /// Idle timeout between two chunks of a request body.
    pub body_idle_timeout: Duration,
    /// Limits on lists, schemas and instructions of a request.
    pub limits: RequestSizeLimits,
    /// Connections over WebSocket.
    pub websocket: WebSocketSettings,
    /// Whether clients are detected by their headers.
    pub client_profiles: bool,
    /// What to do with hosted tools that the gateway does not serve.
    pub unserved_tools: UnservedTools,
}

/// What `/readyz` reports.
pub(crate) struct ReadinessState {
    /// Checks that it requires.
    pub requires: Vec<ReadyRequirement>,
    /// The last results of the checks.
    pub cache: ReadinessCache,
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
