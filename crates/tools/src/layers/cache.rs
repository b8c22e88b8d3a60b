//! The result cache.

use std::sync::Arc;

use serde_json::Value;
use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready, ready};
use crate::canonical::canonical_arguments;
use crate::context::CacheMode;
use crate::output::ToolOutput;
use crate::plan::CachePolicy;
use crate::ttl_cache::TtlCache;
use antwort_telemetry::metrics::Metrics;
use antwort_util::digest::FieldHasher;

/// Results by a hash of everything that they depend on.
pub(crate) type ResultCache = TtlCache<Key, ToolOutput>;

/// A call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Who alone gets the result, and may remove it.
    pub tenant: Arc<str>,
    /// SHA-256 of everything that the result depends on.
    call: [u8; 32],
}

/// Answers from the cache; stores successful results.
#[derive(Clone)]
pub(crate) struct Cached<S> {
    inner: S,
    cache: Arc<ResultCache>,
    metrics: Arc<Metrics>,
}

impl<S> Cached<S> {
    pub(crate) fn new(inner: S, cache: Arc<ResultCache>, metrics: Arc<Metrics>) -> Self {
        Self { inner, cache, metrics }
    }
}

impl<S: ToolService> Service<ToolRequest> for Cached<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let Some(plan) = request.plan.cache else { return self.inner.call(request) };
        if request.context.cache == CacheMode::Bypass || request.call.input.is_some() {
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
        let asker = request.call.asker.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let output = answer.await?;
            // What depends on what the user has answered is for this call alone.
            let asks =
                output.requires_input.is_some() || asker.is_some_and(|asker| asker.clock().has_paused());
            if !output.is_error && !output.is_async && !asks {
                cache.insert(key, output.clone(), size(&output), plan.ttl);
            }
            Ok(output)
        })
    }
}

fn key(request: &ToolRequest, plan: CachePolicy) -> Key {
    let definition = &request.plan.definition;
    let call = FieldHasher::new()
        .field(&*definition.executor)
        .field(&definition.name)
        .field(definition.version.as_deref().unwrap_or_default())
        .field(canonical_arguments(&request.call.raw))
        .option(request.plan.context)
        .option(plan.per_user.then_some(&*request.context.principal))
        // A tool that can ask the user may do so in place of what it has done for others.
        .option(
            request.call.asker.as_ref().map(|asker| [asker.modes().form.into(), asker.modes().url.into()]),
        )
        .finish();
    Key { tenant: Arc::clone(&request.context.tenant), call }
}

/// Approximate memory of a result.
fn size(output: &ToolOutput) -> usize {
    let citations: usize = output.citations.iter().map(|source| source.url.len() + source.title.len()).sum();
    size_of::<ToolOutput>()
        + output.for_model.len()
        + output.file_bytes()
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
