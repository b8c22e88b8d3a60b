//! Stores the full text of truncated results, for `read_tool_output`.

use std::sync::Arc;

use super::context::ToolContext;
use super::kept_results::KeptResults;
use antwort_config::ToolResultSettings;
use antwort_util::random;

/// Results by id. A result is visible only to the tenant and principal of the call.
pub(super) struct ResultStore {
    kept: Option<KeptResults<StoredResult>>,
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
            kept: enabled.then(|| KeptResults::new(settings.store_bytes, settings.store_ttl)),
            max_bytes: match enabled {
                // A result larger than the store would be evicted at once; id and owner need some room, too.
                true => settings.max_stored_bytes.min(settings.store_bytes.saturating_sub(1024)),
                false => settings.max_stored_bytes,
            },
        }
    }

    /// Whether results are stored at all.
    pub(super) fn is_enabled(&self) -> bool {
        self.kept.is_some()
    }

    /// Maximum bytes of one result.
    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Stores a text and returns its id; `None` if the store is disabled, or has no room for it.
    pub(super) fn store(&self, context: &ToolContext, mut text: String) -> Option<String> {
        let kept = self.kept.as_ref()?;
        let id = format!("out_{}", random::token()?);
        text.truncate(text.floor_char_boundary(self.max_bytes));
        let (tenant, principal) = (Arc::clone(&context.tenant), Arc::clone(&context.principal));
        let bytes = text.len() + id.len() + size_of::<StoredResult>();
        let is_kept = kept.insert(&context.tenant, &id, StoredResult { tenant, principal, text }, bytes);
        is_kept.then_some(id)
    }

    /// A stored result of the same caller.
    pub(super) fn read(&self, context: &ToolContext, id: &str) -> Option<Arc<StoredResult>> {
        let stored = self.kept.as_ref()?.get(id)?;
        let is_owner = stored.tenant == context.tenant && stored.principal == context.principal;
        is_owner.then_some(stored)
    }
}
