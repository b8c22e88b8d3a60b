//! Shares of the connections: where several tenants or keys are configured, none of them keeps more than its share of
//! `server.max_connections` busy. Further requests are refused, since whoever waited would keep one busy; their connections are
//! idle then, and make room for others.
//!
//! A connection counts for the caller of the first request that is active on it, until none is and all was sent.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::Extensions;
use parking_lot::Mutex;

use super::AppState;
use antwort_identity::Requester;
use antwort_limits::Permit;
use antwort_protocol::error::ApiError;

/// The client's side of a connection; an extension of each of its requests.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub address: IpAddr,
    pub share: Arc<ConnectionShare>,
}

/// Whose share a connection is part of, while requests are active on it.
#[derive(Debug, Default)]
pub(crate) struct ConnectionShare(Mutex<Option<Permit>>);

impl ConnectionShare {
    /// Gives the connection back if it `is_idle`, which is asked while no request can take it.
    pub(crate) fn release_if(&self, is_idle: impl FnOnce() -> bool) {
        let mut permit = self.0.lock();
        let released = if permit.is_some() && is_idle() { permit.take() } else { None };
        // Before the permit is: that locks, too.
        drop(permit);
        drop(released);
    }
}

/// Counts the connection of a request for its caller, unless it counts already.
///
/// # Errors
/// 503 if the caller's share is in use.
pub(super) async fn acquire(
    app: &AppState,
    connection: &Extensions,
    requester: &Requester,
) -> Result<(), ApiError> {
    let connections = &app.services.admission.connections;
    if !connections.is_divided() {
        return Ok(());
    }
    let Some(Peer { share, .. }) = connection.get::<Peer>() else { return Ok(()) };
    if share.0.lock().is_some() {
        return Ok(());
    }
    let permit = connections.acquire(requester, 1).await?;
    // Another request of an HTTP/2 connection may have been faster: one of the permits is released.
    drop(share.0.lock().replace(permit));
    Ok(())
}
