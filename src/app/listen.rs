//! Accepts connections and serves each, until told to close.

use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use super::impatient::Impatient;

/// A client that takes longer for its request's headers is cut.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// After a failed accept, such as one for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `closing` says how long connections may take to finish what they are sending. A client that
/// takes nothing for `write_timeout` is cut.
pub(super) async fn serve(
    listener: TcpListener,
    service: Router,
    write_timeout: Duration,
    mut closing: oneshot::Receiver<Duration>,
) {
    let graceful = GracefulShutdown::new();
    let tasks = TaskTracker::new();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Duration::from_secs(30));
    match listener.local_addr() {
        Ok(address) => tracing::info!(%address, "serving"),
        Err(error) => tracing::warn!(%error, "serving at an address that is not known"),
    }
    let closing_time = loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            time = &mut closing => break time.unwrap_or_default(),
        };
        without_delay(&stream);
        let service = TowerToHyperService::new(service.clone());
        let connection = builder
            .serve_connection(TokioIo::new(Impatient::new(stream, write_timeout)), service)
            .into_owned();
        let connection = graceful.watch(connection);
        tasks.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    };
    drop(listener);
    if tokio::time::timeout(closing_time, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections were still open when their time was over");
    }
}

/// Events must leave when they are written, not when the kernel has collected more of them.
fn without_delay(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
}
