//! What a gateway is without its listener: `serve`, `demo` and `prompt` put the same parts together.

use std::sync::Arc;

use anyhow::Context;

use super::{migration, seal_key, tools};
use crate::admission::{Admission, Requester};
use crate::config::{Settings, StoreUrl, Synchronous};
use crate::engine::{Engine, InFlight, Limits, Parts};
use crate::provider::models::ModelCatalog;
use crate::provider::routing::Router;
use crate::response::seal::SealKeys;
use crate::store::Store;
use crate::store::sqlite::{self, Location, SqliteOptions, SqliteStore};
use crate::telemetry::metrics::Metrics;
use crate::tools::Toolbox;

/// The parts of a gateway, ready to make responses.
pub struct Assembly {
    /// Makes responses.
    pub engine: Arc<Engine>,
    /// The tools that it runs.
    pub toolbox: Arc<Toolbox>,
    /// The models that there are.
    pub models: Arc<ModelCatalog>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What a shutdown has to wait for.
    pub in_flight: Arc<InFlight>,
}

impl Assembly {
    /// Opens the database and the tools; asks no provider.
    pub async fn of(settings: &Settings, extra: tools::Extra) -> anyhow::Result<Self> {
        migration::migrate_unused(settings)?;
        let store = open_store(settings, Opener::Command)?;
        Self::around(settings, extra, store).await
    }

    /// The same around a store that is open.
    pub(super) async fn around(
        settings: &Settings,
        extra: tools::Extra,
        store: Arc<dyn Store>,
    ) -> anyhow::Result<Self> {
        let metrics = Metrics::install();
        let admission = Admission::new(settings, &metrics);
        let in_flight = InFlight::new();
        let tools::Tools { toolbox, mcp, sampler } =
            tools::open(settings, &admission, &metrics, extra).await?;
        let seal = SealKeys::new(&seal_key::load(settings)?).context("seal.keys")?;
        let router = Arc::new(Router::new(&settings.providers, &metrics)?);
        let models = Arc::new(ModelCatalog::new(Arc::clone(&router), settings.models.cache_ttl));
        let engine = Engine::new(Parts {
            router,
            store,
            seal,
            metrics: Arc::clone(&metrics),
            toolbox: Arc::clone(&toolbox),
            mcp,
            agents: Arc::new(settings.agents.clone()),
            admission,
            in_flight: Arc::clone(&in_flight),
            limits: Limits {
                engine: settings.engine.clone(),
                tools: Arc::new(settings.tools.clone()),
                unknown_fields: settings.compat.unknown_fields,
                commit_after: settings.sse.commit_after,
                write_timeout: settings.server.write_timeout,
            },
        });
        if let Some(sampler) = sampler {
            sampler.ask(&engine);
        }
        Ok(Self { engine, toolbox, models, metrics, in_flight })
    }
}

/// Who opens the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opener {
    /// A server, which keeps a reserve on its disk.
    Server,
    /// A command, which is soon over.
    Command,
}

pub(super) fn open_store(settings: &Settings, opener: Opener) -> anyhow::Result<Arc<dyn Store>> {
    let location = match &settings.store.url {
        StoreUrl::Sqlite(path) => Location::File(path.clone()),
        StoreUrl::Memory => Location::Memory,
    };
    let owners = settings.auth.keys.values();
    let store = SqliteStore::open(SqliteOptions {
        synchronous: match settings.store.synchronous {
            Synchronous::Normal => sqlite::Synchronous::Normal,
            Synchronous::Full => sqlite::Synchronous::Full,
        },
        ttl: settings.store.ttl,
        max_bytes: settings.store.max_size.map(|bytes| bytes as u64),
        lease: settings.store.lease,
        requesters: owners.map(|key| Requester::new(&key.tenant, &key.owner)).collect(),
        reserve: opener == Opener::Server,
        ..SqliteOptions::new(location, instance(settings))
    })
    .context("opening the store (store.url)")?;
    Ok(Arc::new(store))
}

/// Under which name this process owns what it runs: the same after a restart, another for every process.
fn instance(settings: &Settings) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}/{}", host.trim(), settings.listen)
}
