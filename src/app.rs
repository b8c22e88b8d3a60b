//! Builds the gateway from its settings and runs it: startup, serving, reloads, graceful shutdown.

mod admission_limits;
pub(crate) mod agent_tools;
pub(crate) mod announce;
mod assembly;
mod bus;
pub(crate) mod checks;
mod connection;
mod connection_limit;
mod exchange;
mod file_watcher;
mod generation;
mod http2_stream;
mod http_connection;
mod job_slots;
mod listen;
mod lock;
mod migration;
#[cfg_attr(not(feature = "nats"), path = "app/nats_absent.rs")]
mod nats;
mod open_store;
#[cfg_attr(not(feature = "postgres"), path = "app/postgres_absent.rs")]
mod postgres;
mod probes;
mod reload;
pub(crate) mod seal_key;
mod store_settings;
pub(crate) mod tools;
mod upgrades;
mod upkeep;
mod worker;
mod write_timeout;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use arc_swap::ArcSwap;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::transport::ShutdownFlag;
use antwort_config::{DrainListener, Role, RunningConfig, ServerSettings, Settings};
use antwort_engine::WebhookDelivery;
use antwort_store::Store;
use antwort_store_sqlite::ServerLock;
use antwort_tools::ToolExecutor;

use self::open_store::StoreUser;

pub(crate) use admission_limits::admission_limits;
pub use assembly::Assembly;
use generation::{CurrentGeneration, Generation};
use listen::HttpServer;
pub(crate) use listen::bind;
#[cfg(not(feature = "postgres"))]
pub(crate) use postgres::ABSENT as POSTGRES_ABSENT;
use reload::Reloader;
pub use reload::SighupListener;
use upkeep::Upkeep;
use worker::Worker;

/// Minimum time that connections have for closing once all runs have ended.
const MIN_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long requests are still admitted once no connections are: those that were sent on connections from before.
const LAST_REQUEST_WAIT: Duration = Duration::from_millis(250);

/// Default of `server.shutdown_delay` unless the gateway listens on loopback: load balancers probe every few seconds.
const AUTO_SHUTDOWN_DELAY: Duration = Duration::from_secs(5);

/// How long a server waits for another one to release the database lock.
pub const LOCK_WAIT: Duration = Duration::from_secs(60);

/// A gateway that is ready to serve.
pub struct App {
    assembly: Assembly,
    stopping: ShutdownFlag,
    current: CurrentGeneration,
    /// The configuration that SIGHUP reloads; `None`: reloads are not possible.
    reloading: Option<(Arc<RunningConfig>, SighupListener)>,
    drain_timeout: Duration,
    server: ServerSettings,
    maintenance: Duration,
    role: Role,
    webhooks: Option<WebhookDelivery>,
    /// The lock on the database, held until the database is closed.
    _lock: Option<ServerLock>,
}

impl App {
    /// Serves until `shutdown`. While another server holds the database, for `lock_wait` at most, only probes are answered
    /// (alive, not ready); after that it is an error.
    pub async fn run(
        settings: &Settings,
        listener: TcpListener,
        shutdown: CancellationToken,
        lock_wait: Duration,
    ) -> anyhow::Result<()> {
        let Some(app) = Self::open(settings, &listener, &shutdown, lock_wait).await? else { return Ok(()) };
        app.serve(listener, shutdown).await;
        Ok(())
    }

    /// Like [`Self::run`], with reloads of the configuration: on SIGHUP, and on file changes with `config.watch`.
    pub async fn run_reloading(
        running: RunningConfig,
        hangups: SighupListener,
        listener: TcpListener,
        shutdown: CancellationToken,
        lock_wait: Duration,
    ) -> anyhow::Result<()> {
        let app = Self::open(running.settings(), &listener, &shutdown, lock_wait).await?;
        let Some(app) = app else { return Ok(()) };
        Self { reloading: Some((Arc::new(running), hangups)), ..app }.serve(listener, shutdown).await;
        Ok(())
    }

    /// `None`: shutdown was requested before the database was available.
    async fn open(
        settings: &Settings,
        listener: &TcpListener,
        shutdown: &CancellationToken,
        lock_wait: Duration,
    ) -> anyhow::Result<Option<Self>> {
        checks::parts(settings)?;
        let Some(lock) = lock::wait(settings, listener, shutdown, lock_wait).await? else { return Ok(None) };
        let Some(lock) = migration::run(settings, lock, listener, shutdown).await? else { return Ok(None) };
        Self::build_locked(settings, Vec::new(), lock).await.map(Some)
    }

    /// Opens the database and the tools; sends no request to a provider. If another server holds the database, it fails
    /// without waiting.
    pub async fn build(settings: &Settings) -> anyhow::Result<Self> {
        Self::build_with(settings, Vec::new()).await
    }

    /// Like [`Self::build`], with tools of the program that embeds the gateway.
    pub async fn build_with(
        settings: &Settings,
        executors: Vec<Arc<dyn ToolExecutor>>,
    ) -> anyhow::Result<Self> {
        checks::parts(settings)?;
        let lock = lock::acquire_at_once(settings)?;
        if let Some(lock) = &lock {
            migration::migrate(settings, lock, CancellationToken::new()).context(lock::STORE)?;
        }
        Self::build_locked(settings, executors, lock).await
    }

    async fn build_locked(
        settings: &Settings,
        executors: Vec<Arc<dyn ToolExecutor>>,
        lock: Option<ServerLock>,
    ) -> anyhow::Result<Self> {
        let store = open_store::open_store(settings, StoreUser::Server).await?;
        Ok(Self { _lock: lock, ..Self::build_with_store(settings, executors, store).await? })
    }

    /// Like [`Self::build_with`], with a store of the embedding program, which is closed at the end.
    pub async fn build_with_store(
        settings: &Settings,
        executors: Vec<Arc<dyn ToolExecutor>>,
        store: Arc<dyn Store>,
    ) -> anyhow::Result<Self> {
        checks::parts(settings)?;
        let extra = tools::ExtraTools { executors, mocks: None };
        let assembly = Assembly::build_with_store(settings, extra, store).await?;
        let stopping = ShutdownFlag::default();
        let generation = Generation::new(settings, &assembly, &stopping);
        let webhooks = WebhookDelivery::new(settings, assembly.store(), &assembly.metrics)?;
        Ok(Self {
            assembly,
            stopping,
            current: Arc::new(ArcSwap::from_pointee(generation)),
            reloading: None,
            drain_timeout: settings.server.drain_timeout,
            server: settings.server.clone(),
            maintenance: settings.store.maintenance_interval,
            role: settings.role,
            webhooks,
            _lock: None,
        })
    }

    /// Serves until `shutdown` and the shutdown delay, then drains: waits for running responses and open connections within
    /// `server.drain_timeout`, and closes the store.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) {
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let Self {
            assembly,
            stopping,
            current,
            reloading,
            drain_timeout,
            server,
            maintenance,
            role,
            webhooks,
            _lock,
        } = self;
        let (store, metrics) = (Arc::clone(assembly.store()), Arc::clone(&assembly.metrics));
        let (admission, in_flight) = (Arc::clone(assembly.admission()), Arc::clone(&assembly.in_flight));
        let upkeep = Upkeep {
            store: Arc::clone(&store),
            in_flight: Arc::clone(&in_flight),
            recovery: assembly.recovery(),
            metrics: Arc::clone(&metrics),
            every: maintenance,
        };
        upkeep.spawn(&tasks, &closing);
        if let Some(webhooks) = webhooks {
            tasks.spawn(webhooks.run(closing.clone()));
        }
        generation::spawn_tool_cleanup(&assembly.tools, &tasks, closing.clone());
        let (sessions, until) = (Arc::clone(assembly.tools.mcp.sessions()), closing.clone());
        tasks.spawn(async move { sessions.run_eviction(until).await });
        let (close, close_timeout) = oneshot::channel();
        let delay = shutdown_delay(&server, &listener);
        let (draining, listening) = (CancellationToken::new(), CancellationToken::new());
        if role.makes_jobs() {
            let (current, store) = (Arc::clone(&current), Arc::clone(&store));
            Worker { current, store, in_flight: Arc::clone(&in_flight) }.spawn(&tasks, &draining);
        }
        let http_server = HttpServer::new(
            Arc::clone(&current),
            &server,
            metrics,
            stopping.clone(),
            draining.clone(),
            listening.clone(),
        );
        let serving = tasks.spawn(http_server.serve(listener, close_timeout));
        tasks.spawn(announce::ready(Arc::clone(&current), closing.clone()));
        if let Some((running, hangups)) = reloading {
            let (stopping, closing) = (stopping.clone(), closing.clone());
            let reloader = Reloader { running, assembly, current, stopping, tasks: tasks.clone(), closing };
            tasks.spawn(reloader.run(hangups, shutdown.clone()));
        } else {
            // From now on only the router and its requests hold the components.
            drop(assembly);
        }
        shutdown.cancelled().await;
        stopping.set();
        pass_shutdown_delay(delay).await;
        tracing::info!("draining");
        let deadline = Instant::now() + drain_timeout;
        stop_listening(&server, &listening).await;
        admission.close();
        draining.cancel();
        in_flight.drain(deadline.saturating_duration_since(Instant::now())).await;
        admission.close_sessions();
        store.closing();
        // Passed-through requests are not runs; they have until the same deadline.
        let timeout = deadline.saturating_duration_since(Instant::now()).max(MIN_CLOSE_TIMEOUT);
        if close.send(timeout).is_err() || serving.await.is_err() {
            tracing::error!("the accept loop ended early or panicked");
        }
        in_flight.ended().await;
        closing.cancel();
        tasks.close();
        tasks.wait().await;
        store.close().await;
        tracing::info!("stopped");
    }
}

/// Closes the listener, unless it is to stay open while the gateway drains. Then new responses are refused.
async fn stop_listening(server: &ServerSettings, listening: &CancellationToken) {
    if server.drain_listener == DrainListener::Close {
        listening.cancel();
        tokio::time::sleep(LAST_REQUEST_WAIT.min(server.drain_timeout)).await;
    }
}

async fn pass_shutdown_delay(delay: Duration) {
    if delay.is_zero() {
        return;
    }
    let delay_ms = delay.as_millis() as u64;
    tracing::info!(delay_ms, "shutdown requested; accepting requests until server.shutdown_delay is over");
    tokio::time::sleep(delay).await;
}

/// How long requests are accepted after shutdown was requested.
fn shutdown_delay(server: &ServerSettings, listener: &TcpListener) -> Duration {
    server.shutdown_delay.unwrap_or_else(|| match listener.local_addr() {
        Ok(address) if address.ip().to_canonical().is_loopback() => Duration::ZERO,
        _ => AUTO_SHUTDOWN_DELAY,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_gateway_that_others_reach_takes_its_time_to_stop_unless_it_is_told_how_much() {
        let mut server = ServerSettings::default();
        let delay = async |server: &ServerSettings, address: &str| {
            shutdown_delay(server, &TcpListener::bind(address).await.unwrap())
        };
        assert_eq!(delay(&server, "127.0.0.1:0").await, Duration::ZERO);
        assert_eq!(delay(&server, "0.0.0.0:0").await, AUTO_SHUTDOWN_DELAY);
        server.shutdown_delay = Some(Duration::from_secs(1));
        assert_eq!(delay(&server, "127.0.0.1:0").await, Duration::from_secs(1));
    }
}
