//! The client: connections over each transport, behind [`Connector`].
//!
//! The SDK does the protocol: it shakes hands, numbers requests, keeps sessions, takes streams up again. What it
//! sends and hears goes through ours: `http` is the guard and the credentials, `streamable`, `legacy` and `stdio`
//! are the transports, `wire` reads the bytes, and `calls` has the answers, which never become values of the SDK's.
//! `session` is a connection as the gateway sees it; `rpc` is one that needs no SDK.

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
mod rate;
mod results;
mod rpc;
mod sdk_connection;
mod stdio;
mod stream;
mod streamable;
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

use super::connection::{Connection, Connector, Endpoint, HttpKind, ServerAddress, StdioCommand};
use super::credentials::Credentials;
use super::error::{FailureReason, McpError, TimeoutKind};
use super::sampler::Sampler;
use crate::config::Elicitation;
pub(crate) use launcher::become_program;

use handler::Handler;
use http::HttpEndpoint;
use legacy::SseTransport;
use message_router::MessageRouter;
use process::Process;
use rpc::JsonRpcConnection;
use sdk_connection::{SdkConnection, SdkService};
use stdio::StdioTransport;

/// Servers of which it is remembered how they are spoken to.
const MAX_KNOWN_SERVERS: u64 = 1024;
/// For how long.
const KNOWN_SERVER_TTL: Duration = Duration::from_hours(1);

/// What holds for all connections.
#[derive(Clone)]
pub struct ClientOptions {
    /// Bytes of one message of a server.
    pub max_message_bytes: usize,
    /// How long a connection with its handshake may take.
    pub connect_timeout: Duration,
    /// What servers are told that ask the user for something.
    pub elicitation: Elicitation,
    /// What servers may use the model through whose endpoint says that they may; `None`: none may.
    pub sampler: Option<Arc<dyn Sampler>>,
}

/// Connects to servers.
pub struct Client(Arc<Shared>);

/// What connections under way share.
struct Shared {
    options: ClientOptions,
    /// How servers that are found out about are spoken to, by their URLs.
    known_modes: moka::sync::Cache<String, ProtocolMode>,
}

/// How a server at a URL turned out to be spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProtocolMode {
    /// Streamable HTTP, with a handshake.
    Handshake,
    /// Streamable HTTP, without.
    Discovery,
    /// HTTP with SSE.
    Sse,
}

type ConnectResult = Result<Arc<dyn Connection>, McpError>;

impl Client {
    /// A client that knows no server yet.
    pub fn new(options: ClientOptions) -> Self {
        let memo = moka::sync::Cache::builder()
            .max_capacity(MAX_KNOWN_SERVERS)
            .time_to_live(KNOWN_SERVER_TTL)
            .build();
        Self(Arc::new(Shared { options, known_modes: memo }))
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

    fn handler(&self, wire: &Arc<MessageRouter>, endpoint: &Endpoint) -> Handler {
        let ClientOptions { elicitation, sampler, .. } = &self.options;
        let sampler = sampler.clone().filter(|_| endpoint.may_sample);
        Handler { router: Arc::clone(wire), elicitation: *elicitation, sampler }
    }

    fn router(&self, endpoint: &Endpoint) -> Arc<MessageRouter> {
        let may_sample = endpoint.may_sample && self.options.sampler.is_some();
        MessageRouter::new(endpoint, self.options.max_message_bytes, may_sample)
    }

    /// Shakes hands the way that most servers know. Only one that refuses is asked the new way: the other way round,
    /// as the SDK would have it, every old server costs a request that it does not know, and one that does not answer
    /// what it does not know costs ten seconds.
    async fn over_stdio(&self, endpoint: &Endpoint, command: &StdioCommand) -> ConnectResult {
        let start = || -> Result<_, McpError> {
            let wire = self.router(endpoint);
            let process = Process::start(command, Arc::clone(&endpoint.name))?;
            Ok((StdioTransport::new(process, Arc::clone(&wire)), wire))
        };
        let (transport, wire) = start()?;
        let error = match initialize(transport, &wire, self.handler(&wire, endpoint), ProtocolMode::Handshake)
            .await
        {
            Ok(service) => return Ok(SdkConnection::new(service, wire, "stdio")),
            Err(error) => error,
        };
        if !refuses_handshakes(&error) {
            return Err(error);
        }
        let (transport, wire) = start()?;
        let service =
            initialize(transport, &wire, self.handler(&wire, endpoint), ProtocolMode::Discovery).await;
        Ok(SdkConnection::new(service.map_err(|_| error)?, wire, "stdio"))
    }

    async fn over_http(&self, endpoint: &Endpoint, http: Arc<HttpEndpoint>, kind: HttpKind) -> ConnectResult {
        match kind {
            HttpKind::JsonRpc => return Ok(JsonRpcConnection::new(http)),
            HttpKind::Sse => return self.connect_over(endpoint, http, ProtocolMode::Sse).await,
            HttpKind::Streamable | HttpKind::Auto => {}
        }
        let place = http.url.to_string();
        let known = self
            .known_modes
            .get(&place)
            .filter(|known| kind == HttpKind::Auto || *known != ProtocolMode::Sse);
        let first = known.unwrap_or(ProtocolMode::Handshake);
        let error = match self.connect_over(endpoint, Arc::clone(&http), first).await {
            Ok(connection) => {
                self.known_modes.insert(place, first);
                return Ok(connection);
            }
            Err(error) => error,
        };
        self.known_modes.invalidate(&place);
        for next in fallbacks(first, kind, &error) {
            match self.connect_over(endpoint, Arc::clone(&http), *next).await {
                Ok(connection) => {
                    self.known_modes.insert(place, *next);
                    return Ok(connection);
                }
                Err(refused) if is_conclusive(&refused) => return Err(refused),
                Err(_) => {}
            }
        }
        // What the first way came to says most, unless another came further: it is the one that was expected to work.
        Err(error)
    }

    async fn connect_over(
        &self,
        endpoint: &Endpoint,
        http: Arc<HttpEndpoint>,
        how: ProtocolMode,
    ) -> ConnectResult {
        let wire = self.router(endpoint);
        let handler = self.handler(&wire, endpoint);
        if how == ProtocolMode::Sse {
            let transport = SseTransport::open(http, Arc::clone(&wire)).await?;
            let service = initialize(transport, &wire, handler, ProtocolMode::Handshake).await?;
            return Ok(SdkConnection::new(service, wire, "sse"));
        }
        let transport = streamable::transport(http, Arc::clone(&wire));
        let service = initialize(transport, &wire, handler, how).await?;
        Ok(SdkConnection::new(service, wire, "streamable_http"))
    }
}

#[async_trait]
impl Connector for Client {
    async fn connect(&self, endpoint: &Endpoint, credentials: Arc<dyn Credentials>) -> ConnectResult {
        let (shared, endpoint) = (Arc::clone(&self.0), endpoint.clone());
        // The SDK's tasks hold on to the span that they are born in. In a task of its own a connection has none;
        // otherwise the request that happened to make it would not be over before the connection is.
        let mut task = JoinSet::new();
        task.spawn(async move { shared.connect(&endpoint, credentials).await });
        let after = self.0.options.connect_timeout;
        match tokio::time::timeout(after, task.join_next()).await {
            Ok(Some(Ok(connected))) => connected,
            Ok(_) => Err(McpError::Connect("the attempt failed".into())),
            Err(_) => {
                let late = McpError::Timeout { after, limit: TimeoutKind::List };
                Err(McpError::Connect(FailureReason::new(
                    format!("no handshake within {after:?}"),
                    late.cause(),
                )))
            }
        }
    }
}

async fn initialize<T>(
    transport: T,
    wire: &MessageRouter,
    handler: Handler,
    how: ProtocolMode,
) -> Result<SdkService, McpError>
where
    T: Transport<RoleClient> + 'static,
{
    let lifecycle = match how {
        ProtocolMode::Discovery => {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
        }
        ProtocolMode::Handshake | ProtocolMode::Sse => ClientLifecycleMode::Initialize,
    };
    tokio::select! {
        biased;
        served = serve_client_with_lifecycle(handler, transport, lifecycle) => {
            served.map_err(|error| failure::from_handshake_error(error, wire))
        }
        () = wire.closed.cancelled() => Err(failure::closed_in_handshake(wire)),
    }
}

/// What else may work where one way did not.
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

/// Whether a server understood the handshake and would not have it.
fn refuses_handshakes(error: &McpError) -> bool {
    matches!(error, McpError::Protocol { .. })
}

/// Whether a server knows this way, and would not have the caller or the handshake.
fn is_conclusive(error: &McpError) -> bool {
    matches!(
        error,
        McpError::Unauthorized { .. }
            | McpError::InsufficientScope { .. }
            | McpError::UnknownVersion(_)
            | McpError::Http { status: 403, .. }
    )
}

/// Whether a server may no longer be what it is remembered as.
fn may_have_changed(error: &McpError) -> bool {
    match error {
        McpError::Http { status, .. } => (400..500).contains(status) && !matches!(status, 403 | 429),
        McpError::Protocol { .. } | McpError::Connect(_) | McpError::Malformed(_) => true,
        _ => false,
    }
}

/// Whether a server may be one that only knows HTTP with SSE.
fn may_be_sse_only(error: &McpError) -> bool {
    matches!(error, McpError::Http { status: 400 | 404 | 405 | 406 | 415, .. })
}
