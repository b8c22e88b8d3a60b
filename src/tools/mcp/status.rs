//! How servers are, for those who operate the gateway.

use std::sync::atomic::Ordering;

use serde::Serialize;

use super::connection::{Endpoint, ServerAddress};
use super::session::Session;

/// How a server is. Serialises to an element of `GET /v1/mcp/servers`.
#[derive(Debug, Clone, Serialize)]
pub struct ServerStatus {
    /// Its label in the configuration; `null`: a request brought it.
    pub server_label: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where it is: a URL without its query, or a program's name.
    pub endpoint: String,
    /// Whose session it is; `null`: nobody has used the server yet.
    pub tenant: Option<String>,
    /// `connected`, `idle` (no connection is open), `failing` or `unused`.
    pub state: &'static str,
    /// How it is spoken to; `null`: nobody has yet.
    pub transport: Option<&'static str>,
    /// The protocol's version.
    pub protocol_version: Option<String>,
    /// The program that answers, with its version.
    pub server: Option<String>,
    /// Names of its tools, as listed last.
    pub tools: Vec<String>,
    /// Tools that cannot be used, and why.
    pub left_out: Vec<LeftOut>,
    /// Calls so far.
    pub calls: u64,
    /// Calls that failed on their way.
    pub errors: u64,
    /// Calls that it works on.
    pub in_flight: usize,
    /// Mean time of a call; `null`: there was none.
    pub mean_latency_ms: Option<f64>,
    /// Connections that were made.
    pub connects: u64,
    /// What went wrong last, if it is not over.
    pub last_error: Option<String>,
}

/// A tool that cannot be used.
#[derive(Debug, Clone, Serialize)]
pub struct LeftOut {
    /// Its name.
    pub name: String,
    /// In words.
    pub reason: String,
}

impl ServerStatus {
    /// A server that nobody has used.
    pub(super) fn unused(label: &str, endpoint: &Endpoint) -> Self {
        Self {
            server_label: Some(label.to_owned()),
            description: None,
            endpoint: place(endpoint),
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
        let set = list.known().and_then(|listing| list.sets.cached(&listing));
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

/// A URL's query may hold a key.
fn place(endpoint: &Endpoint) -> String {
    match &endpoint.address {
        ServerAddress::Http { url, .. } => {
            let mut url = url.clone();
            url.set_query(None);
            // A URL that has no password cannot refuse to lose it.
            _ = url.set_password(None);
            _ = url.set_username("");
            url.into()
        }
        ServerAddress::Stdio(command) => command.program.clone(),
    }
}
