//! What readiness is decided by: the last results of its checks, and whether shutdown was requested.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;

use antwort_provider::models::ModelCatalog;
use antwort_store::{Store, StoreError};

const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a check's result is reused: readiness needs no key, so callers must not be able to load store and providers.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A check passed.
pub(super) const OK: &str = "ok";
/// A check failed.
pub(super) const UNAVAILABLE: &str = "unavailable";

/// Set once shutdown was requested: the process is not ready any more, and its connections take no further requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShutdownFlag(Arc<AtomicBool>);

impl ShutdownFlag {
    /// Marks shutdown as requested.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether shutdown was requested.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether each provider answers, by name.
pub(super) type Reachability = BTreeMap<String, bool>;

/// The last result of each check, or the check that is running.
#[derive(Default)]
pub(crate) struct ReadinessCache {
    store: CachedCheck<&'static str>,
    providers: CachedCheck<Arc<Reachability>>,
}

impl ReadinessCache {
    /// Whether the store can be written to.
    pub(super) fn store(&self, store: &Arc<dyn Store>) -> SharedCheck<&'static str> {
        let store = Arc::clone(store);
        self.store.get(async move {
            match tokio::time::timeout(CHECK_TIMEOUT, store.ready()).await {
                Ok(Ok(())) => OK,
                Ok(Err(StoreError::Full(_))) => "full",
                Ok(Err(StoreError::Replaced(_))) => "replaced",
                Ok(Err(_)) | Err(_) => UNAVAILABLE,
            }
        })
    }

    /// Which providers answer.
    pub(super) fn providers(&self, catalog: &Arc<ModelCatalog>) -> SharedCheck<Arc<Reachability>> {
        let catalog = Arc::clone(catalog);
        self.providers.get(async move { Arc::new(catalog.reachability(CHECK_TIMEOUT).await) })
    }
}

/// A check that many requests await together: its result and when it ended.
pub(super) type SharedCheck<T> = Shared<BoxFuture<'static, (T, Instant)>>;

/// The last result of one check; concurrent requests share a running one.
struct CachedCheck<T>(Mutex<Option<LastCheck<T>>>);

struct LastCheck<T> {
    begun: Instant,
    found: SharedCheck<T>,
}

impl<T> Default for CachedCheck<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone + Send + Sync + 'static> CachedCheck<T> {
    fn get(&self, look: impl Future<Output = T> + Send + 'static) -> SharedCheck<T> {
        let mut last = self.0.lock();
        if let Some(probe) = last.as_ref().filter(|probe| probe.is_current()) {
            return probe.found.clone();
        }
        let found = look.map(|found| (found, Instant::now())).boxed().shared();
        *last = Some(LastCheck { begun: Instant::now(), found: found.clone() });
        found
    }
}

impl<T: Clone> LastCheck<T> {
    /// A running check makes progress only while a request awaits it: the next request continues it, unless its timeout
    /// is over by then.
    fn is_current(&self) -> bool {
        match self.found.peek() {
            None => self.begun.elapsed() < CHECK_TIMEOUT,
            // Counted from the end of the check: the result for a provider that hangs would otherwise be stale at once.
            Some((_, found)) => found.elapsed() < CHECK_INTERVAL,
        }
    }
}
