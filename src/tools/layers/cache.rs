//! Uses results again.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use serde_json::Value;
use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready, ready};
use crate::telemetry::metrics::Metrics;
use crate::tools::canonical::canonical_arguments;
use crate::tools::context::CacheMode;
use crate::tools::output::ToolOutput;
use crate::tools::plan::CachePolicy;
use crate::tools::ttl_cache::TtlCache;

/// Results by the hash of everything that they depend on.
pub(in crate::tools) type ResultCache = TtlCache<Key, ToolOutput>;

/// A SHA-256.
type Key = [u8; 32];

/// Answers from the cache, and fills it with results that are no errors.
#[derive(Clone)]
pub(in crate::tools) struct Cached<S> {
    inner: S,
    cache: Arc<ResultCache>,
    metrics: Arc<Metrics>,
}

impl<S> Cached<S> {
    pub(in crate::tools) fn new(inner: S, cache: Arc<ResultCache>, metrics: Arc<Metrics>) -> Self {
        Self { inner, cache, metrics }
    }
}

impl<S: ToolService> Service<ToolRequest> for Cached<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let Some(plan) = request.plan.cache else { return self.inner.call(request) };
        if request.context.cache == CacheMode::Bypass {
            self.metrics.tool_cache("bypass");
            return self.inner.call(request);
        }
        let key = key(&request, plan);
        if let Some(output) = self.cache.get(&key) {
            self.metrics.tool_cache("hit");
            let mut output = ToolOutput::clone(&output);
            output.meta.cached = true;
            return ready(Ok(output));
        }
        self.metrics.tool_cache("miss");
        let cache = Arc::clone(&self.cache);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let output = answer.await?;
            if !output.is_error {
                cache.insert(key, output.clone(), size(&output), plan.ttl);
            }
            Ok(output)
        })
    }
}

/// Each field with its length in front, so that none can run into the next.
fn key(request: &ToolRequest, plan: CachePolicy) -> Key {
    let definition = &request.plan.definition;
    let arguments = canonical_arguments(&request.call.raw);
    let mut hash = Context::new(&SHA256);
    let mut field = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    field(request.context.tenant.as_bytes());
    field(definition.executor.as_bytes());
    field(definition.name.as_bytes());
    field(definition.version.as_deref().unwrap_or_default().as_bytes());
    field(&arguments);
    if let Some(context) = &request.plan.context {
        field(context);
    }
    if plan.per_user {
        field(request.context.principal.as_bytes());
    }
    let mut key = [0; 32];
    key.copy_from_slice(hash.finish().as_ref());
    key
}

/// About how much memory a result takes.
fn size(output: &ToolOutput) -> usize {
    let citations: usize = output.citations.iter().map(|source| source.url.len() + source.title.len()).sum();
    size_of::<ToolOutput>()
        + output.for_model.len()
        + output.for_user.as_ref().map_or(0, String::len)
        + output.for_client.as_ref().map_or(0, String::len)
        + output.structured.as_ref().map_or(0, size_of_value)
        + citations
}

fn size_of_value(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(size_of_value).sum(),
            Value::Object(object) => object.iter().map(|(key, value)| key.len() + size_of_value(value)).sum(),
            _ => 0,
        }
}
