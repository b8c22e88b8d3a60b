//! Session sources: what sessions with a server are opened with. Configuration generations with unchanged settings share
//! a source, and thereby its sessions; the pool closes sessions whose source no generation holds any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use super::connection::{Connector, Endpoint};
use super::credentials::CredentialSource;
use super::servers::McpServers;
use super::session::SessionLimits;
use crate::config::ConfigChange;

/// Connector and limits of sessions, independent of the caller.
pub(super) struct SessionSource {
    /// Unique within the process.
    pub id: u64,
    pub connector: Arc<dyn Connector>,
    pub limits: SessionLimits,
    /// Notified on drop.
    gone: Arc<Notify>,
}

/// Endpoint, credentials and session source of a configured server.
pub(super) struct ServerAccess {
    pub source: Arc<SessionSource>,
    pub endpoint: Endpoint,
    /// `None` for stdio servers.
    pub credentials: Option<CredentialSource>,
}

/// The previous generation, whose sources are reused if their settings are unchanged.
#[derive(Clone, Copy)]
pub struct PreviousServers<'a> {
    /// Servers of that generation.
    pub servers: &'a McpServers,
    /// Differences between its settings and the new ones.
    pub changes: &'a [ConfigChange],
}

/// Sections that affect connections to all servers.
const CLIENT_SECTIONS: [&str; 3] = ["egress", "network", "tls"];
/// Keys of `mcp` that do not affect connections to all servers. `requests` affects configured servers only through
/// their [`SessionLimits`].
const NON_CLIENT_KEYS: [&str; 4] = ["servers", "requests", "sessions", "approvals"];

impl SessionSource {
    pub(super) fn new(connector: Arc<dyn Connector>, limits: SessionLimits, gone: Arc<Notify>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { id, connector, limits, gone })
    }
}

impl Drop for SessionSource {
    fn drop(&mut self) {
        self.gone.notify_one();
    }
}

impl PreviousServers<'_> {
    /// Whether the client's settings are unchanged.
    pub fn can_reuse_client(&self) -> bool {
        let is_of_clients = |change: &ConfigChange| {
            let is_of_mcp =
                change.touches(&["mcp"]) && !NON_CLIENT_KEYS.iter().any(|key| change.is_in(&["mcp", key]));
            is_of_mcp || CLIENT_SECTIONS.iter().any(|section| change.touches(&[section]))
        };
        !self.changes.iter().any(is_of_clients)
    }

    /// The access to a configured server, if its settings and limits are unchanged.
    pub(super) fn access(&self, label: &str, limits: &SessionLimits) -> Option<Arc<ServerAccess>> {
        let known = self.servers.access(label).filter(|known| known.source.limits == *limits)?;
        let is_changed = self.changes.iter().any(|change| change.touches(&["mcp", "servers", label]));
        (self.can_reuse_client() && !is_changed).then(|| Arc::clone(known))
    }

    /// The source of servers from requests, if settings and limits are unchanged.
    pub(super) fn request_source(&self, limits: &SessionLimits) -> Option<Arc<SessionSource>> {
        let known = Some(self.servers.request_source()).filter(|known| known.limits == *limits)?;
        let is_changed = self.changes.iter().any(|change| change.touches(&["mcp", "requests"]));
        (self.can_reuse_client() && !is_changed).then(|| Arc::clone(known))
    }
}
