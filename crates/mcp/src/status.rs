//! Status of MCP servers for operators (`GET /v1/mcp/servers`).

use std::sync::atomic::Ordering;

use serde::Serialize;

use super::connection::{Endpoint, ServerAddress};
use super::session::Session;

/// The status of a server. Serializes to an element of `GET /v1/mcp/servers`.
#[derive(Debug, Clone, Serialize)]
pub struct ServerStatus {
    /// Label in the configuration; `null` for a server from a request.
    pub server_label: Option<String>,
    /// Description from the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// URL without query, or program name; of a server from a request the host alone.
    pub endpoint: String,
    /// Tenant of the session; `null` if the server is unused.
    pub tenant: Option<String>,
    /// `connected`, `idle` (no connection is open), `failing` or `unused`.
    pub state: &'static str,
    /// Transport; `null` if the server is unused.
    pub transport: Option<&'static str>,
    /// Protocol version.
    pub protocol_version: Option<String>,
    /// Name and version of the server.
    pub server: Option<String>,
    /// Tool names of the last list.
    pub tools: Vec<String>,
    /// Tools that cannot be offered, with the reason.
    pub left_out: Vec<LeftOut>,
    /// Number of calls.
    pub calls: u64,
    /// Number of failed calls.
    pub errors: u64,
    /// Calls in flight.
    pub in_flight: usize,
    /// Mean duration of a call; `null` without calls.
    pub mean_latency_ms: Option<f64>,
    /// Number of connections made.
    pub connects: u64,
    /// Last error, unless resolved.
    pub last_error: Option<String>,
}

/// A tool that cannot be offered.
#[derive(Debug, Clone, Serialize)]
pub struct LeftOut {
    /// Name of the tool.
    pub name: String,
    /// Why it cannot be offered.
    pub reason: String,
}

impl ServerStatus {
    /// A server without a session.
    pub(super) fn unused(label: &str, endpoint: &Endpoint) -> Self {
        Self {
            server_label: Some(label.to_owned()),
            description: None,
            endpoint: address(endpoint, true),
            tenant: None,
            state: "unused",
            transport: None,
            protocol_version: None,
            server: None,
            tools: Vec::new(),
            left_out: Vec::new(),
            calls: 0,
            errors: 0,
            in_flight: 0,
            mean_latency_ms: None,
            connects: 0,
            last_error: None,
        }
    }

    pub(super) fn from_session(label: Option<&str>, tenant: &str, session: &Session) -> Self {
        let (server, last_error) = (session.server(), session.last_error());
        let list = session.lists.latest();
        let set = list.known().and_then(|listing| list.sets.cached(listing.number));
        let stats = &session.stats;
        let calls = stats.calls.load(Ordering::Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "a mean, for people")]
        let mean = |micros: u64| micros as f64 / calls as f64 / 1000.0;
        Self {
            server_label: label.map(str::to_owned),
            tenant: Some(tenant.to_owned()),
            state: match (&server, &last_error) {
                (_, Some(_)) => "failing",
                (Some(_), None) => "connected",
                (None, None) => "idle",
            },
            transport: server.as_ref().map(|server| server.transport),
            protocol_version: server.as_ref().map(|server| server.protocol.clone()),
            server: server.as_ref().map(|server| format!("{} {}", server.name, server.version)),
            tools: set
                .as_ref()
                .map(|set| set.tools.iter().map(|tool| tool.listed.name.clone()).collect())
                .unwrap_or_default(),
            left_out: set.map(|set| set.left_out.iter().map(left_out).collect()).unwrap_or_default(),
            calls,
            errors: stats.errors.load(Ordering::Relaxed),
            in_flight: stats.running.load(Ordering::Relaxed),
            mean_latency_ms: (calls > 0).then(|| mean(stats.micros.load(Ordering::Relaxed))),
            connects: stats.connects.load(Ordering::Relaxed),
            last_error,
            // What a client has sent may have a key in its path.
            endpoint: address(&session.endpoint, label.is_some()),
            ..Self::unused("", &session.endpoint)
        }
    }

    /// Configured servers first, by label, then by endpoint and tenant.
    pub(super) fn sort_key(&self) -> (bool, Option<String>, String, Option<String>) {
        (self.server_label.is_none(), self.server_label.clone(), self.endpoint.clone(), self.tenant.clone())
    }
}

fn left_out((name, reason): &(String, String)) -> LeftOut {
    LeftOut { name: name.clone(), reason: reason.clone() }
}

/// The address without query and user info, which may hold secrets.
fn address(endpoint: &Endpoint, with_path: bool) -> String {
    match &endpoint.address {
        ServerAddress::Http { url, .. } => {
            let mut url = url.clone();
            url.set_query(None);
            url.set_fragment(None);
            if !with_path {
                url.set_path("");
            }
            // Fails only for URLs that cannot have user info.
            _ = url.set_password(None);
            _ = url.set_username("");
            url.into()
        }
        ServerAddress::Stdio(command) => command.program.clone(),
    }
}
