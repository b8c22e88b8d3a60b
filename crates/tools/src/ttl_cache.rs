//! A TTL cache bounded by bytes.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use moka::Expiry;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::time::Instant;

/// Upper bound of any TTL, well within what the cache's clock can represent.
const MAX_TTL: Duration = Duration::from_hours(24 * 365);

/// A map that evicts values after their TTL, and the least recently used ones when it is full.
pub(super) struct TtlCache<K, V>(Cache<K, Entry<V>>);

struct Entry<V> {
    value: Arc<V>,
    bytes: u32,
    ttl: Duration,
    /// Checked on read: the map evicts expired entries only now and then, and by its own clock.
    expires_at: Instant,
}

impl<K, V> TtlCache<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// A cache of up to this many bytes.
    pub(super) fn new(max_bytes: usize) -> Self {
        let cache = Cache::builder()
            .max_capacity(max_bytes as u64)
            // The default policy (TinyLFU) may reject a new value in favour of older ones: a model would be given
            // the id of a result that is not there.
            .eviction_policy(EvictionPolicy::lru())
            .weigher(|_, entry: &Entry<V>| entry.bytes)
            .expire_after(ByEntry)
            .build();
        Self(cache)
    }

    /// Inserts a value of about this many bytes.
    pub(super) fn insert(&self, key: K, value: V, bytes: usize, ttl: Duration) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let ttl = ttl.min(MAX_TTL);
        let expires_at = Instant::now() + ttl;
        self.0.insert(key, Entry { value: Arc::new(value), bytes, ttl, expires_at });
    }

    /// The value, unless it was evicted or has expired.
    pub(super) fn get<Q>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let entry = self.0.get(key)?;
        (Instant::now() < entry.expires_at).then_some(entry.value)
    }

    /// Removes the values of these keys.
    pub(super) fn remove_if(&self, is_meant: impl Fn(&K) -> bool) {
        for (key, _) in &self.0 {
            if is_meant(&key) {
                self.0.invalidate(&*key);
            }
        }
    }
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value), ..*self }
    }
}

struct ByEntry;

impl<K, V> Expiry<K, Entry<V>> for ByEntry {
    fn expire_after_create(&self, _: &K, entry: &Entry<V>, _: std::time::Instant) -> Option<Duration> {
        Some(entry.ttl)
    }

    fn expire_after_update(
        &self,
        _: &K,
        entry: &Entry<V>,
        _: std::time::Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(entry.ttl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_value_is_there_until_its_time_is_over() {
        let kept = TtlCache::new(1000);
        kept.insert("a", 1, 10, Duration::from_secs(60));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(kept.get("a").as_deref(), Some(&1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(kept.get("a"), None);
        kept.insert("a", 2, 10, Duration::from_secs(60));
        kept.insert("b", 3, 10, Duration::from_secs(60));
        kept.remove_if(|key| *key == "a");
        assert_eq!((kept.get("a"), kept.get("b").as_deref()), (None, Some(&3)));
    }

    #[tokio::test]
    async fn bytes_are_bounded() {
        let kept = TtlCache::new(1000);
        for key in 0..100 {
            kept.insert(key, (), 100, Duration::from_secs(60));
        }
        kept.insert(1000, (), 5000, Duration::from_secs(60));
        assert!(kept.get(&99).is_some(), "what is new is kept, and what is old is forgotten for it");
        kept.0.run_pending_tasks();
        assert!(kept.0.weighted_size() <= 1000, "{}", kept.0.weighted_size());
        assert_eq!(kept.get(&1000), None);
    }
}
