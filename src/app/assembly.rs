//! What a gateway is without its listener: `serve`, `demo` and `prompt` put the same parts together.

use std::sync::Arc;

use anyhow::Context;

use super::tools::{self, GatewayTools, PreviousTools};
use super::{migration, seal_key};
use crate::admission::{Admission, Requester};
use crate::config::{ConfigChange, Settings, StoreUrl, Synchronous};
use crate::engine::{Engine, EngineOptions, EngineParts, InFlight};
use crate::provider::models::ModelCatalog;
use crate::provider::routing::ProviderRouter;
use crate::response::seal::SealKeys;
use crate::store::Store;
use crate::store::sqlite::{self, Location, SqliteOptions, SqliteStore};
use crate::telemetry::metrics::Metrics;
use crate::tools::ToolRegistry;

/// The parts of a gateway, ready to make responses.
pub struct Assembly {
    /// Makes responses.
    pub engine: Arc<Engine>,
    /// The tools that it runs.
    pub toolbox: Arc<ToolRegistry>,
    /// The models that there are.
    pub models: Arc<ModelCatalog>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What a shutdown has to wait for.
    pub in_flight: Arc<InFlight>,
    pub(super) tools: GatewayTools,
    process: Process,
}

/// What there is once, whatever is reloaded.
#[derive(Clone)]
struct Process {
    store: Arc<dyn Store>,
    seal: Arc<SealKeys>,
    metrics: Arc<Metrics>,
    admission: Arc<Admission>,
    in_flight: Arc<InFlight>,
}

/// Sections that no tool depends on: where only these differ, all tools are kept as they are.
const NON_TOOL_SECTIONS: [&str; 9] =
    ["auth", "compat", "config", "engine", "log", "models", "providers", "server", "sse"];

impl Assembly {
    /// Opens the database and the tools; asks no provider.
    pub async fn build(settings: &Settings, extra: tools::ExtraTools) -> anyhow::Result<Self> {
        migration::migrate_unused(settings)?;
        let store = open_store(settings, StoreUser::Command)?;
        Self::build_with_store(settings, extra, store).await
    }

    /// The same around a store that is open.
    pub(super) async fn build_with_store(
        settings: &Settings,
        extra: tools::ExtraTools,
        store: Arc<dyn Store>,
    ) -> anyhow::Result<Self> {
        let metrics = Metrics::new();
        let admission = Admission::new(settings, &metrics);
        let seal = SealKeys::new(&seal_key::load(settings)?).context("seal.keys")?;
        let router = ProviderRouter::new(&settings.providers, &metrics)?;
        let tools = tools::open(settings, &admission, &metrics, extra).await?;
        let process = Process { store, seal, metrics, admission, in_flight: InFlight::new() };
        Ok(Self::put_together(settings, process, router, tools))
    }

    /// The same process by other settings, of which these keys differ. Changes nothing of what is in use.
    pub(super) async fn rebuild(
        &self,
        settings: &Settings,
        changes: &[ConfigChange],
    ) -> anyhow::Result<Self> {
        let process = self.process.clone();
        // Also where nothing of them differs: the certificates that they name may have.
        let router = ProviderRouter::new(&settings.providers, &process.metrics).context("providers")?;
        let tools = match changes.iter().any(|change| change.is_outside(&NON_TOOL_SECTIONS)) {
            false => self.tools.clone(),
            true => {
                let before = PreviousTools { tools: &self.tools, changes };
                tools::reopen(before, settings, &process.admission, &process.metrics).await?
            }
        };
        Ok(Self::put_together(settings, process, router, tools))
    }

    fn put_together(
        settings: &Settings,
        process: Process,
        router: ProviderRouter,
        tools: GatewayTools,
    ) -> Self {
        let router = Arc::new(router);
        let models = Arc::new(ModelCatalog::new(Arc::clone(&router), settings.models.cache_ttl));
        let Process { store, seal, metrics, admission, in_flight } = process.clone();
        let engine = Engine::new(EngineParts {
            router,
            store,
            seal,
            metrics: Arc::clone(&metrics),
            toolbox: Arc::clone(&tools.toolbox),
            mcp: Arc::clone(&tools.mcp),
            tools_in_use: Arc::clone(&tools.in_use),
            agents: Arc::new(settings.agents.clone()),
            admission,
            in_flight: Arc::clone(&in_flight),
            options: EngineOptions {
                engine: settings.engine.clone(),
                tools: Arc::new(settings.tools.clone()),
                unknown_fields: settings.compat.unknown_fields,
                commit_after: settings.sse.commit_after,
                write_timeout: settings.server.write_timeout,
            },
        });
        if let Some(sampler) = &tools.sampler {
            sampler.ask(&engine);
        }
        Self { engine, toolbox: Arc::clone(&tools.toolbox), models, metrics, in_flight, tools, process }
    }

    /// Has the store share out its readers among those who have keys by these settings.
    pub(super) fn share_store(&self, settings: &Settings) {
        self.process.store.set_requesters(&requesters(settings));
    }
}

/// Whose share of the store's readers each key takes.
fn requesters(settings: &Settings) -> Vec<Requester> {
    settings.auth.keys.values().map(|key| Requester::new(&key.tenant, &key.owner)).collect()
}

/// Who opens the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreUser {
    /// A server, which keeps a reserve on its disk.
    Server,
    /// A command, which is soon over.
    Command,
}

pub(super) fn open_store(settings: &Settings, opener: StoreUser) -> anyhow::Result<Arc<dyn Store>> {
    let location = match &settings.store.url {
        StoreUrl::Sqlite(path) => Location::File(path.clone()),
        StoreUrl::Memory => Location::Memory,
    };
    let store = SqliteStore::open(SqliteOptions {
        synchronous: match settings.store.synchronous {
            Synchronous::Normal => sqlite::Synchronous::Normal,
            Synchronous::Full => sqlite::Synchronous::Full,
        },
        ttl: settings.store.ttl,
        max_bytes: settings.store.max_size.map(|bytes| bytes as u64),
        lease: settings.store.lease,
        requesters: requesters(settings),
        reserve: opener == StoreUser::Server,
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
