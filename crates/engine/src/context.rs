//! What every part of the engine may use: the services that it is made of, its settings, and who asks for a run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tokio_util::sync::DropGuard;

use super::chain::Chain;
use super::connection_history::ConnectionHistory;
use super::in_flight::InFlight;
use super::webhooks::Webhooks;
use antwort_config::settings::{AgentSettings, EngineSettings, ToolsSettings, UnknownFields, UnservedTools};
use antwort_config::{JobSettings, StorePolicy};
use antwort_identity::{Callers, Owner, Requester};
use antwort_limits::Admission;
use antwort_mcp::McpServers;
use antwort_protocol::dialect::Dialect;
use antwort_protocol::request::ClientActionStatus;
use antwort_provider::routing::ProviderRouter;
use antwort_response::seal::SealKeys;
use antwort_store::Store;
use antwort_telemetry::metrics::Metrics;
use antwort_telemetry::request_log::RequestLog;
use antwort_tools::ToolRegistry;

/// What an engine is made of.
pub struct EngineParts {
    /// Routes models to providers.
    pub router: Arc<ProviderRouter>,
    /// The store of responses.
    pub store: Arc<dyn Store>,
    /// Seals provider state that clients or the store keep.
    pub seal: Arc<SealKeys>,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
    /// The tools that the gateway runs itself.
    pub toolbox: Arc<ToolRegistry>,
    /// The MCP servers of the configuration, and those that requests name.
    pub mcp: Arc<McpServers>,
    /// Dropped with the last engine that uses these tools, which tells `app` to close their sessions.
    pub tools_in_use: Arc<DropGuard>,
    /// Authenticates callers: those on whose behalf something is asked must still be known.
    pub callers: Arc<dyn Callers>,
    /// Agent profiles by name.
    pub agents: Arc<BTreeMap<String, AgentSettings>>,
    /// Semaphores for runs, memory and blocking work.
    pub admission: Arc<Admission>,
    /// The requests in flight of all engines of the process, which a shutdown waits for.
    pub in_flight: Arc<InFlight>,
    /// The settings of the engine.
    pub options: EngineOptions,
}

/// The settings that the engine uses.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The settings of the engine.
    pub engine: EngineSettings,
    /// The settings of background runs.
    pub jobs: JobSettings,
    /// The settings of tools.
    pub tools: Arc<ToolsSettings>,
    /// What happens to request fields that are not known.
    pub unknown_fields: UnknownFields,
    /// `sse.commit_after`: a stream is answered with status 200 after this time, even if the provider has sent
    /// nothing.
    pub commit_after: Duration,
    /// Who is told of the end of responses.
    pub webhooks: Arc<Webhooks>,
    /// `server.write_timeout`: how long a client may read nothing.
    pub write_timeout: Duration,
    /// `server.public_url`, for callbacks.
    pub public_url: Option<Arc<str>>,
}

/// Who asks for a response, and in which form it is answered.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// The tenant and principal that will own the response.
    pub owner: Owner,
    /// The name of the caller's API key; runs are admitted by fair shares of tenants and keys.
    pub key: Arc<str>,
    /// SHA-256 of the key; `None`: no key was asked for.
    pub key_hash: Option<[u8; 32]>,
    /// Names of fields and events on the wire.
    pub dialect: Dialect,
    /// The status of a response that waits for the client's functions, where the key or the client decides it.
    pub client_action_status: Option<ClientActionStatus>,
    /// Whether the response may be stored.
    pub store: StorePolicy,
    /// Names the request in our logs and in the provider's.
    pub request_id: String,
    /// The access log entry of an HTTP request, to which the run adds its figures.
    pub log: Option<Arc<RequestLog>>,
    /// The caller's trace, continued upstream.
    pub traceparent: Option<String>,
    /// What happens to tools of the API that the gateway does not serve.
    pub unserved_tools: OnUnservedTool,
    /// Whether fields inside tools and options that have no effect here are listed, whatever the configuration says.
    pub lists_unserved_fields: bool,
    /// Who reads the events.
    pub events: EventReader,
    /// After which silence the reader needs an event, if it does not count comments.
    pub keepalive: Option<Duration>,
    /// The caller's own credentials, for MCP servers that are configured to be given them.
    pub authorization: Option<SecretString>,
    /// What the caller's connection keeps of responses that are not stored.
    pub connection: Option<Arc<ConnectionHistory>>,
    /// Of a response that follows the result of a tool: what was made before it for the same request.
    pub chain: Option<Arc<Chain>>,
    /// Whether the model is asked. If not, the response is completed without output, and can be continued.
    pub generates: bool,
}

impl RunContext {
    /// The tenant and key whose share the run takes.
    pub(super) fn requester(&self) -> Requester {
        Requester::new(&self.owner.tenant, &self.key)
    }
}

/// Who reads the events of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventReader {
    /// A client of the API, as server-sent events.
    Client,
    /// A client of the API, as WebSocket messages.
    WebSocket,
    /// A part of this process.
    Process,
    /// A part of this process that follows the run also if the request asks for no stream.
    Watcher,
}

/// What happens to a tool of the API that the gateway does not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnservedTool {
    /// The request is refused.
    Refuse,
    /// The tool is left out, and a header names it.
    Omit,
    /// The tool is left out if the request offers others, and refused if nothing would be left.
    OmitBesideOthers,
}

impl OnUnservedTool {
    /// The configured behaviour; `client` is that of a client that is known to need one of its own.
    pub fn from_setting(setting: UnservedTools, client: Option<Self>) -> Self {
        match setting {
            UnservedTools::Auto => client.unwrap_or(Self::OmitBesideOthers),
            UnservedTools::Refuse => Self::Refuse,
            UnservedTools::Omit => Self::Omit,
        }
    }
}

/// Unix seconds now.
pub(super) fn unix_now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Unix seconds when this time from now is over, rounded down.
pub(super) fn unix_after(time: Duration) -> i64 {
    unix_now().saturating_add(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}
