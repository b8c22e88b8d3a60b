//! The MCP client: connections over each transport, behind [`Connector`].
//!
//! The SDK owns the protocol: initialization, request ids, sessions, stream resumption. Its traffic passes through our
//! code: `http` adds egress checks and credentials; `streamable`, `legacy` and `stdio` are the transports;
//! `message_router` parses messages; `pending` holds the responses, which never become values of the SDK.
//! `sdk_connection` implements [`Connection`] on top of that; `rpc` implements it without the SDK.

mod elicitation;
mod failure;
mod handler;
mod http;
mod launcher;
mod legacy;
mod lines;
mod listing;
mod log;
mod message_router;
mod notices;
mod pending;
mod process;
mod protocol_error;
mod rate;
mod results;
mod rpc;
mod sdk_connection;
mod stderr_tail;
mod stdio;
mod stream;
mod streamable;
mod task_report;
mod tasks;
#[cfg(test)]
mod tests;
mod unsolicited;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientLifecycleMode, serve_client_with_lifecycle};
use rmcp::transport::Transport;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::connection::{Connection, Connector, Endpoint, HttpKind, ServerAddress, StdioCommand};
use super::credentials::Credentials;
use super::error::{FailureReason, McpError, START_TIMEOUT, TimeoutKind};
use super::sampler::Sampler;
use antwort_config::ElicitationPolicy;
use antwort_limits::run_in_place;
use antwort_net::FailureCause;
pub use launcher::exec_program;

use handler::Handler;
use http::HttpEndpoint;
use legacy::SseTransport;
use message_router::MessageRouter;
use process::{Process, ProgramAccount};
use rpc::JsonRpcConnection;
use sdk_connection::{SdkConnection, SdkService};
use stdio::StdioTransport;

/// Maximum number of servers whose protocol mode is cached.
const MAX_KNOWN_SERVERS: u64 = 1024;
/// How long the protocol mode of a server is cached.
const KNOWN_SERVER_TTL: Duration = Duration::from_hours(1);

/// Options of all connections.
#[derive(Clone)]
pub struct ClientOptions {
    /// Maximum bytes of one message from a server.
    pub max_message_bytes: usize,
    /// Timeout of connecting, including initialization.
    pub connect_timeout: Duration,
    /// How elicitation requests of servers are answered.
    pub elicitation: ElicitationPolicy,
    /// Serves sampling requests of servers whose endpoint permits them; `None`: no server may sample.
    pub sampler: Option<Arc<dyn Sampler>>,
}

/// Connects to MCP servers.
pub struct Client(Arc<Shared>);

/// State shared by connection attempts.
struct Shared {
    options: ClientOptions,
    /// Detected protocol modes by URL.
    known_modes: moka::sync::Cache<String, ProtocolMode>,
}

/// The detected protocol mode of a server at a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProtocolMode {
    /// Streamable HTTP with `initialize`.
    Handshake,
    /// Streamable HTTP with discovery instead of `initialize` (MCP 2026-07-28).
    Discovery,
    /// HTTP with SSE.
    Sse,
}

type ConnectResult = Result<Arc<dyn Connection>, McpError>;

impl Client {
    /// A client with an empty cache.
    pub fn new(options: ClientOptions) -> Self {
        let known_modes = moka::sync::Cache::builder()
            .max_capacity(MAX_KNOWN_SERVERS)
            .time_to_live(KNOWN_SERVER_TTL)
            .build();
        Self(Arc::new(Shared { options, known_modes }))
    }
}

impl Shared {
    async fn connect(&self, endpoint: &Endpoint, credentials: Arc<dyn Credentials>) -> ConnectResult {
        match &endpoint.address {
            ServerAddress::Stdio(command) => self.over_stdio(endpoint, command).await,
            ServerAddress::Http { url, kind, egress } => {
                egress.check(url)?;
                let limit = self.options.max_message_bytes;
                let http = HttpEndpoint::new(url.clone(), limit, Arc::clone(egress), credentials);
                self.over_http(endpoint, http, *kind).await
            }
        }
    }

    fn handler(&self, router: &Arc<MessageRouter>, endpoint: &Endpoint) -> Handler {
        let ClientOptions { elicitation, sampler, .. } = &self.options;
        let sampler = sampler.clone().filter(|_| endpoint.may_sample);
        let (elicitation, shows) = (*elicitation, endpoint.shows);
        Handler { router: Arc::clone(router), elicitation, shows, sampler }
    }

    fn router(&self, endpoint: &Endpoint) -> Arc<MessageRouter> {
        let may_sample = endpoint.may_sample && self.options.sampler.is_some();
        MessageRouter::new(endpoint, self.options.max_message_bytes, may_sample)
    }

    /// Tries `initialize` first, which most servers know, and discovery only if that is refused. The SDK's default order
    /// would cost an unknown request with every older server, and ten seconds with those that do not answer it.
    async fn over_stdio(&self, endpoint: &Endpoint, command: &StdioCommand) -> ConnectResult {
        let deadline = Instant::now() + command.start_timeout;
        match self.start(endpoint, command, ProtocolMode::Handshake, deadline).await {
            Err(error) if refuses_handshakes(&error) => {
                self.start(endpoint, command, ProtocolMode::Discovery, deadline).await.map_err(|_| error)
            }
            done => done,
        }
    }

    /// Starts a program and initializes the session with it.
    async fn start(
        &self,
        endpoint: &Endpoint,
        command: &StdioCommand,
        mode: ProtocolMode,
        deadline: Instant,
    ) -> ConnectResult {
        let router = self.router(endpoint);
        // It looks for the program, and waits until the thread that starts programs has entered its folder.
        let process = run_in_place(|| Process::start(command, Arc::clone(&endpoint.name)))?;
        let transport = StdioTransport::new(process, Arc::clone(&router));
        let account = transport.account();
        let service = initialize(transport, &router, self.handler(&router, endpoint), mode);
        match tokio::time::timeout_at(deadline, service).await {
            Ok(service) => Ok(SdkConnection::new(service?, router, "stdio")),
            Err(_) => Err(started_late(command.start_timeout, &account)),
        }
    }

    async fn over_http(&self, endpoint: &Endpoint, http: Arc<HttpEndpoint>, kind: HttpKind) -> ConnectResult {
        match kind {
            HttpKind::JsonRpc => return Ok(JsonRpcConnection::new(http)),
            HttpKind::Sse => return self.connect_over(endpoint, http, ProtocolMode::Sse).await,
            HttpKind::Streamable | HttpKind::Auto => {}
        }
        let key = http.url.to_string();
        let known =
            self.known_modes.get(&key).filter(|known| kind == HttpKind::Auto || *known != ProtocolMode::Sse);
        let first = known.unwrap_or(ProtocolMode::Handshake);
        let error = match self.connect_over(endpoint, Arc::clone(&http), first).await {
            Ok(connection) => {
                self.known_modes.insert(key, first);
                return Ok(connection);
            }
            Err(error) => error,
        };
        self.known_modes.invalidate(&key);
        for next in fallbacks(first, kind, &error) {
            match self.connect_over(endpoint, Arc::clone(&http), *next).await {
                Ok(connection) => {
                    self.known_modes.insert(key, *next);
                    return Ok(connection);
                }
                Err(refused) if is_conclusive(&refused) => return Err(refused),
                Err(_) => {}
            }
        }
        // The error of the preferred mode is the most useful one, unless another mode got further.
        Err(error)
    }

    async fn connect_over(
        &self,
        endpoint: &Endpoint,
        http: Arc<HttpEndpoint>,
        mode: ProtocolMode,
    ) -> ConnectResult {
        let router = self.router(endpoint);
        let handler = self.handler(&router, endpoint);
        if mode == ProtocolMode::Sse {
            let transport = SseTransport::open(http, Arc::clone(&router)).await?;
            let service = initialize(transport, &router, handler, ProtocolMode::Handshake).await?;
            return Ok(SdkConnection::new(service, router, "sse"));
        }
        let transport = streamable::transport(http, Arc::clone(&router));
        let service = initialize(transport, &router, handler, mode).await?;
        Ok(SdkConnection::new(service, router, "streamable_http"))
    }
}

/// The error for a program that was not ready in time.
fn started_late(after: Duration, account: &ProgramAccount) -> McpError {
    let setting = format!("mcp.servers.<name>.start_timeout, {} s", after.as_secs_f64());
    let cause = FailureCause::new(START_TIMEOUT, account.of(&setting));
    McpError::Connect(FailureReason::new(format!("the program was not ready after {after:.0?}"), cause))
}

#[async_trait]
impl Connector for Client {
    async fn connect(&self, endpoint: &Endpoint, credentials: Arc<dyn Credentials>) -> ConnectResult {
        let (waited, shared, endpoint) = (endpoint, Arc::clone(&self.0), endpoint.clone());
        // The SDK's tasks keep the current span open. A separate task has none; otherwise the span of the request that
        // happened to connect would stay open as long as the connection.
        let mut task = JoinSet::new();
        task.spawn(async move { shared.connect(&endpoint, credentials).await });
        let after = waited.connect_timeout(self.0.options.connect_timeout);
        match tokio::time::timeout(after, task.join_next()).await {
            Ok(Some(Ok(connected))) => connected,
            Ok(_) => Err(McpError::Connect("the connection attempt was aborted".into())),
            Err(_) => {
                let late = McpError::Timeout { after, limit: TimeoutKind::List };
                Err(McpError::Connect(FailureReason::new(
                    format!("initialization timed out after {after:?}"),
                    late.cause(),
                )))
            }
        }
    }
}

async fn initialize<T>(
    transport: T,
    router: &MessageRouter,
    handler: Handler,
    mode: ProtocolMode,
) -> Result<SdkService, McpError>
where
    T: Transport<RoleClient> + 'static,
{
    let lifecycle = match mode {
        ProtocolMode::Discovery => {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
        }
        ProtocolMode::Handshake | ProtocolMode::Sse => ClientLifecycleMode::Initialize,
    };
    tokio::select! {
        biased;
        served = serve_client_with_lifecycle(handler, transport, lifecycle) => {
            served.map_err(|error| failure::from_handshake_error(error, router))
        }
        () = router.closed.cancelled() => Err(failure::closed_in_handshake(router)),
    }
}

/// The modes to try after a failed one.
fn fallbacks(failed: ProtocolMode, kind: HttpKind, error: &McpError) -> &'static [ProtocolMode] {
    let auto = kind == HttpKind::Auto;
    match failed {
        ProtocolMode::Handshake if refuses_handshakes(error) => &[ProtocolMode::Discovery],
        ProtocolMode::Handshake if auto && may_be_sse_only(error) => &[ProtocolMode::Sse],
        ProtocolMode::Handshake => &[],
        ProtocolMode::Discovery if may_have_changed(error) => &[ProtocolMode::Handshake],
        ProtocolMode::Sse if may_have_changed(error) => &[ProtocolMode::Handshake, ProtocolMode::Discovery],
        ProtocolMode::Discovery | ProtocolMode::Sse => &[],
    }
}

/// Whether a server understood `initialize` and refused it.
fn refuses_handshakes(error: &McpError) -> bool {
    matches!(error, McpError::Protocol { .. })
}

/// Whether the server supports this mode but rejects the caller or the protocol version: other modes need not be
/// tried.
fn is_conclusive(error: &McpError) -> bool {
    matches!(
        error,
        McpError::Unauthorized { .. }
            | McpError::InsufficientScope { .. }
            | McpError::UnknownVersion(_)
            | McpError::Http { status: 403, .. }
    )
}

/// Whether the cached mode may be outdated.
fn may_have_changed(error: &McpError) -> bool {
    match error {
        McpError::Http { status, .. } => (400..500).contains(status) && !matches!(status, 403 | 429),
        McpError::Protocol { .. } | McpError::Connect(_) | McpError::Malformed(_) => true,
        _ => false,
    }
}

/// Whether the server may support only HTTP with SSE.
fn may_be_sse_only(error: &McpError) -> bool {
    matches!(error, McpError::Http { status: 400 | 404 | 405 | 406 | 415, .. })
}
