//! Stores the full text of truncated results, for `read_tool_output`.

use std::sync::Arc;
use std::time::Duration;

use super::context::ToolContext;
use super::ttl_cache::TtlCache;
use crate::config::ToolResultSettings;
use crate::util::random;

/// Results by id. A result is visible only to the tenant and principal of the call.
pub(super) struct ResultStore {
    cache: Option<TtlCache<String, StoredResult>>,
    ttl: Duration,
    max_bytes: usize,
}

/// A stored result.
pub(super) struct StoredResult {
    tenant: Arc<str>,
    principal: Arc<str>,
    /// The text, up to [`ResultStore::max_bytes`].
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
                // A result larger than the store would be evicted at once; id and owner need some room, too.
                true => settings.max_stored_bytes.min(settings.store_bytes.saturating_sub(1024)),
                false => settings.max_stored_bytes,
            },
        }
    }

    /// Whether results are stored at all.
    pub(super) fn is_enabled(&self) -> bool {
        self.cache.is_some()
    }

    /// Maximum bytes of one result.
    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Stores a text and returns its id; `None` if the store is disabled.
    pub(super) fn store(&self, context: &ToolContext, mut text: String) -> Option<String> {
        let cache = self.cache.as_ref()?;
        let id = format!("out_{}", random::token()?);
        text.truncate(text.floor_char_boundary(self.max_bytes));
        let (tenant, principal) = (Arc::clone(&context.tenant), Arc::clone(&context.principal));
        let bytes = text.len() + id.len() + size_of::<StoredResult>();
        cache.insert(id.clone(), StoredResult { tenant, principal, text }, bytes, self.ttl);
        Some(id)
    }

    /// A stored result of the same caller.
    pub(super) fn read(&self, context: &ToolContext, id: &str) -> Option<Arc<StoredResult>> {
        let stored = self.cache.as_ref()?.get(id)?;
        let is_owner = stored.tenant == context.tenant && stored.principal == context.principal;
        is_owner.then_some(stored)
    }
}
