//! A minimal HTTP server for probes while the gateway cannot serve yet: one request per connection, few connections.

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

/// Concurrent connections; further ones wait in the accept queue.
const MAX_CONNECTIONS: usize = 64;
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay after a failed accept, such as one without free file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Serves until the future is dropped; accepted connections end by themselves.
pub(super) async fn serve(listener: &TcpListener, service: Router) -> Infallible {
    let connections = TaskTracker::new();
    let semaphore = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // Cannot fail: the semaphore is never closed.
        let permit = Arc::clone(&semaphore).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let service = TowerToHyperService::new(service.clone());
                // No keep-alive: the next request must reach the gateway itself.
                let connection =
                    http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
                connections.spawn(async move {
                    let _permit = permit;
                    // Failures are ignored: no response can be sent.
                    let _result = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed; retrying");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}
