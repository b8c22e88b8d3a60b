//! Puts the gateway together from its settings, and runs it from the first connection to the last.

pub(crate) mod announce;
mod assembly;
mod connection;
mod connection_limit;
mod exchange;
mod file_watcher;
mod generation;
mod http2_stream;
mod listen;
mod lock;
mod migration;
mod probes;
mod reload;
pub(crate) mod seal_key;
pub(crate) mod tools;
mod write_timeout;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use arc_swap::ArcSwap;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{RunningConfig, ServerSettings, Settings};
use crate::store::Store;
use crate::store::sqlite::ServerLock;
use crate::tools::ToolExecutor;
use crate::transport::ShutdownFlag;

use self::assembly::StoreUser;

pub use assembly::Assembly;
use generation::{CurrentGeneration, Generation};
use listen::HttpServer;
use reload::Reloader;
pub use reload::SighupListener;

/// How long connections may take at least to close once all responses have ended.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// How long a gateway that others reach is unready before it refuses work: load balancers probe every few seconds.
const AUTO_SHUTDOWN_DELAY: Duration = Duration::from_secs(5);

/// How long a server waits for another one to let go of the database.
pub const LOCK_WAIT: Duration = Duration::from_secs(60);

/// A gateway that is ready to serve.
pub struct App {
    assembly: Assembly,
    stopping: ShutdownFlag,
    current: CurrentGeneration,
    /// What is read again when the process is told to; `None`: nothing can be.
    reloading: Option<(Arc<RunningConfig>, SighupListener)>,
    drain_timeout: Duration,
    server: ServerSettings,
    maintenance: Duration,
    /// Held until the database is closed.
    _lock: Option<ServerLock>,
}

impl App {
    /// Serves until `shutdown`. While another server has the database, for `lock_wait` at most, only probes are
    /// answered, and readiness with no; after that it is an error.
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

    /// The same, by settings that are read again on SIGHUP, and when their file has changed if they say so.
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

    /// `None`: told to stop before it had the database.
    async fn open(
        settings: &Settings,
        listener: &TcpListener,
        shutdown: &CancellationToken,
        lock_wait: Duration,
    ) -> anyhow::Result<Option<Self>> {
        let Some(lock) = lock::wait(settings, listener, shutdown, lock_wait).await? else { return Ok(None) };
        let Some(lock) = migration::run(settings, lock, listener, shutdown).await? else { return Ok(None) };
        Self::build_locked(settings, Vec::new(), lock).await.map(Some)
    }

    /// Opens the database and the tools and makes everything ready; asks no provider. A database that another server
    /// has is an error at once.
    pub async fn build(settings: &Settings) -> anyhow::Result<Self> {
        Self::build_with(settings, Vec::new()).await
    }

    /// The same, with tools of the program that embeds the gateway.
    pub async fn build_with(
        settings: &Settings,
        executors: Vec<Arc<dyn ToolExecutor>>,
    ) -> anyhow::Result<Self> {
        let lock = lock::acquire(settings).context(lock::STORE)?;
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
        let store = assembly::open_store(settings, StoreUser::Server)?;
        Ok(Self { _lock: lock, ..Self::build_with_store(settings, executors, store).await? })
    }

    /// The same as [`Self::build_with`], with the responses in a store of that program, which is closed at the end.
    pub async fn build_with_store(
        settings: &Settings,
        executors: Vec<Arc<dyn ToolExecutor>>,
        store: Arc<dyn Store>,
    ) -> anyhow::Result<Self> {
        let extra = tools::ExtraTools { executors, mocks: None };
        let assembly = Assembly::build_with_store(settings, extra, store).await?;
        let stopping = ShutdownFlag::default();
        let generation = Generation::new(settings, &assembly, &stopping);
        Ok(Self {
            assembly,
            stopping,
            current: Arc::new(ArcSwap::from_pointee(generation)),
            reloading: None,
            drain_timeout: settings.server.drain_timeout,
            server: settings.server.clone(),
            maintenance: settings.store.maintenance_interval,
            _lock: None,
        })
    }

    /// Serves until `shutdown` and its delay are over, then lets what was accepted end, within the drain deadline, before
    /// it returns.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) {
        let tasks = TaskTracker::new();
        let closing = CancellationToken::new();
        let Self { assembly, stopping, current, reloading, drain_timeout, server, maintenance, _lock } = self;
        let (store, metrics) = (Arc::clone(assembly.engine.store()), Arc::clone(&assembly.metrics));
        let (admission, in_flight) =
            (Arc::clone(assembly.engine.admission()), Arc::clone(&assembly.in_flight));
        tasks.spawn(maintain(Arc::clone(&store), maintenance, closing.clone()));
        generation::spawn_tool_cleanup(&assembly.tools, &tasks, closing.clone());
        let (sessions, until) = (Arc::clone(assembly.tools.mcp.sessions()), closing.clone());
        tasks.spawn(async move { sessions.run_eviction(until).await });
        let (close, closing_time) = oneshot::channel();
        let delay = shutdown_delay(&server, &listener);
        let listening = HttpServer::new(Arc::clone(&current), &server, metrics, stopping.clone());
        let serving = tasks.spawn(listening.serve(listener, closing_time));
        tasks.spawn(announce::ready(Arc::clone(&current), closing.clone()));
        if let Some((running, hangups)) = reloading {
            let (stopping, closing) = (stopping.clone(), closing.clone());
            let reloader = Reloader { running, assembly, current, stopping, tasks: tasks.clone(), closing };
            tasks.spawn(reloader.run(hangups, shutdown.clone()));
        } else {
            // Only the service and its requests hold it from now on.
            drop(assembly);
        }
        shutdown.cancelled().await;
        stopping.set();
        if !delay.is_zero() {
            let delay_ms = delay.as_millis() as u64;
            tracing::info!(delay_ms, "told to stop; work is accepted until the shutdown delay is over");
            tokio::time::sleep(delay).await;
        }
        tracing::info!("draining");
        let deadline = Instant::now() + drain_timeout;
        // Answers go on while running responses end: probes must see that this instance is going.
        admission.close();
        in_flight.drain(drain_timeout).await;
        admission.close_sessions();
        // What is passed through is no run, and may go on until the same deadline.
        let time = deadline.saturating_duration_since(Instant::now()).max(CLOSING_TIME);
        if close.send(time).is_err() || serving.await.is_err() {
            tracing::error!("the listener's task failed");
        }
        closing.cancel();
        tasks.close();
        tasks.wait().await;
        store.close().await;
        tracing::info!("stopped");
    }
}

/// For how long a process that was told to stop accepts work.
fn shutdown_delay(server: &ServerSettings, listener: &TcpListener) -> Duration {
    server.shutdown_delay.unwrap_or_else(|| match listener.local_addr() {
        Ok(address) if address.ip().to_canonical().is_loopback() => Duration::ZERO,
        _ => AUTO_SHUTDOWN_DELAY,
    })
}

async fn maintain(store: Arc<dyn Store>, every: Duration, closing: CancellationToken) {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = closing.cancelled() => return,
        }
        if let Err(error) = store.maintain().await {
            tracing::warn!(%error, "maintaining the store");
        }
    }
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
