//! The tool registry: initializes the executors, keeps the current catalogue and checks access.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use tokio::sync::Mutex;

use super::builtin;
use super::catalog::Catalog;
use super::catalog_builder::{ExecutorListing, add_tags, build_catalog};
use super::definition::{ToolDefinition, ToolKind};
use super::error::{FailureStage, ToolError, ToolErrorCode};
use super::executor::{ExecutorHealth, LocalExecutor, Tool, ToolExecutor};
use super::executor_state::ExecutorStates;
use super::layers::cache::ResultCache;
use super::layers::on_error::FindFallback;
use super::policy::{AccessPolicy, PolicySubject};
use super::read_output::ReadToolOutput;
use super::registry_error::ToolRegistryError;
use super::result_store::ResultStore;
use super::route_check;
use super::stack::StackBuilder;
use antwort_config::{AgentSettings, OnError, ToolsSettings};
use antwort_telemetry::metrics::Metrics;

/// All tools of the gateway.
pub struct ToolRegistry {
    settings: ToolsSettings,
    policy: Arc<AccessPolicy>,
    cache: Arc<ResultCache>,
    states: ExecutorStates,
    stack: StackBuilder,
    catalog: Arc<ArcSwap<Catalog>>,
    executors: Vec<Arc<dyn ToolExecutor>>,
    /// The last listing of each executor. Locked while a catalogue is built, so that refreshes cannot overtake.
    listings: Mutex<Vec<ExecutorListing>>,
    is_shut_down: AtomicBool,
}

impl ToolRegistry {
    /// Initializes the executors, lists their tools and builds the first catalogue.
    ///
    /// An executor whose listing fails has no tools until a refresh.
    ///
    /// # Errors
    /// If an executor fails to initialize, two tools collide, a route can never be used, or a pattern is invalid.
    /// Executors initialized by then are shut down again.
    pub async fn open(
        settings: &ToolsSettings,
        agents: &BTreeMap<String, AgentSettings>,
        executors: Vec<Arc<dyn ToolExecutor>>,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<Self>, ToolRegistryError> {
        let policy = Arc::new(AccessPolicy::new(settings, agents)?);
        let results = Arc::new(ResultStore::new(&settings.results));
        let cache = Arc::new(ResultCache::new(settings.cache.max_bytes));
        let catalog = Arc::new(ArcSwap::from_pointee(Catalog::new(0, BTreeMap::new())));
        let stack = StackBuilder {
            metrics,
            policy: Arc::clone(&policy),
            cache: Arc::clone(&cache),
            results: Arc::clone(&results),
            find_fallback: find_fallback(&catalog),
        };
        initialize(&executors).await?;
        let registry = Self {
            settings: settings.clone(),
            policy,
            cache,
            states: ExecutorStates::default(),
            stack,
            catalog,
            listings: Mutex::new(
                executors
                    .iter()
                    .cloned()
                    .chain(result_reader_executor(results, settings))
                    .map(unlisted)
                    .collect(),
            ),
            executors,
            is_shut_down: AtomicBool::new(false),
        };
        if let Err(error) = registry.refresh().await {
            registry.shutdown().await;
            return Err(error);
        }
        if let Err(error) = route_check::check(settings, &registry.listings.lock().await) {
            registry.shutdown().await;
            return Err(error);
        }
        registry.warn_misconfigured();
        Ok(Arc::new(registry))
    }

    /// Warns of settings that name unknown tools. Not errors: a server may list its tools later.
    fn warn_misconfigured(&self) {
        let catalog = self.catalog.load();
        let own = self.settings.overrides.values().filter_map(|own| own.on_error.as_ref());
        for on_error in own.chain([&self.settings.on_error]) {
            if let OnError::Fallback(other) = on_error
                && catalog.get(other).is_none()
            {
                tracing::warn!(fallback = other, "on_error names an unknown fallback tool");
            }
        }
        // Tools of MCP servers (`label__name`) are listed on demand.
        let is_missing = |tool: &&String| catalog.get(tool).is_none() && !tool.contains("__");
        for tool in self.settings.overrides.keys().filter(is_missing) {
            tracing::warn!(
                tool,
                "tools.overrides names an unknown tool; for a tool of an MCP server use label__name"
            );
        }
    }

    /// The current catalogue. Take it once for consistent access to several tools.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Why a tool of the gateway's own is not in the catalogue: a setting that it needs. `None` for all others.
    pub fn why_not_configured(&self, name: &str) -> Option<&'static str> {
        let is_missing = self.catalog().get(name).is_none();
        builtin::unavailable_reason(name, &self.settings).filter(|_| is_missing)
    }

    /// Whether every executor has listed its tools, so that no others are to come but by a change.
    pub async fn has_listed_all(&self) -> bool {
        self.listings.lock().await.iter().all(|listing| listing.has_listed)
    }

    /// Lists all tools again and publishes a new catalogue. An executor whose listing fails keeps its previous tools.
    ///
    /// # Errors
    /// If tools collide; the previous catalogue stays current.
    pub async fn refresh(&self) -> Result<(), ToolRegistryError> {
        let mut listings = self.listings.lock().await;
        let fresh = join_all(listings.iter().map(|listing| list(listing, &self.settings))).await;
        let version = self.catalog.load().version() + 1;
        let catalog = build_catalog(&self.settings, &fresh, &self.states, &self.stack, version)?;
        *listings = fresh;
        self.catalog.store(Arc::new(catalog));
        Ok(())
    }

    /// Whether a tool may be used.
    ///
    /// # Errors
    /// [`ToolErrorCode::AccessDenied`] with the reason.
    pub fn check_access(&self, subject: PolicySubject<'_>, tool: &ToolDefinition) -> Result<(), ToolError> {
        self.policy.check(subject, tool)
    }

    /// Whether the policy lists permit a name, whether or not such a tool exists.
    ///
    /// # Errors
    /// As [`Self::check_access`].
    pub fn check_name_access(&self, subject: PolicySubject<'_>, name: &str) -> Result<(), ToolError> {
        self.policy.check_name(subject, name)
    }

    /// Whether a blocklist matches a tool, regardless of allowlists.
    pub fn is_blocked(&self, subject: PolicySubject<'_>, tool: &ToolDefinition) -> bool {
        self.policy.blocks(subject, tool.server.as_deref(), &tool.name)
    }

    /// The layers around every call.
    pub fn stack(&self) -> StackBuilder {
        self.stack.clone()
    }

    /// Removes the results of these tenants' calls from the cache.
    pub fn purge_cache(&self, is_meant: impl Fn(&str) -> bool) {
        self.cache.remove_if(|key| is_meant(&key.tenant));
    }

    /// Health of each executor, in the order of configuration.
    pub async fn health(&self) -> Vec<(String, ExecutorHealth)> {
        join_all(self.executors.iter().map(|executor| health(&**executor, self.settings.timeout))).await
    }

    /// Shuts the executors down, once. To be called after the last tool call.
    pub async fn shutdown(&self) {
        if !self.is_shut_down.swap(true, Ordering::Relaxed) {
            join_all(self.executors.iter().map(|executor| executor.shutdown())).await;
        }
    }
}

/// The executor of `read_tool_output`, which reads what the `truncate` layer stored.
fn result_reader_executor(
    results: Arc<ResultStore>,
    settings: &ToolsSettings,
) -> Option<Arc<dyn ToolExecutor>> {
    if !results.is_enabled() {
        return None;
    }
    let max_bytes = settings.overrides.get(ReadToolOutput::NAME).and_then(|own| own.max_result_bytes);
    let tool = ReadToolOutput::new(results, max_bytes.unwrap_or(settings.results.max_bytes));
    Some(Arc::new(LocalExecutor::new("builtin", ToolKind::Builtin, [Arc::new(tool) as Arc<dyn Tool>])))
}

fn unlisted(executor: Arc<dyn ToolExecutor>) -> ExecutorListing {
    ExecutorListing { id: executor.id().into(), executor, tools: Vec::new(), has_listed: false }
}

async fn initialize(executors: &[Arc<dyn ToolExecutor>]) -> Result<(), ToolRegistryError> {
    for (initialized, executor) in executors.iter().enumerate() {
        if let Err(problem) = executor.initialize().await {
            join_all(executors.iter().take(initialized).map(|executor| executor.shutdown())).await;
            return Err(ToolRegistryError::Initialize { executor: executor.id().to_owned(), problem });
        }
    }
    Ok(())
}

/// The executor's current tools, or after a failure its previous ones.
async fn list(listing: &ExecutorListing, settings: &ToolsSettings) -> ExecutorListing {
    let answer = tokio::time::timeout(settings.timeout, listing.executor.list()).await;
    let answer = answer.unwrap_or_else(|_| {
        Err(ToolError::new(ToolErrorCode::ToolTimeout, FailureStage::Transport, "timed out"))
    });
    match answer {
        Ok(mut tools) => {
            let tags = settings.executors.get(&*listing.id).map_or(&[][..], |of| &of.tags);
            tools.iter_mut().for_each(|tool| add_tags(&mut tool.tags, tags));
            ExecutorListing { tools, has_listed: true, ..listing.clone() }
        }
        Err(error) => {
            tracing::warn!(executor = &*listing.id, %error, "listing the tools of an executor failed");
            listing.clone()
        }
    }
}

fn find_fallback(catalog: &Arc<ArcSwap<Catalog>>) -> FindFallback {
    // Weak, because the tools in the catalogue own the stacks that own this.
    let catalog = Arc::downgrade(catalog);
    Arc::new(move |name| {
        let tool = catalog.upgrade()?.load().get(name).cloned()?;
        Some(Box::new(move |failed| tool.call_as_fallback(failed)))
    })
}

async fn health(executor: &dyn ToolExecutor, timeout: Duration) -> (String, ExecutorHealth) {
    let answer = tokio::time::timeout(timeout, executor.health()).await;
    let health = answer.unwrap_or_else(|_| ExecutorHealth::Unhealthy("health check timed out".into()));
    (executor.id().to_owned(), health)
}
