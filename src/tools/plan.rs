//! How calls of one tool are made: general settings and the tool's own, resolved once for a catalogue.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use globset::Glob;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::definition::ToolDefinition;
use super::layers::breaker::BreakerState;
use super::router::Route;
use crate::config::{OnError, ReturnSchema, ToolOverride, ToolRetry, ToolsSettings};
use crate::protocol::json::RawJson;
use crate::protocol::schema::CompiledSchema;

/// How calls of one tool are made.
pub(super) struct CallPlan {
    pub definition: Arc<ToolDefinition>,
    /// [`ToolDefinition::qualified_name`], made once.
    qualified_name: String,
    pub route: Route,
    schemas: Arc<ToolSchemas>,
    /// What becomes of a result that is not by the tool's schema, if it has one and results are checked.
    returns: Option<ReturnSchema>,
    pub on_error: OnError,
    pub timeout: Duration,
    /// `None`: a call is made once.
    pub retry: Option<ToolRetry>,
    pub may_repeat: bool,
    pub max_calls: Option<u64>,
    pub max_result_bytes: usize,
    /// `None`: results are not used again.
    pub cache: Option<CachePolicy>,
    /// What its server is told of the caller, as a hash: results of one context are for no other.
    pub context: Option<[u8; 32]>,
}

/// For how long and for whom results are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CachePolicy {
    pub ttl: Duration,
    pub per_user: bool,
}

/// The schemas of a tool, compiled when a value is first held against them, or before.
#[derive(Default)]
pub(super) struct ToolSchemas {
    arguments: OnceLock<Compiled>,
    returns: OnceLock<Compiled>,
    meter: Option<Arc<dyn MemoryMeter>>,
}

/// A schema, and that its memory is counted.
type Compiled = (Arc<CompiledSchema>, Option<Box<dyn Any + Send + Sync>>);

/// Counts the memory of schemas that are compiled while calls are made.
pub(super) trait MemoryMeter: Send + Sync {
    /// Counts so many bytes until what it gives is dropped; `None`: there is no room for them.
    fn try_reserve(&self, bytes: usize) -> Option<Box<dyn Any + Send + Sync>>;
}

/// Bytes of a compiled schema for each of its text: an estimate, above what ordinary schemas take.
const COMPILED_SIZE_FACTOR: usize = 32;

impl ToolSchemas {
    /// Compiled at the first call, and kept if there is room for it.
    pub(super) fn lazy(meter: Option<Arc<dyn MemoryMeter>>) -> Self {
        Self { meter, ..Self::default() }
    }

    /// Of which it is known that they can be compiled.
    fn compiled(definition: &ToolDefinition, with_returns: bool) -> Result<Self, String> {
        let schemas = Self::default();
        schemas.get(&schemas.arguments, &definition.parameters)?;
        if let Some(returns) = definition.returns.as_ref().filter(|_| with_returns) {
            schemas.get(&schemas.returns, returns)?;
        }
        Ok(schemas)
    }

    fn get(&self, place: &OnceLock<Compiled>, text: &RawJson) -> Result<Arc<CompiledSchema>, String> {
        if let Some((schema, _)) = place.get() {
            return Ok(Arc::clone(schema));
        }
        let schema = Arc::new(compile(text)?);
        let bytes = text.get().len().saturating_mul(COMPILED_SIZE_FACTOR);
        let room = self.meter.as_ref().map(|meter| meter.try_reserve(bytes));
        if !matches!(room, Some(None)) {
            _ = place.set((Arc::clone(&schema), room.flatten()));
        }
        Ok(schema)
    }
}

impl CallPlan {
    /// # Errors
    /// In words, if a schema cannot be compiled.
    pub(super) fn new(
        definition: ToolDefinition,
        route: Route,
        settings: &ToolsSettings,
    ) -> Result<Self, String> {
        let schemas = ToolSchemas::compiled(&definition, checks_results(settings))?;
        Ok(Self::with_schemas(Arc::new(definition), Arc::new(schemas), route, settings))
    }

    /// The same for a definition that others have, too, whose schemas may be compiled later.
    pub(super) fn with_schemas(
        definition: Arc<ToolDefinition>,
        schemas: Arc<ToolSchemas>,
        route: Route,
        settings: &ToolsSettings,
    ) -> Self {
        let none = ToolOverride::default();
        let qualified_name = definition.qualified_name().into_owned();
        let own = settings.overrides.get(&qualified_name).unwrap_or(&none);
        let may_repeat = own.idempotent.unwrap_or_else(|| definition.annotations.may_repeat());
        let retry = own.retry.as_ref().unwrap_or(&settings.retry);
        let has_returns = definition.returns.is_some() && checks_results(settings);
        Self {
            route,
            schemas,
            returns: has_returns.then_some(settings.results.return_schema),
            on_error: own.on_error.as_ref().unwrap_or(&settings.on_error).clone(),
            timeout: own.timeout.unwrap_or(settings.timeout),
            retry: Some(retry.clone()).filter(|retry| may_repeat && retry.max > 0),
            may_repeat,
            max_calls: own.max_calls,
            max_result_bytes: own.max_result_bytes.unwrap_or(settings.results.max_bytes),
            cache: cache_policy(&definition, &qualified_name, own, settings),
            context: None,
            definition,
            qualified_name,
        }
    }

    /// What arguments are checked by.
    ///
    /// # Errors
    /// In words, if it cannot be compiled.
    pub(super) fn arguments(&self) -> Result<Arc<CompiledSchema>, String> {
        self.schemas.get(&self.schemas.arguments, &self.definition.parameters)
    }

    /// Whether results are held to a schema.
    pub(super) fn checks_results(&self) -> bool {
        self.returns.is_some()
    }

    /// What results are held to, and what becomes of those that do not fit. A schema of results that cannot be used is no
    /// reason to do without them.
    pub(super) fn returns(&self) -> Option<(Arc<CompiledSchema>, ReturnSchema)> {
        let (severity, text) = self.returns.zip(self.definition.returns.as_ref())?;
        Some((self.schemas.get(&self.schemas.returns, text).ok()?, severity))
    }

    /// The same, for calls of one context.
    pub(super) fn for_context(mut self, context: Option<[u8; 32]>) -> Self {
        self.context = context;
        self
    }

    /// The tool's name.
    pub(super) fn name(&self) -> &str {
        &self.definition.name
    }

    /// The name for metrics and records.
    pub(super) fn qualified_name(&self) -> &str {
        &self.qualified_name
    }
}

/// Whether, and for how long, results of a tool are used again.
///
/// Only what changes nothing qualifies by its hints: a cached result means that the call is not made. What the
/// operator says of the tool by name goes before hints, as those are of unknown worth and mostly absent.
fn cache_policy(
    definition: &ToolDefinition,
    qualified_name: &str,
    own: &ToolOverride,
    settings: &ToolsSettings,
) -> Option<CachePolicy> {
    let cache = &settings.cache;
    // What forbids holds under either name, and a name alone means the tool whoever has it.
    let never = |pattern: &String| matches(pattern, qualified_name) || matches(pattern, &definition.name);
    if !cache.enabled || own.cacheable == Some(false) || cache.never.iter().any(never) {
        return None;
    }
    let named = cache.ttl.get(qualified_name).or_else(|| cache.ttl.get(&definition.name));
    let hints = definition.annotations;
    let changes_something = hints.destructive || !hints.read_only;
    let by_hints = !changes_something && (!hints.open_world || named.is_some());
    if !by_hints && own.cacheable != Some(true) {
        return None;
    }
    let ttl = *named.or_else(|| cache.ttl.get("default"))?;
    // A result that was got with somebody's credentials is for nobody else.
    let per_user = own.cache_per_user || definition.requires_auth;
    (!ttl.is_zero()).then_some(CachePolicy { ttl, per_user })
}

fn checks_results(settings: &ToolsSettings) -> bool {
    settings.results.return_schema != ReturnSchema::Off
}

/// Whether a name is by a glob. Most are plain names, which need not be compiled.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.contains(['*', '?', '[', '{', '\\']) {
        true => Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(name)),
        false => pattern == name,
    }
}

/// Compiles a schema of arguments or results.
///
/// # Errors
/// In words.
pub(super) fn compile(schema: &RawJson) -> Result<CompiledSchema, String> {
    let value: Value = serde_json::from_str(schema.get()).map_err(|error| error.to_string())?;
    if !value.is_object() {
        return Err("the schema is no object".into());
    }
    CompiledSchema::compile(&value)
}

/// What is known of one executor of a tool; outlives catalogues.
pub(super) struct BackendState {
    pub breaker: BreakerState,
    /// Shared by all executors of the tool; `None`: any number of calls at a time.
    pub tool_semaphore: Option<Arc<Semaphore>>,
    /// Shared by all tools of the executor; `None`: any number of calls at a time.
    pub executor_semaphore: Option<Arc<Semaphore>>,
    /// How long the executor may take for one attempt.
    pub attempt_timeout: Option<Duration>,
    inflight: AtomicUsize,
}

impl BackendState {
    pub(super) fn new(breaker: BreakerState) -> Self {
        Self {
            breaker,
            tool_semaphore: None,
            executor_semaphore: None,
            attempt_timeout: None,
            inflight: AtomicUsize::new(0),
        }
    }

    /// Calls that it works on.
    pub(super) fn inflight(&self) -> usize {
        self.inflight.load(Ordering::Relaxed)
    }

    /// Counts a call until the guard is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> Inflight {
        self.inflight.fetch_add(1, Ordering::Relaxed);
        Inflight(Arc::clone(self))
    }
}

/// A call that is counted.
pub(super) struct Inflight(Arc<BackendState>);

impl Drop for Inflight {
    fn drop(&mut self) {
        self.0.inflight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Breakers and queues by tool. A new catalogue must not forget that a server is down or a tool busy.
#[derive(Default)]
pub(super) struct BackendStates {
    tools: Mutex<BTreeMap<String, ToolState>>,
    /// Queues by executor; there are as many as there are executors with a limit.
    executors: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

#[derive(Default)]
struct ToolState {
    semaphore: Option<Arc<Semaphore>>,
    backends: HashMap<Arc<str>, Arc<BackendState>>,
}

impl BackendStates {
    /// The state of one executor of a tool.
    pub(super) fn backend(
        &self,
        tool: &str,
        executor: &Arc<str>,
        settings: &ToolsSettings,
    ) -> Arc<BackendState> {
        let own = settings.overrides.get(tool);
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let state = tools.entry(tool.to_owned()).or_insert_with(|| ToolState {
            semaphore: own.and_then(tool_semaphore),
            backends: HashMap::new(),
        });
        let leg = state.backends.entry(Arc::clone(executor)).or_insert_with(|| {
            let breaker = own.and_then(|own| own.breaker.as_ref()).unwrap_or(&settings.breaker);
            let of_executor = settings.executors.get(&**executor);
            Arc::new(BackendState {
                tool_semaphore: state.semaphore.clone(),
                executor_semaphore: of_executor
                    .and_then(|of| self.executor_semaphore(executor, of.max_parallel?)),
                attempt_timeout: of_executor.and_then(|of| of.timeout),
                ..BackendState::new(BreakerState::new(breaker.clone()))
            })
        });
        Arc::clone(leg)
    }

    fn executor_semaphore(&self, executor: &Arc<str>, most: usize) -> Option<Arc<Semaphore>> {
        let mut executors = self.executors.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = executors
            .entry(Arc::clone(executor))
            .or_insert_with(|| Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS))));
        Some(Arc::clone(turns))
    }

    /// Forgets the tools that are gone: servers may invent names without end.
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.retain_beyond(0, is_there);
    }

    /// The same, once more than so many are known.
    pub(super) fn retain_beyond(&self, most: usize, is_there: impl Fn(&str) -> bool) {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if tools.len() > most {
            tools.retain(|tool, _| is_there(tool));
        }
    }
}

fn tool_semaphore(own: &ToolOverride) -> Option<Arc<Semaphore>> {
    let most = if own.serial { 1 } else { own.max_parallel?.clamp(1, Semaphore::MAX_PERMITS) };
    Some(Arc::new(Semaphore::new(most)))
}
