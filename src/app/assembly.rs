//! The components of a gateway without its listener, as `serve`, `demo` and `prompt` build them.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;

use super::admission_limits::admission_limits;
use super::connection_limit::effective_connections;
use super::open_store::{StoreUser, open_store};
use super::store_settings::requesters;
use super::tools::{self, GatewayTools, PreviousTools};
use super::{bus, checks, migration, seal_key};
use crate::auth::Authenticator;
use crate::transport::Services;
use antwort_config::settings::AgentSettings;
use antwort_config::{ConfigChange, Settings, rebuilds_for};
use antwort_engine::{Engine, EngineOptions, EngineParts, InFlight, Recovery, Webhooks};
use antwort_limits::Admission;
use antwort_provider::models::ModelCatalog;
use antwort_provider::routing::ProviderRouter;
use antwort_response::seal::SealKeys;
use antwort_store::Store;
use antwort_telemetry::metrics::Metrics;
use antwort_tools::ToolRegistry;

/// The components of a gateway, ready to run responses.
pub struct Assembly {
    /// Runs responses.
    pub engine: Arc<Engine>,
    /// The tools that the gateway runs itself.
    pub toolbox: Arc<ToolRegistry>,
    /// The providers' models, cached.
    pub models: Arc<ModelCatalog>,
    /// The metrics registry.
    pub metrics: Arc<Metrics>,
    /// Running responses, which a shutdown drains.
    pub in_flight: Arc<InFlight>,
    /// Routes models to providers.
    pub router: Arc<ProviderRouter>,
    /// Authenticates callers.
    pub(super) auth: Arc<Authenticator>,
    /// Agent profiles by name.
    agents: Arc<BTreeMap<String, AgentSettings>>,
    pub(super) tools: GatewayTools,
    shared: ProcessWide,
}

/// Components that exist once per process and survive reloads.
#[derive(Clone)]
struct ProcessWide {
    store: Arc<dyn Store>,
    seal: Arc<SealKeys>,
    metrics: Arc<Metrics>,
    admission: Arc<Admission>,
    in_flight: Arc<InFlight>,
    webhooks: Arc<Webhooks>,
}

impl Assembly {
    /// Opens the database and the tools; sends no request to a provider.
    pub async fn build(settings: &Settings, extra: tools::ExtraTools) -> anyhow::Result<Self> {
        migration::migrate_unused(settings)?;
        let store = open_store(settings, StoreUser::Command).await?;
        Self::build_with_store(settings, extra, store).await
    }

    /// Like [`Self::build`], with a store that is already open.
    pub(super) async fn build_with_store(
        settings: &Settings,
        extra: tools::ExtraTools,
        store: Arc<dyn Store>,
    ) -> anyhow::Result<Self> {
        let metrics = Metrics::new();
        let admission =
            Admission::new(&admission_limits(settings, effective_connections(&settings.server).1), &metrics);
        let seal = SealKeys::new(&seal_key::load(settings)?).context("seal.keys")?;
        let webhooks = Webhooks::new(&settings.webhooks);
        settings.webhooks.keys().for_each(|name| metrics.known_webhook(name));
        let recovery = Recovery::new(Arc::clone(&store), Arc::clone(&seal))
            .with_webhooks(Arc::clone(&webhooks))
            .with_callback_timeout(settings.tools.callback_timeout);
        // A gateway that cannot write serves what it has.
        if let Err(error) = recovery.run().await {
            tracing::warn!(%error, "store: ending orphaned responses failed");
        }
        let router = ProviderRouter::new(&settings.providers, &metrics)?;
        let tools = tools::open(settings, &admission, &metrics, extra).await?;
        let in_flight = InFlight::new(bus::open(settings, &metrics)?);
        let counted = Arc::downgrade(&in_flight);
        store.set_runs_in_flight(Arc::new(move || counted.upgrade().map_or(0, |runs| runs.count())));
        let shared = ProcessWide { store, seal, metrics, admission, in_flight, webhooks };
        Ok(Self::from_parts(settings, shared, router, tools))
    }

    /// Builds the components for changed settings. Leaves the ones in use unchanged, so that a failed reload has no effect.
    pub(super) async fn rebuild(
        &self,
        settings: &Settings,
        changes: &[ConfigChange],
    ) -> anyhow::Result<Self> {
        checks::page(settings)?;
        let shared = self.shared.clone();
        // Rebuilt on every reload, whatever changed: that only costs its idle connections.
        let router = ProviderRouter::new(&settings.providers, &shared.metrics).context("providers")?;
        let tools = match rebuilds_for(changes).is_nothing() {
            true => self.tools.clone(),
            false => {
                let before = PreviousTools { tools: &self.tools, changes };
                tools::reopen(before, settings, &shared.admission, &shared.metrics).await?
            }
        };
        Ok(Self::from_parts(settings, shared, router, tools))
    }

    fn from_parts(
        settings: &Settings,
        shared: ProcessWide,
        router: ProviderRouter,
        tools: GatewayTools,
    ) -> Self {
        let (router, agents) = (Arc::new(router), Arc::new(settings.agents.clone()));
        let auth = Arc::new(Authenticator::new(&settings.auth));
        let models = Arc::new(ModelCatalog::new(Arc::clone(&router), settings.models.cache_ttl));
        let ProcessWide { store, seal, metrics, admission, in_flight, webhooks } = shared.clone();
        let engine = Engine::new(EngineParts {
            router: Arc::clone(&router),
            store,
            seal,
            metrics: Arc::clone(&metrics),
            toolbox: Arc::clone(&tools.toolbox),
            mcp: Arc::clone(&tools.mcp),
            tools_in_use: Arc::clone(&tools.in_use),
            callers: Arc::<Authenticator>::clone(&auth),
            agents: Arc::clone(&agents),
            admission,
            in_flight: Arc::clone(&in_flight),
            options: EngineOptions {
                engine: settings.engine.clone(),
                jobs: settings.jobs.clone(),
                tools: Arc::new(settings.tools.clone()),
                unknown_fields: settings.compat.unknown_fields,
                commit_after: settings.sse.commit_after,
                write_timeout: settings.server.write_timeout,
                public_url: settings.server.public_url.as_deref().map(Arc::from),
                webhooks,
            },
        });
        if let Some(sampler) = &tools.sampler {
            sampler.set_engine(&engine);
        }
        let toolbox = Arc::clone(&tools.toolbox);
        Self { engine, auth, toolbox, models, metrics, in_flight, router, agents, tools, shared }
    }

    /// What routes use without a run.
    pub(super) fn services(&self) -> Services {
        Services {
            store: Arc::clone(&self.shared.store),
            admission: Arc::clone(&self.shared.admission),
            router: Arc::clone(&self.router),
            catalog: Arc::clone(&self.models),
            toolbox: Arc::clone(&self.toolbox),
            mcp: Arc::clone(&self.tools.mcp),
            agents: Arc::clone(&self.agents),
        }
    }

    /// The semaphores of admission control.
    pub(super) fn admission(&self) -> &Arc<Admission> {
        &self.shared.admission
    }

    /// The store of responses.
    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// Ends the runs of processes that are gone.
    pub(super) fn recovery(&self) -> Recovery {
        self.engine.recovery()
    }

    /// Tells the store which keys its readers are shared among.
    pub(super) fn set_store_requesters(&self, settings: &Settings) {
        self.shared.store.set_requesters(&requesters(settings));
    }
}
