//! All tools of a gateway: opens the executors, keeps the catalogue, and says who may use what.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use tokio::sync::Mutex;

use super::catalog::Catalog;
use super::catalog_builder::{ExecutorListing, add_tags, build_catalog};
use super::definition::{ToolDefinition, ToolKind};
use super::error::{FailureStage, ToolError, ToolErrorCode};
use super::executor::{ExecutorHealth, LocalExecutor, Tool, ToolExecutor};
use super::layers::cache::ResultCache;
use super::plan::BackendStates;
use super::policy::{AccessPolicy, InvalidPattern, PolicySubject};
use super::read_output::ReadToolOutput;
use super::result_store::ResultStore;
use super::route_check;
use super::stack::{self, Stack, StackParts};
use crate::config::{AgentSettings, OnError, ToolsSettings};
use crate::telemetry::metrics::Metrics;

/// All tools of a gateway.
pub struct ToolRegistry {
    settings: ToolsSettings,
    policy: Arc<AccessPolicy>,
    cache: Arc<ResultCache>,
    states: BackendStates,
    stack: Stack,
    catalog: Arc<ArcSwap<Catalog>>,
    executors: Vec<Arc<dyn ToolExecutor>>,
    /// What was listed last. Locked while a catalogue is made, so that the last one made is the newest.
    listings: Mutex<Vec<ExecutorListing>>,
    is_shut_down: AtomicBool,
}

/// Why the tools cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum ToolRegistryError {
    /// An executor did not become ready.
    #[error("tools of '{executor}': {problem}")]
    Initialize {
        /// Its id.
        executor: String,
        /// Why.
        problem: ToolError,
    },
    /// Two executors have a tool of the same name.
    #[error("'{first}' and '{second}' both have a tool named '{tool}'; see tools.collision and tools.routes")]
    Collision {
        /// The name.
        tool: String,
        /// The id of the first executor.
        first: String,
        /// The id of the second.
        second: String,
    },
    /// A route could never be used.
    #[error("{key}: {problem}")]
    Route {
        /// The setting.
        key: String,
        /// Why.
        problem: String,
    },
    /// A list of tools holds something that is no pattern.
    #[error(transparent)]
    Pattern(#[from] InvalidPattern),
}

impl ToolRegistry {
    /// Initialises the executors, lists their tools and builds the first catalogue.
    ///
    /// An executor that cannot list its tools has none until a refresh.
    ///
    /// # Errors
    /// If an executor cannot be initialised, two tools collide, or a pattern is none. Executors that are
    /// initialised by then are shut down again.
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
        let stack = stack::stack(StackParts {
            metrics,
            policy: Arc::clone(&policy),
            cache: Arc::clone(&cache),
            results: Arc::clone(&results),
            catalog: Arc::downgrade(&catalog),
        });
        initialize(&executors).await?;
        let toolbox = Self {
            settings: settings.clone(),
            policy,
            cache,
            states: BackendStates::default(),
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
        if let Err(error) = toolbox.refresh().await {
            toolbox.shutdown().await;
            return Err(error);
        }
        if let Err(error) = route_check::check(settings, &toolbox.listings.lock().await) {
            toolbox.shutdown().await;
            return Err(error);
        }
        toolbox.warn_misconfigured();
        Ok(Arc::new(toolbox))
    }

    /// Names in the settings that nothing has. No errors: a server may bring its tools later.
    fn warn_misconfigured(&self) {
        let catalog = self.catalog.load();
        let own = self.settings.overrides.values().filter_map(|own| own.on_error.as_ref());
        for on_error in own.chain([&self.settings.on_error]) {
            if let OnError::Fallback(other) = on_error
                && catalog.get(other).is_none()
            {
                tracing::warn!(tool = other, "on_error: there is no such tool to fall back on");
            }
        }
        // Those of MCP servers are listed when they are asked for.
        let is_missing = |tool: &&String| catalog.get(tool).is_none() && !tool.contains("__");
        for tool in self.settings.overrides.keys().filter(is_missing) {
            tracing::warn!(
                tool,
                "tools.overrides: there is no such tool yet; one of an MCP server is label__name"
            );
        }
    }

    /// The tools that there are now. Whoever works with several asks once.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Lists the tools again and puts a new catalogue in the place of the old one. An executor that fails to
    /// answer keeps the tools that it had.
    ///
    /// # Errors
    /// If tools collide now; the old catalogue stays.
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
    /// Says why not, with [`ToolErrorCode::AccessDenied`].
    pub fn check_access(&self, subject: PolicySubject<'_>, tool: &ToolDefinition) -> Result<(), ToolError> {
        self.policy.check(subject, tool)
    }

    /// Whether the lists forbid a name, be there such a tool or not.
    ///
    /// # Errors
    /// As [`Self::check_access`].
    pub fn check_name_access(&self, subject: PolicySubject<'_>, name: &str) -> Result<(), ToolError> {
        self.policy.check_name(subject, name)
    }

    /// Whether a list forbids a tool, whatever is allowed.
    pub(super) fn is_blocked(&self, subject: PolicySubject<'_>, tool: &ToolDefinition) -> bool {
        self.policy.blocks(subject, tool.server.as_deref(), &tool.name)
    }

    /// The layers that lie around every call.
    pub(super) fn stack(&self) -> Stack {
        self.stack.clone()
    }

    /// Forgets the results that could be used again.
    pub fn purge_cache(&self) {
        self.cache.clear();
    }

    /// How each executor is, in the order in which they were given.
    pub async fn health(&self) -> Vec<(String, ExecutorHealth)> {
        join_all(self.executors.iter().map(|executor| health(&**executor, self.settings.timeout))).await
    }

    /// Lets the executors go. To be called after the last call; does nothing the second time.
    pub async fn shutdown(&self) {
        if !self.is_shut_down.swap(true, Ordering::Relaxed) {
            join_all(self.executors.iter().map(|executor| executor.shutdown())).await;
        }
    }
}

/// The tools that belong to the layers.
fn result_reader_executor(
    results: Arc<ResultStore>,
    settings: &ToolsSettings,
) -> Option<Arc<dyn ToolExecutor>> {
    if !results.is_enabled() {
        return None;
    }
    let most = settings.overrides.get(ReadToolOutput::NAME).and_then(|own| own.max_result_bytes);
    let tool = ReadToolOutput::new(results, most.unwrap_or(settings.results.max_bytes));
    Some(Arc::new(LocalExecutor::new("builtin", ToolKind::Builtin, [Arc::new(tool) as Arc<dyn Tool>])))
}

fn unlisted(executor: Arc<dyn ToolExecutor>) -> ExecutorListing {
    ExecutorListing { id: executor.id().into(), executor, tools: Vec::new(), has_listed: false }
}

async fn initialize(executors: &[Arc<dyn ToolExecutor>]) -> Result<(), ToolRegistryError> {
    for (ready, executor) in executors.iter().enumerate() {
        if let Err(problem) = executor.initialize().await {
            join_all(executors.iter().take(ready).map(|executor| executor.shutdown())).await;
            return Err(ToolRegistryError::Initialize { executor: executor.id().to_owned(), problem });
        }
    }
    Ok(())
}

/// What the executor has now, or else what it had.
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
            tracing::warn!(executor = &*listing.id, %error, "an executor does not list its tools");
            listing.clone()
        }
    }
}

async fn health(executor: &dyn ToolExecutor, patience: Duration) -> (String, ExecutorHealth) {
    let answer = tokio::time::timeout(patience, executor.health()).await;
    let health = answer.unwrap_or_else(|_| ExecutorHealth::Unhealthy("does not answer".into()));
    (executor.id().to_owned(), health)
}
