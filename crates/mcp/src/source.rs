//! Session sources: what sessions with a server are opened with. Configuration generations with unchanged settings share
//! a source, and thereby its sessions; the pool closes sessions whose source no generation holds any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::connection::{Connector, Endpoint};
use super::credentials::CredentialSource;

/// Limits of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionLimits {
    /// Timeout of connecting with initialization, and of listing tools.
    pub list_timeout: Duration,
    /// How long a list counts as fresh.
    pub tool_ttl: Duration,
    /// Maximum concurrent calls.
    pub max_in_flight: usize,
    /// Maximum number of tools; further ones are dropped.
    pub max_tools: usize,
}

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
