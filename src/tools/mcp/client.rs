//! The client: connections over each transport, behind [`Connector`].
//!
//! The SDK does the protocol: it shakes hands, numbers requests, keeps sessions, takes streams up again. What it
//! sends and hears goes through ours: `http` is the guard and the credentials, `streamable`, `legacy` and `stdio`
//! are the transports, `wire` reads the bytes, and `calls` has the answers, which never become values of the SDK's.
//! `session` is a connection as the gateway sees it; `rpc` is one that needs no SDK.

mod calls;
mod events;
mod failure;
mod handler;
mod http;
mod launcher;
mod legacy;
mod lines;
mod listing;
mod log;
mod notices;
mod process;
mod rate;
mod results;
mod rpc;
mod session;
mod stdio;
mod stream;
mod streamable;
#[cfg(test)]
mod tests;
mod unasked;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientLifecycleMode, serve_client_with_lifecycle};
use rmcp::transport::Transport;
use tokio::task::JoinSet;

use super::connection::{Connection, Connector, Endpoint, HttpKind, Place, StdioCommand};
use super::credentials::Credentials;
use super::error::{Deadline, McpError, Reason};
use super::sampler::Sampler;
use crate::config::Elicitation;
pub use launcher::become_program;

use handler::Handler;
use http::Http;
use legacy::Legacy;
use process::Process;
use rpc::Rpc;
use session::{Service, Session};
use stdio::Stdio;
use wire::Wire;

/// Servers of which it is remembered how they are spoken to.
const REMEMBERED: u64 = 1024;
/// For how long.
const REMEMBERED_FOR: Duration = Duration::from_hours(1);

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
    memo: moka::sync::Cache<String, Spoken>,
}

/// How a server at a URL turned out to be spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spoken {
    /// Streamable HTTP, with a handshake.
    Handshake,
    /// Streamable HTTP, without.
    Discovery,
    /// HTTP with SSE.
    Sse,
}

type Connected = Result<Arc<dyn Connection>, McpError>;

impl Client {
    /// A client that knows no server yet.
    pub fn new(options: ClientOptions) -> Self {
        let memo = moka::sync::Cache::builder().max_capacity(REMEMBERED).time_to_live(REMEMBERED_FOR).build();
        Self(Arc::new(Shared { options, memo }))
    }
}

impl Shared {
    async fn connect(&self, endpoint: &Endpoint, credentials: Arc<dyn Credentials>) -> Connected {
        match &endpoint.place {
            Place::Stdio(command) => self.over_stdio(endpoint, command).await,
            Place::Http { url, kind, egress } => {
                egress.check(url)?;
                let limit = self.options.max_message_bytes;
                let http = Http::new(url.clone(), limit, Arc::clone(egress), credentials);
                self.over_http(endpoint, http, *kind).await
            }
        }
    }

    fn handler(&self, wire: &Arc<Wire>, endpoint: &Endpoint) -> Handler {
        let ClientOptions { elicitation, sampler, .. } = &self.options;
        let sampler = sampler.clone().filter(|_| endpoint.may_sample);
        Handler { wire: Arc::clone(wire), elicitation: *elicitation, sampler }
    }

    fn wire(&self, endpoint: &Endpoint) -> Arc<Wire> {
        let may_sample = endpoint.may_sample && self.options.sampler.is_some();
        Wire::new(endpoint, self.options.max_message_bytes, may_sample)
    }

    /// Shakes hands the way that most servers know. Only one that refuses is asked the new way: the other way round,
    /// as the SDK would have it, every old server costs a request that it does not know, and one that does not answer
    /// what it does not know costs ten seconds.
    async fn over_stdio(&self, endpoint: &Endpoint, command: &StdioCommand) -> Connected {
        let start = || -> Result<_, McpError> {
            let wire = self.wire(endpoint);
            let process = Process::start(command, Arc::clone(&endpoint.name))?;
            Ok((Stdio::new(process, Arc::clone(&wire)), wire))
        };
        let (transport, wire) = start()?;
        let error =
            match shake_hands(transport, &wire, self.handler(&wire, endpoint), Spoken::Handshake).await {
                Ok(service) => return Ok(Session::new(service, wire, "stdio")),
                Err(error) => error,
            };
        if !refuses_handshakes(&error) {
            return Err(error);
        }
        let (transport, wire) = start()?;
        let service = shake_hands(transport, &wire, self.handler(&wire, endpoint), Spoken::Discovery).await;
        Ok(Session::new(service.map_err(|_| error)?, wire, "stdio"))
    }

    async fn over_http(&self, endpoint: &Endpoint, http: Arc<Http>, kind: HttpKind) -> Connected {
        match kind {
            HttpKind::JsonRpc => return Ok(Rpc::new(http)),
            HttpKind::Sse => return self.speak(endpoint, http, Spoken::Sse).await,
            HttpKind::Streamable | HttpKind::Auto => {}
        }
        let place = http.url.to_string();
        let known = self.memo.get(&place).filter(|known| kind == HttpKind::Auto || *known != Spoken::Sse);
        let first = known.unwrap_or(Spoken::Handshake);
        let error = match self.speak(endpoint, Arc::clone(&http), first).await {
            Ok(connection) => {
                self.memo.insert(place, first);
                return Ok(connection);
            }
            Err(error) => error,
        };
        self.memo.invalidate(&place);
        for next in others(first, kind, &error) {
            match self.speak(endpoint, Arc::clone(&http), *next).await {
                Ok(connection) => {
                    self.memo.insert(place, *next);
                    return Ok(connection);
                }
                Err(refused) if came_further(&refused) => return Err(refused),
                Err(_) => {}
            }
        }
        // What the first way came to says most, unless another came further: it is the one that was expected to work.
        Err(error)
    }

    async fn speak(&self, endpoint: &Endpoint, http: Arc<Http>, how: Spoken) -> Connected {
        let wire = self.wire(endpoint);
        let handler = self.handler(&wire, endpoint);
        if how == Spoken::Sse {
            let transport = Legacy::open(http, Arc::clone(&wire)).await?;
            let service = shake_hands(transport, &wire, handler, Spoken::Handshake).await?;
            return Ok(Session::new(service, wire, "sse"));
        }
        let transport = streamable::transport(http, Arc::clone(&wire));
        let service = shake_hands(transport, &wire, handler, how).await?;
        Ok(Session::new(service, wire, "streamable_http"))
    }
}

#[async_trait]
impl Connector for Client {
    async fn connect(&self, endpoint: &Endpoint, credentials: Arc<dyn Credentials>) -> Connected {
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
                let late = McpError::Timeout { after, limit: Deadline::List };
                Err(McpError::Connect(Reason::new(format!("no handshake within {after:?}"), late.cause())))
            }
        }
    }
}

async fn shake_hands<T>(transport: T, wire: &Wire, handler: Handler, how: Spoken) -> Result<Service, McpError>
where
    T: Transport<RoleClient> + 'static,
{
    let lifecycle = match how {
        Spoken::Discovery => {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
        }
        Spoken::Handshake | Spoken::Sse => ClientLifecycleMode::Initialize,
    };
    tokio::select! {
        biased;
        served = serve_client_with_lifecycle(handler, transport, lifecycle) => {
            served.map_err(|error| failure::of_handshake(error, wire))
        }
        () = wire.closed.cancelled() => Err(failure::of_closed(wire)),
    }
}

/// What else may work where one way did not.
fn others(failed: Spoken, kind: HttpKind, error: &McpError) -> &'static [Spoken] {
    let auto = kind == HttpKind::Auto;
    match failed {
        Spoken::Handshake if refuses_handshakes(error) => &[Spoken::Discovery],
        Spoken::Handshake if auto && knows_no_posts(error) => &[Spoken::Sse],
        Spoken::Handshake => &[],
        Spoken::Discovery if may_have_changed(error) => &[Spoken::Handshake],
        Spoken::Sse if may_have_changed(error) => &[Spoken::Handshake, Spoken::Discovery],
        Spoken::Discovery | Spoken::Sse => &[],
    }
}

/// Whether a server understood the handshake and would not have it.
fn refuses_handshakes(error: &McpError) -> bool {
    matches!(error, McpError::Protocol { .. })
}

/// Whether a server knows this way, and would not have the caller or the handshake.
fn came_further(error: &McpError) -> bool {
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
fn knows_no_posts(error: &McpError) -> bool {
    matches!(error, McpError::Http { status: 400 | 404 | 405 | 406 | 415, .. })
}
