//! Accepts connections and serves each, until told to close.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::connection::{self, ConnectionActivity, ConnectionTimeouts};
use super::connection_limit::{ConnectionLimit, max_connections};
use super::exchange::{Exchange, TrackedBody};
use super::generation::CurrentGeneration;
use super::http2_stream::{StreamExecutor, in_pieces};
use super::write_timeout::WriteTimeout;
use crate::config::ServerSettings;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::request_log::RequestOutcome;
use crate::transport::{PeerAddress, ShutdownFlag};

/// After a failed accept, such as one for want of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Failed accepts are logged so often, with their number.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Accepts and serves connections.
pub(super) struct HttpServer {
    current: CurrentGeneration,
    metrics: Arc<Metrics>,
    /// A client that takes nothing for this long is cut.
    write_timeout: Duration,
    timeouts: ConnectionTimeouts,
    limit: Arc<ConnectionLimit>,
    http: Builder<StreamExecutor>,
    tasks: TaskTracker,
    closing: CancellationToken,
    stopping: ShutdownFlag,
    /// The time for closing is over, too.
    overdue: CancellationToken,
}

impl HttpServer {
    pub(super) fn new(
        current: CurrentGeneration,
        settings: &ServerSettings,
        metrics: Arc<Metrics>,
        stopping: ShutdownFlag,
    ) -> Self {
        let mut http = Builder::new(StreamExecutor { write_timeout: settings.write_timeout });
        // Time is kept in `connection`, for both versions.
        http.http1().header_read_timeout(None);
        http.http2().timer(TokioTimer::new()).keep_alive_interval(Duration::from_secs(30));
        Self {
            current,
            write_timeout: settings.write_timeout,
            timeouts: ConnectionTimeouts {
                first_byte: settings.first_byte_timeout,
                header: settings.header_timeout,
                keep_alive: settings.keep_alive_timeout,
            },
            limit: ConnectionLimit::new(max_connections(settings.max_connections), Arc::clone(&metrics)),
            metrics,
            http,
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            stopping,
            overdue: CancellationToken::new(),
        }
    }

    /// Serves until `closing` says how long connections may take to finish what they are sending.
    pub(super) async fn serve(self, listener: TcpListener, mut closing: oneshot::Receiver<Duration>) {
        let max_connections = self.limit.max();
        match listener.local_addr() {
            Ok(address) => tracing::info!(%address, max_connections, "serving"),
            Err(error) => tracing::warn!(%error, "serving at an address that is not known"),
        }
        let time = tokio::select! {
            () = self.accept(&listener) => Duration::ZERO,
            time = &mut closing => time.unwrap_or_default(),
        };
        drop(listener);
        self.closing.cancel();
        self.tasks.close();
        if tokio::time::timeout(time, self.tasks.wait()).await.is_err() {
            tracing::warn!("connections were still open when their time was over");
            self.overdue.cancel();
            self.tasks.wait().await;
        }
    }

    /// Accepts for ever. A connection that was accepted waits for its place, and those behind it in the kernel.
    async fn accept(&self, listener: &TcpListener) {
        let mut failures = Failures::default();
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let Some(permit) = self.limit.permit().await else { return };
                    self.serve_connection(stream, PeerAddress(peer.ip()), permit);
                }
                Err(error) => {
                    failures.note(&error);
                    if out_of_files(&error) {
                        self.limit.make_room();
                    }
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }

    fn serve_connection(
        &self,
        stream: TcpStream,
        peer: PeerAddress,
        permit: tokio::sync::OwnedSemaphorePermit,
    ) {
        without_delay(&stream);
        let activity =
            ConnectionActivity::new(self.timeouts, self.closing.child_token(), self.stopping.clone());
        let place = self.limit.enter(permit, &activity);
        let (current, requests) = (Arc::clone(&self.current), Arc::clone(&activity));
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            let exchange = Exchange::begin(&requests, &mut request);
            // Of the generation that is current as the request begins.
            let answer = Router::clone(&current.load().service).oneshot(request);
            async move {
                let response = answer.await;
                response.map(|mut response| {
                    exchange.prepare_response(response.headers_mut());
                    response.map(|body| TrackedBody::new(in_pieces(body, &exchange), exchange))
                })
            }
        });
        let stream = WriteTimeout::new(stream, self.write_timeout, Arc::clone(&activity));
        let connection = self.http.serve_connection(TokioIo::new(stream), service).into_owned();
        let (metrics, overdue) = (Arc::clone(&self.metrics), self.overdue.clone());
        self.tasks.spawn(async move {
            let _place = place;
            tokio::select! {
                biased;
                why = connection::drive(connection, &activity) => {
                    if let Some(why) = why {
                        metrics.connection_closed(why);
                        tracing::debug!(why, "a connection was closed");
                    }
                }
                // Before the connection is dropped, which asks why.
                () = async {
                    overdue.cancelled().await;
                    activity.abort(RequestOutcome::Drained);
                } => {}
            }
        });
    }
}

/// Others than connections have more files open than were reserved for them.
fn out_of_files(error: &std::io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| Some(errno.raw_os_error()) == code)
}

/// Accepts that failed since this was last logged.
#[derive(Default)]
struct Failures {
    unlogged: u64,
    logged: Option<Instant>,
}

impl Failures {
    fn note(&mut self, error: &std::io::Error) {
        self.unlogged += 1;
        if self.logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            tracing::warn!(%error, times = self.unlogged, "a connection could not be accepted");
            *self = Self { unlogged: 0, logged: Some(Instant::now()) };
        }
    }
}

/// Events must leave when they are written, not when the kernel has collected more of them.
fn without_delay(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
}
