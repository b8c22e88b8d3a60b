//! Whole results, of which the model saw only head and tail, for as long as it may ask for the rest.

use std::sync::Arc;
use std::time::Duration;

use super::context::ToolContext;
use super::random;
use super::ttl_cache::TtlCache;
use crate::config::ToolResultSettings;

/// Results by id. An id is found only by the tenant and principal whose call gave the result.
pub(super) struct ResultStore {
    cache: Option<TtlCache<String, StoredResult>>,
    ttl: Duration,
    max_bytes: usize,
}

/// A result that is kept.
pub(super) struct StoredResult {
    tenant: Arc<str>,
    principal: Arc<str>,
    /// Its text, up to the bound of one result.
    pub text: String,
}

impl ResultStore {
    pub(super) fn new(settings: &ToolResultSettings) -> Self {
        let enabled =
            settings.store_bytes > 0 && settings.max_stored_bytes > 0 && !settings.store_ttl.is_zero();
        Self {
            cache: enabled.then(|| TtlCache::new(settings.store_bytes)),
            ttl: settings.store_ttl,
            max_bytes: match enabled {
                // What exceeds the whole store would be forgotten at once; ids and owners need some room, too.
                true => settings.max_stored_bytes.min(settings.store_bytes.saturating_sub(1024)),
                false => settings.max_stored_bytes,
            },
        }
    }

    /// Whether anything is kept.
    pub(super) fn is_enabled(&self) -> bool {
        self.cache.is_some()
    }

    /// Bytes of one result.
    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Keeps a result's text; its id. `None`: nothing is kept.
    pub(super) fn store(&self, context: &ToolContext, mut text: String) -> Option<String> {
        let kept = self.cache.as_ref()?;
        let id = format!("out_{}", random::token()?);
        text.truncate(text.floor_char_boundary(self.max_bytes));
        let (tenant, principal) = (Arc::clone(&context.tenant), Arc::clone(&context.principal));
        let bytes = text.len() + id.len() + size_of::<StoredResult>();
        kept.insert(id.clone(), StoredResult { tenant, principal, text }, bytes, self.ttl);
        Some(id)
    }

    /// A result of the same caller.
    pub(super) fn read(&self, context: &ToolContext, id: &str) -> Option<Arc<StoredResult>> {
        let stored = self.cache.as_ref()?.get(id)?;
        let is_owner = stored.tenant == context.tenant && stored.principal == context.principal;
        is_owner.then_some(stored)
    }
}
