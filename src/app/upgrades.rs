//! What connections need that are upgraded to WebSocket: they outlive the service of their HTTP connection.

use std::sync::Arc;

use axum::http::Version;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::ConnectionActivity;
use super::connection_limit::ConnectionSlot;
use super::generation::CurrentGeneration;
use crate::transport::UpgradeHost;

/// Makes the [`UpgradeHost`] of connections.
#[derive(Clone)]
pub(super) struct Upgrades {
    pub current: CurrentGeneration,
    /// The server's tasks.
    pub tasks: TaskTracker,
    pub draining: CancellationToken,
    pub force_close: CancellationToken,
}

impl Upgrades {
    /// For a connection, which keeps its slot and counts as busy while the returned value lives.
    pub(super) fn host(&self, slot: &Arc<ConnectionSlot>, activity: &Arc<ConnectionActivity>) -> UpgradeHost {
        let current = Arc::clone(&self.current);
        UpgradeHost {
            current: Arc::new(move || current.load().state.clone()),
            tasks: self.tasks.clone(),
            draining: self.draining.clone(),
            force_close: self.force_close.clone(),
            _slot: Arc::new((Arc::clone(slot), activity.begin_request(Version::HTTP_11))),
        }
    }
}
