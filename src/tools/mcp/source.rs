//! What sessions with a server are opened with. Generations of the settings in which it is the same share it, and so the
//! sessions; the pool closes those whose source no generation has any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use super::connection::{Connector, Endpoint};
use super::credentials::CredentialSource;
use super::servers::McpServers;
use super::session::SessionLimits;
use crate::config::ConfigChange;

/// What sessions are opened with, whoever they are for.
pub(super) struct SessionSource {
    /// Told from all others of the process.
    pub id: u64,
    pub connector: Arc<dyn Connector>,
    pub limits: SessionLimits,
    /// Told when it is gone.
    gone: Arc<Notify>,
}

/// How a server of the configuration is reached.
pub(super) struct ServerAccess {
    pub source: Arc<SessionSource>,
    pub endpoint: Endpoint,
    /// `None`: a program, which is shown none.
    pub credentials: Option<CredentialSource>,
}

/// The generation before, whose sources are taken over where nothing of them has changed.
#[derive(Clone, Copy)]
pub struct PreviousServers<'a> {
    /// Its servers.
    pub servers: &'a McpServers,
    /// What differs from its settings.
    pub changes: &'a [ConfigChange],
}

/// Sections that connections depend on, whichever server they lead to.
const CLIENT_SECTIONS: [&str; 3] = ["egress", "network", "tls"];
/// Keys of `mcp` that connections with a server do not depend on, unless they are the server's own. What requests may
/// bring counts for configured servers only as far as it is in their [`SessionLimits`].
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
    /// Whether connections are made as before.
    pub fn can_reuse_client(&self) -> bool {
        let is_of_clients = |change: &ConfigChange| {
            let is_of_mcp =
                change.touches(&["mcp"]) && !NON_CLIENT_KEYS.iter().any(|key| change.is_in(&["mcp", key]));
            is_of_mcp || CLIENT_SECTIONS.iter().any(|section| change.touches(&[section]))
        };
        !self.changes.iter().any(is_of_clients)
    }

    /// How the server of this label was reached, if it still is so, with these limits.
    pub(super) fn access(&self, label: &str, limits: &SessionLimits) -> Option<Arc<ServerAccess>> {
        let known = self.servers.access(label).filter(|known| known.source.limits == *limits)?;
        let is_changed = self.changes.iter().any(|change| change.touches(&["mcp", "servers", label]));
        (self.can_reuse_client() && !is_changed).then(|| Arc::clone(known))
    }

    /// The source of servers that requests bring, if it is the same with these limits.
    pub(super) fn request_source(&self, limits: &SessionLimits) -> Option<Arc<SessionSource>> {
        let known = Some(self.servers.request_source()).filter(|known| known.limits == *limits)?;
        let is_changed = self.changes.iter().any(|change| change.touches(&["mcp", "requests"]));
        (self.can_reuse_client() && !is_changed).then(|| Arc::clone(known))
    }
}
