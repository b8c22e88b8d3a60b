//! Answers probes while the gateway itself cannot serve yet: one request a connection, few connections at a time.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

/// Connections at a time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 64;
/// A connection that takes longer is cut.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// After a failed accept, such as one for want of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Answers until it is dropped; connections that were accepted end by themselves.
pub(super) async fn serve(listener: &TcpListener, service: Router) -> Infallible {
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // Never closed, so that there is one in time.
        let place = Arc::clone(&places).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let service = TowerToHyperService::new(service.clone());
                // Whoever is answered now must connect again for the gateway itself.
                let connection =
                    http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
                connections.spawn(async move {
                    let _place = place;
                    // A connection that failed has nobody to be told.
                    let _ended = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}
