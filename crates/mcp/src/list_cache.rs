//! The cached tool lists of a session: one, or one per caller context if the server receives it.
//!
//! Lists are never shared between contexts: a list, the tools built from it and their calls have the same context.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::backoff::FailureBackoff;
use super::context::CallerContext;
use super::list_budget::SharedList;
use super::tool_sets::ToolSetCache;

/// Maximum number of contexts with cached lists per session; the least recently used one is evicted.
const MAX_CONTEXTS: usize = 64;

/// A tool list and when it was fetched.
pub(super) struct ToolListing {
    pub kept: Arc<SharedList>,
    pub at: Instant,
    pub ttl: Duration,
    /// Connection number and tools version at the time of the request.
    pub connection: (u64, u64),
    /// Incremented with every list of the session.
    pub(crate) revision: u64,
    /// Incremented with every list that differs from the previous one.
    pub number: u64,
}

/// The tool list of one context.
pub(super) struct CachedToolList {
    /// Context sent to the server, if any.
    pub context: Option<Arc<CallerContext>>,
    pub listing: ArcSwapOption<ToolListing>,
    /// Held while the tools are listed.
    pub(crate) list_lock: tokio::sync::Mutex<()>,
    /// Backoff of listing.
    pub backoff: FailureBackoff,
    pub sets: ToolSetCache,
    last_used: Mutex<Instant>,
}

/// All cached lists of a session.
pub(super) struct ToolListCache {
    plain: Arc<CachedToolList>,
    by_context: Mutex<HashMap<[u8; 32], Arc<CachedToolList>>>,
}

impl CachedToolList {
    fn new(context: Option<Arc<CallerContext>>) -> Arc<Self> {
        Arc::new(Self {
            context,
            listing: ArcSwapOption::empty(),
            list_lock: tokio::sync::Mutex::default(),
            backoff: FailureBackoff::default(),
            sets: ToolSetCache::default(),
            last_used: Mutex::new(Instant::now()),
        })
    }

    /// The cached listing.
    pub(super) fn known(&self) -> Option<Arc<ToolListing>> {
        self.listing.load_full()
    }

    fn forget_ended_generations(&self) {
        self.sets.forget_ended_generations();
        if let Some(listing) = self.known() {
            listing.kept.prepared.forget_ended_generations();
        }
    }

    fn last_used(&self) -> Instant {
        *self.last_used.lock()
    }
}

impl Default for ToolListCache {
    fn default() -> Self {
        Self { plain: CachedToolList::new(None), by_context: Mutex::default() }
    }
}

impl ToolListCache {
    /// The list of a context. It stays usable by its holders after eviction.
    pub(super) fn for_context(&self, context: Option<&Arc<CallerContext>>) -> Arc<CachedToolList> {
        let Some(context) = context else { return Arc::clone(&self.plain) };
        let mut lists = self.by_context.lock();
        if let Some(known) = lists.get(context.fingerprint()) {
            *known.last_used.lock() = Instant::now();
            return Arc::clone(known);
        }
        if lists.len() >= MAX_CONTEXTS {
            let oldest = lists.iter().min_by_key(|(_, list)| list.last_used()).map(|(key, _)| *key);
            oldest.and_then(|key| lists.remove(&key));
        }
        let list = CachedToolList::new(Some(Arc::clone(context)));
        lists.insert(*context.fingerprint(), Arc::clone(&list));
        list
    }

    /// Drops unused lists of contexts; with `all` also the list without context.
    pub(super) fn forget_unused(&self, all: bool) {
        self.by_context.lock().retain(|_, list| Arc::strong_count(list) > 1);
        if all && Arc::strong_count(&self.plain) == 1 {
            self.plain.listing.store(None);
            self.plain.sets.clear();
        }
    }

    /// Drops tools that were built for configurations of ended generations.
    pub(super) fn forget_ended_generations(&self) {
        self.plain.forget_ended_generations();
        let lists = self.by_context.lock();
        lists.values().for_each(|list| list.forget_ended_generations());
    }

    /// The most informative list, for status reports: the one without context, or else the last one used.
    pub(super) fn latest(&self) -> Arc<CachedToolList> {
        let lists = self.by_context.lock();
        let latest = lists.values().max_by_key(|list| list.last_used());
        let latest = latest.filter(|_| self.plain.listing.load().is_none());
        Arc::clone(latest.unwrap_or(&self.plain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::OnBehalfOf;
    use antwort_config::McpContext;

    fn of_user(user: &str) -> Option<Arc<CallerContext>> {
        let of = OnBehalfOf { user: Some(user), ..OnBehalfOf::default() };
        CallerContext::new(&[McpContext::User], "red", of)
    }

    #[tokio::test(start_paused = true)]
    async fn contexts_have_lists_of_their_own_and_there_are_only_so_many() {
        let lists = ToolListCache::default();
        let ann = lists.for_context(of_user("ann").as_ref());
        assert!(Arc::ptr_eq(&ann, &lists.for_context(of_user("ann").as_ref())));
        assert!(!Arc::ptr_eq(&ann, &lists.for_context(of_user("bob").as_ref())));
        assert!(!Arc::ptr_eq(&ann, &lists.for_context(None)));
        for number in 0..10 * MAX_CONTEXTS {
            tokio::time::advance(Duration::from_millis(1)).await;
            lists.for_context(of_user(&format!("user {number}")).as_ref());
            lists.for_context(of_user("ann").as_ref());
        }
        assert_eq!(lists.by_context.lock().len(), MAX_CONTEXTS);
        assert!(Arc::ptr_eq(&ann, &lists.for_context(of_user("ann").as_ref())), "who is in use stays");
    }
}
