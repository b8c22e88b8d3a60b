//! The accept loop: accepts connections and serves each, until shutdown.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{Request, header};
use futures_util::TryFutureExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::connection::{ConnectionActivity, ConnectionTimeouts};
use super::connection_limit::{ConnectionLimit, max_connections};
use super::exchange::{Exchange, TrackedBody};
use super::generation::CurrentGeneration;
use super::http_connection::HttpConnections;
use super::http2_stream::track_progress;
use super::upgrades::Upgrades;
use crate::transport::{Peer, ShutdownFlag};
use antwort_config::ServerSettings;
use antwort_telemetry::metrics::Metrics;
use antwort_telemetry::request_log::RequestOutcome;

/// Connections that wait in the kernel until they are accepted; one that finds no room is tried again after a second only. The
/// system may allow fewer (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;
/// Delay after a failed accept, such as one without free file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// How long a listener that is about to close waits for one more connection: those in the kernel's queue would be reset.
const LAST_CONNECTION_WAIT: Duration = Duration::from_millis(20);

/// Minimum interval between log lines about failed accepts; each has their number.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Listens on an address. Whoever finds it in use is told how to choose another.
pub(crate) fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    listen(address).map_err(|error| {
        let mut what = format!("listening on {address}");
        if error.kind() == ErrorKind::AddrInUse {
            let next = SocketAddr::new(address.ip(), address.port().checked_add(1).unwrap_or(8081));
            what += &format!(" (another address: --listen {next} or ANTWORT_LISTEN)");
        }
        anyhow::Error::new(error).context(what)
    })
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As the standard library: a restart must not wait for connections of the process before. On Windows it means something else.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts and serves connections.
pub(super) struct HttpServer {
    current: CurrentGeneration,
    metrics: Arc<Metrics>,
    timeouts: ConnectionTimeouts,
    limit: Arc<ConnectionLimit>,
    connections: Arc<HttpConnections>,
    tasks: TaskTracker,
    upgrades: Arc<Upgrades>,
    closing: CancellationToken,
    /// Cancelled when no further connections are accepted.
    listening: CancellationToken,
    stopping: ShutdownFlag,
    /// Cancelled when the close timeout is over: remaining connections are aborted.
    force_close: CancellationToken,
}

impl HttpServer {
    pub(super) fn new(
        current: CurrentGeneration,
        settings: &ServerSettings,
        metrics: Arc<Metrics>,
        stopping: ShutdownFlag,
        draining: CancellationToken,
        listening: CancellationToken,
    ) -> Self {
        let (tasks, force_close) = (TaskTracker::new(), CancellationToken::new());
        let upgrades = Upgrades {
            current: Arc::clone(&current),
            tasks: tasks.clone(),
            draining,
            force_close: force_close.clone(),
        };
        Self {
            current,
            timeouts: ConnectionTimeouts {
                first_byte: settings.first_byte_timeout,
                header: settings.header_timeout,
                keep_alive: settings.keep_alive_timeout,
            },
            limit: ConnectionLimit::new(max_connections(settings), Arc::clone(&metrics)),
            metrics,
            connections: HttpConnections::new(settings.write_timeout),
            tasks,
            upgrades: Arc::new(upgrades),
            closing: CancellationToken::new(),
            listening,
            stopping,
            force_close,
        }
    }

    /// Accepts connections until `listening` is cancelled, and serves until `closing` yields the close timeout: how long
    /// connections may take to finish their responses.
    pub(super) async fn serve(self, listener: TcpListener, mut closing: oneshot::Receiver<Duration>) {
        let max_connections = self.limit.max();
        match listener.local_addr() {
            Ok(address) => tracing::info!(%address, max_connections, "serving"),
            Err(error) => tracing::warn!(%error, "serving; the local address cannot be determined"),
        }
        let timeout = tokio::select! {
            () = self.accept(&listener) => None,
            timeout = &mut closing => Some(timeout.unwrap_or_default()),
        };
        drop(listener);
        self.closing.cancel();
        let timeout = match timeout {
            Some(timeout) => timeout,
            None => closing.await.unwrap_or_default(),
        };
        self.tasks.close();
        if tokio::time::timeout(timeout, self.tasks.wait()).await.is_err() {
            tracing::warn!("connections still open after server.drain_timeout; aborting them");
            self.force_close.cancel();
            self.tasks.wait().await;
        }
    }

    /// Accepts connections until it is told not to, and those that are in the kernel's queue then, where further ones wait while
    /// one waits for a permit.
    async fn accept(&self, listener: &TcpListener) {
        let mut failures = AcceptFailures::default();
        let mut left = BACKLOG;
        loop {
            let accepted = match self.listening.is_cancelled() {
                false => tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = self.listening.cancelled() => continue,
                },
                true => match tokio::time::timeout(LAST_CONNECTION_WAIT, listener.accept()).await {
                    Ok(accepted) if left > 0 => accepted,
                    _ => return,
                },
            };
            left -= u32::from(self.listening.is_cancelled());
            match accepted {
                Ok((stream, peer)) => {
                    let Some(permit) = self.limit.permit().await else { return };
                    self.serve_connection(stream, peer.ip(), permit);
                }
                Err(error) => {
                    failures.log(&error);
                    if is_out_of_files(&error) {
                        self.limit.evict_idle();
                    }
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }

    fn serve_connection(
        &self,
        stream: TcpStream,
        address: IpAddr,
        permit: tokio::sync::OwnedSemaphorePermit,
    ) {
        disable_nagle(&stream);
        let activity =
            ConnectionActivity::new(self.timeouts, self.closing.child_token(), self.stopping.clone());
        let slot = Arc::new(self.limit.enter(permit, &activity));
        let peer = Peer { address, share: Arc::clone(activity.share()) };
        let (current, requests) = (Arc::clone(&self.current), Arc::clone(&activity));
        let (upgrades, upgrade_slot) = (Arc::clone(&self.upgrades), Arc::clone(&slot));
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            if request.headers().contains_key(header::UPGRADE) {
                request.extensions_mut().insert(upgrades.host(&upgrade_slot, &requests));
            }
            let exchange = Exchange::begin(&requests, &mut request);
            // The generation that is current as the request begins serves it to its end.
            let response = Router::clone(&current.load().service).oneshot(request);
            response.map_ok(|mut response| {
                exchange.prepare_response(response.headers_mut());
                response.map(|body| TrackedBody::new(track_progress(body, &exchange), exchange))
            })
        });
        let (connections, metrics, force_close) =
            (Arc::clone(&self.connections), Arc::clone(&self.metrics), self.force_close.clone());
        self.tasks.spawn(async move {
            let _slot = slot;
            tokio::select! {
                biased;
                reason = connections.serve(stream, service, &activity) => {
                    if let Some(reason) = reason {
                        metrics.connection_closed(reason);
                        tracing::debug!(reason, "connection closed by the gateway");
                    }
                }
                // Set before the connection is dropped, which records the reason.
                () = async {
                    force_close.cancelled().await;
                    activity.abort(RequestOutcome::Drained);
                } => {}
            }
        });
    }
}

/// Whether the process or the system has no free file descriptor: providers, tools or the store use more than is reserved
/// for them.
fn is_out_of_files(error: &std::io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| Some(errno.raw_os_error()) == code)
}

/// Failed accepts since the last log line.
#[derive(Default)]
struct AcceptFailures {
    unlogged: u64,
    logged: Option<Instant>,
}

impl AcceptFailures {
    fn log(&mut self, error: &std::io::Error) {
        self.unlogged += 1;
        if self.logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            tracing::warn!(%error, failures = self.unlogged, "accepting a connection failed; retrying");
            *self = Self { unlogged: 0, logged: Some(Instant::now()) };
        }
    }
}

/// Sets TCP_NODELAY: events must be sent when they are written, not when the kernel has collected more.
fn disable_nagle(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "setting TCP_NODELAY failed");
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn another_address_is_proposed_for_one_that_is_in_use_and_for_no_other_failure() {
        let taken = bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = taken.local_addr().unwrap();
        let in_use = format!("{:#}", bind(address).unwrap_err());
        assert!(in_use.starts_with(&format!("listening on {address} (another address: ")), "{in_use}");
        // Of no interface: the block for documentation.
        let elsewhere = format!("{:#}", bind(([192, 0, 2, 1], 8080).into()).unwrap_err());
        assert!(elsewhere.starts_with("listening on 192.0.2.1:8080: "), "{elsewhere}");
    }

    #[tokio::test]
    async fn connections_of_a_burst_wait_in_the_kernel_until_they_are_accepted() {
        // Those that find no room are tried again after a second, then two, four and so on.
        const PATIENCE: Duration = Duration::from_secs(60);
        rlimit::increase_nofile_limit(u64::MAX).unwrap();
        let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
        let burst = allowed.trim().parse().unwrap_or(128_usize).min(1_000);
        let listener = bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        let connect = async {
            for _ in 0..burst {
                waiting.push(TcpStream::connect(address).await.unwrap());
            }
        };
        tokio::time::timeout(PATIENCE, connect).await.expect("all are connected though none is accepted");
        assert_eq!(waiting.len(), burst);
    }
}
