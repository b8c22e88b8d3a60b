//! The call plan of a tool: general settings and the tool's overrides, resolved once per catalogue.

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use globset::Glob;
use serde_json::Value;

use super::definition::ToolDefinition;
use antwort_config::{AsyncMode, OnComplete, OnError, ReturnSchema, ToolOverride, ToolRetry, ToolsSettings};
use antwort_protocol::json::RawJson;
use antwort_protocol::schema::CompiledSchema;

/// The resolved settings for calls of one tool.
pub struct CallPlan {
    /// The tool under its name in the catalogue; hints and tags of several executors are merged.
    pub definition: Arc<ToolDefinition>,
    /// [`ToolDefinition::qualified_name`], cached.
    qualified_name: String,
    schemas: Arc<ToolSchemas>,
    /// How violations of the return schema are handled; `None`: results are not validated.
    returns: Option<ReturnSchema>,
    /// What becomes of a failed call.
    pub on_error: OnError,
    /// The time limit of a call with all its attempts; what is left of the run may be less.
    pub timeout: Duration,
    /// `None`: no retries.
    pub retry: Option<ToolRetry>,
    /// Whether a call may be made again when it is unknown whether it had its effect.
    pub may_repeat: bool,
    /// Whether the work of a call may go on after its answer.
    pub may_go_on: bool,
    /// What its result leads to then, if the agent does not say.
    pub on_complete: Option<OnComplete>,
    /// Calls of it in one run; `None`: as many as the run may make.
    pub max_calls: Option<u64>,
    /// Bytes of a result that the model reads; what is longer is truncated.
    pub max_result_bytes: usize,
    /// `None`: results are not cached.
    pub cache: Option<CachePolicy>,
    /// Hash of the caller context that the server receives: part of the cache key.
    pub context: Option<[u8; 32]>,
}

/// For how long and for whom results are cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachePolicy {
    /// How long a result is served after it came.
    pub ttl: Duration,
    /// Whether a result is only for the principal that got it; if not, its tenant shares it.
    pub(crate) per_user: bool,
}

/// The compiled schemas of a tool, compiled on first use or up front.
#[derive(Default)]
pub struct ToolSchemas {
    arguments: OnceLock<Compiled>,
    returns: OnceLock<Compiled>,
    meter: Option<Arc<dyn MemoryMeter>>,
}

/// A compiled schema and the guard of its memory reservation.
type Compiled = (Arc<CompiledSchema>, Option<Box<dyn Any + Send + Sync>>);

/// Accounts for the memory of schemas that are compiled on demand.
pub trait MemoryMeter: Send + Sync {
    /// Reserves bytes until the returned guard is dropped; `None` if the limit is reached.
    fn try_reserve(&self, bytes: usize) -> Option<Box<dyn Any + Send + Sync>>;
}

/// Estimated bytes of a compiled schema per byte of its text, above what ordinary schemas take.
const COMPILED_SIZE_FACTOR: usize = 32;

impl ToolSchemas {
    /// Compiles at the first call and keeps the result if the meter permits.
    pub fn lazy(meter: Option<Arc<dyn MemoryMeter>>) -> Self {
        Self { meter, ..Self::default() }
    }

    /// Compiles up front, so that errors surface early.
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
    /// If a schema cannot be compiled.
    pub(crate) fn new(definition: ToolDefinition, settings: &ToolsSettings) -> Result<Self, String> {
        let schemas = ToolSchemas::compiled(&definition, checks_results(settings))?;
        Ok(Self::with_schemas(Arc::new(definition), Arc::new(schemas), settings))
    }

    /// A plan with a shared definition and shared schemas, which may be compiled later.
    pub fn with_schemas(
        definition: Arc<ToolDefinition>,
        schemas: Arc<ToolSchemas>,
        settings: &ToolsSettings,
    ) -> Self {
        let default_override = ToolOverride::default();
        let qualified_name = definition.qualified_name().into_owned();
        let overrides = settings.overrides.get(&qualified_name).unwrap_or(&default_override);
        let may_repeat = overrides.idempotent.unwrap_or_else(|| definition.annotations.may_repeat());
        let retry = overrides.retry.as_ref().unwrap_or(&settings.retry);
        let has_returns = definition.returns.is_some() && checks_results(settings);
        Self {
            schemas,
            returns: has_returns.then_some(settings.results.return_schema),
            on_error: overrides.on_error.as_ref().unwrap_or(&settings.on_error).clone(),
            timeout: overrides.timeout.unwrap_or(settings.timeout),
            retry: Some(retry.clone()).filter(|retry| may_repeat && retry.max > 0),
            may_repeat,
            may_go_on: overrides.asynchronous.unwrap_or(definition.asynchronous) == AsyncMode::Allow,
            on_complete: overrides.on_complete,
            max_calls: overrides.max_calls,
            max_result_bytes: overrides.max_result_bytes.unwrap_or(settings.results.max_bytes),
            cache: cache_policy(&definition, &qualified_name, overrides, settings),
            context: None,
            definition,
            qualified_name,
        }
    }

    /// The compiled schema of the arguments.
    ///
    /// # Errors
    /// If it cannot be compiled.
    pub(crate) fn arguments(&self) -> Result<Arc<CompiledSchema>, String> {
        self.schemas.get(&self.schemas.arguments, &self.definition.parameters)
    }

    /// Whether results are validated.
    pub(crate) fn checks_results(&self) -> bool {
        self.returns.is_some()
    }

    /// The schema of results and how violations are handled. `None` also if the schema cannot be compiled: that is no
    /// reason to reject results.
    pub(crate) fn returns(&self) -> Option<(Arc<CompiledSchema>, ReturnSchema)> {
        let (severity, text) = self.returns.zip(self.definition.returns.as_ref())?;
        Some((self.schemas.get(&self.schemas.returns, text).ok()?, severity))
    }

    /// Binds the plan to a caller context.
    pub fn for_context(mut self, context: Option<[u8; 32]>) -> Self {
        self.context = context;
        self
    }

    /// Name of the tool.
    pub(crate) fn name(&self) -> &str {
        &self.definition.name
    }

    /// Name for metrics and audit records.
    pub(crate) fn qualified_name(&self) -> &str {
        &self.qualified_name
    }
}

/// Whether, and for how long, results of a tool are cached.
///
/// By its hints only a read-only tool qualifies, since a cache hit means that the call is not executed. Settings
/// that name the tool take precedence over hints, which are often absent or unreliable.
fn cache_policy(
    definition: &ToolDefinition,
    qualified_name: &str,
    overrides: &ToolOverride,
    settings: &ToolsSettings,
) -> Option<CachePolicy> {
    let cache = &settings.cache;
    // `cache.never` matches the qualified and the bare name.
    let never = |pattern: &String| matches(pattern, qualified_name) || matches(pattern, &definition.name);
    if !cache.enabled || overrides.cacheable == Some(false) || cache.never.iter().any(never) {
        return None;
    }
    let named = cache.ttl.get(qualified_name).or_else(|| cache.ttl.get(&definition.name));
    let hints = definition.annotations;
    let changes_something = hints.destructive || !hints.read_only;
    let by_hints = !changes_something && (!hints.open_world || named.is_some());
    if !by_hints && overrides.cacheable != Some(true) {
        return None;
    }
    let ttl = *named.or_else(|| cache.ttl.get("default"))?;
    // A result obtained with a caller's credentials must not be served to others.
    let per_user = overrides.cache_per_user || definition.requires_auth;
    (!ttl.is_zero()).then_some(CachePolicy { ttl, per_user })
}

fn checks_results(settings: &ToolsSettings) -> bool {
    settings.results.return_schema != ReturnSchema::Off
}

/// Glob match. Plain names, which most patterns are, need not be compiled.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.contains(['*', '?', '[', '{', '\\']) {
        true => Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(name)),
        false => pattern == name,
    }
}

/// Compiles a JSON Schema of arguments or results.
///
/// # Errors
/// If the text is not a schema that can be compiled.
pub(crate) fn compile(schema: &RawJson) -> Result<CompiledSchema, String> {
    let value: Value = serde_json::from_str(schema.get()).map_err(|error| error.to_string())?;
    if !value.is_object() {
        return Err("the schema is not a JSON object".into());
    }
    CompiledSchema::compile(&value)
}
