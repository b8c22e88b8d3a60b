//! Puts the gateway together from its settings, and runs it from the first connection to the last.

mod impatient;
mod listen;
mod seal_key;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::Authenticator;
use crate::config::{Settings, StoreUrl, Synchronous};
use crate::engine::{Engine, Limits, Parts};
use crate::provider::models::ModelCatalog;
use crate::provider::routing::Router;
use crate::response::seal::SealKeys;
use crate::store::Store;
use crate::store::sqlite::{self, Location, SqliteOptions, SqliteStore};
use crate::telemetry::metrics::Metrics;
use crate::transport::{AppState, Shared, routes};

/// How long connections may take at least to close once all responses have ended.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// A gateway that is ready to serve.
pub struct App {
    engine: Arc<Engine>,
    state: AppState,
    drain_timeout: Duration,
    write_timeout: Duration,
    maintenance: Duration,
}

impl App {
    /// Opens the database and makes everything ready; asks no provider.
    pub fn build(settings: &Settings) -> anyhow::Result<Self> {
        let metrics = Metrics::install();
        let store = open_store(settings)?;
        let seal = SealKeys::new(&seal_key::load(settings)?).context("seal.keys")?;
        let router = Arc::new(Router::new(&settings.providers, &metrics)?);
        let catalog = Arc::new(ModelCatalog::new(Arc::clone(&router), settings.models.cache_ttl));
        let engine = Engine::new(Parts {
            router,
            store,
            seal,
            metrics: Arc::clone(&metrics),
            limits: Limits {
                engine: settings.engine.clone(),
                execution_enabled: settings.tools.execution_enabled,
                unknown_fields: settings.compat.unknown_fields,
                commit_after: settings.sse.commit_after,
                write_timeout: settings.server.write_timeout,
                max_runs: settings.server.max_runs,
            },
        });
        let state = AppState::new(Shared {
            engine: Arc::clone(&engine),
            auth: Authenticator::new(&settings.auth),
            catalog,
            metrics,
            dialect: settings.engine.dialect,
            keepalive: settings.sse.keepalive,
            body_limit: settings.server.request_body_limit,
            cors_origins: settings.server.cors.allowed_origins.clone(),
            accepting: AtomicBool::new(true),
        });
        Ok(Self {
            engine,
            state,
            drain_timeout: settings.server.drain_timeout,
            write_timeout: settings.server.write_timeout,
            maintenance: settings.store.maintenance_interval,
        })
    }

    /// Serves until `shutdown`, then lets running responses end, within the drain deadline, before it returns.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) {
        let tasks = TaskTracker::new();
        let closing = CancellationToken::new();
        tasks.spawn(maintain(Arc::clone(self.engine.store()), self.maintenance, closing.clone()));
        let service = routes::router(self.state.clone());
        let (close, closing_time) = oneshot::channel();
        let serving = tasks.spawn(listen::serve(listener, service, self.write_timeout, closing_time));
        shutdown.cancelled().await;
        tracing::info!("draining");
        let deadline = Instant::now() + self.drain_timeout;
        // Answers go on while running responses end: probes must see that this instance is going.
        self.state.stop_accepting();
        self.engine.drain(self.drain_timeout).await;
        // What is passed through is no run, and may go on until the same deadline.
        let time = deadline.saturating_duration_since(Instant::now()).max(CLOSING_TIME);
        if close.send(time).is_err() || serving.await.is_err() {
            tracing::error!("the listener's task failed");
        }
        closing.cancel();
        tasks.close();
        tasks.wait().await;
        self.engine.store().close().await;
        tracing::info!("stopped");
    }
}

fn open_store(settings: &Settings) -> anyhow::Result<Arc<dyn Store>> {
    let location = match &settings.store.url {
        StoreUrl::Sqlite(path) => Location::File(path.clone()),
        StoreUrl::Memory => Location::Memory,
    };
    let store = SqliteStore::open(SqliteOptions {
        location,
        synchronous: match settings.store.synchronous {
            Synchronous::Normal => sqlite::Synchronous::Normal,
            Synchronous::Full => sqlite::Synchronous::Full,
        },
        ttl: settings.store.ttl,
        max_bytes: settings.store.max_size.map(|bytes| bytes as u64),
        instance: instance(settings),
        lease: settings.store.lease,
    })
    .context("opening the store (store.url)")?;
    Ok(Arc::new(store))
}

/// Under which name this process owns what it runs: the same after a restart, another for every process.
fn instance(settings: &Settings) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}/{}", host.trim(), settings.listen)
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
