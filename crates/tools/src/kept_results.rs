//! Texts that are kept for a while within a number of bytes that tenants share.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Values by id. When they are too many, the oldest of the tenants go that are above their share.
pub(super) struct KeptResults<V> {
    max_bytes: u64,
    ttl: Duration,
    kept: Mutex<Kept<V>>,
}

struct Kept<V> {
    values: HashMap<String, Entry<V>>,
    tenants: HashMap<Arc<str>, OfTenant>,
    bytes: u64,
}

struct Entry<V> {
    value: Arc<V>,
    bytes: u64,
    /// `None`: never.
    expires_at: Option<Instant>,
}

/// The ids of a tenant's values, the oldest first, and the bytes of these.
#[derive(Default)]
struct OfTenant {
    ids: VecDeque<String>,
    bytes: u64,
}

impl<V> KeptResults<V> {
    /// Up to so many bytes, each value for so long.
    pub(super) fn new(max_bytes: usize, ttl: Duration) -> Self {
        let kept = Kept { values: HashMap::new(), tenants: HashMap::new(), bytes: 0 };
        Self { max_bytes: max_bytes as u64, ttl, kept: Mutex::new(kept) }
    }

    /// Keeps a value of about so many bytes under a new id. Returns whether there is room for it.
    pub(super) fn insert(&self, tenant: &Arc<str>, id: &str, value: V, bytes: usize) -> bool {
        let (now, bytes) = (Instant::now(), bytes as u64);
        let mut kept = self.kept.lock();
        kept.forget_expired(now);
        let of_tenant = kept.tenants.entry(Arc::clone(tenant)).or_default();
        of_tenant.ids.push_back(id.to_owned());
        of_tenant.bytes += bytes;
        kept.bytes += bytes;
        let expires_at = now.checked_add(self.ttl);
        kept.values.insert(id.to_owned(), Entry { value: Arc::new(value), bytes, expires_at });
        kept.shrink(self.max_bytes);
        kept.values.contains_key(id)
    }

    /// The value, unless it had to go or has expired.
    pub(super) fn get(&self, id: &str) -> Option<Arc<V>> {
        let now = Instant::now();
        let kept = self.kept.lock();
        let entry = kept.values.get(id).filter(|entry| !entry.is_expired(now))?;
        Some(Arc::clone(&entry.value))
    }
}

impl<V> Entry<V> {
    fn is_expired(&self, now: Instant) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

impl<V> Kept<V> {
    /// All live equally long, so that the oldest of a tenant expires first.
    fn forget_expired(&mut self, now: Instant) {
        let tenants: Vec<Arc<str>> = self.tenants.keys().map(Arc::clone).collect();
        for tenant in tenants {
            while self.oldest(&tenant).is_some_and(|entry| entry.is_expired(now)) {
                self.forget_oldest(&tenant);
            }
        }
    }

    fn shrink(&mut self, max_bytes: u64) {
        while self.bytes > max_bytes {
            // Shares are even, so that whoever has most is furthest above its own.
            let most = self.tenants.iter().max_by_key(|(_, of)| of.bytes);
            let Some(tenant) = most.map(|(tenant, _)| Arc::clone(tenant)) else { return };
            self.forget_oldest(&tenant);
        }
    }

    fn oldest(&self, tenant: &str) -> Option<&Entry<V>> {
        self.values.get(self.tenants.get(tenant)?.ids.front()?)
    }

    fn forget_oldest(&mut self, tenant: &str) {
        let Some(of_tenant) = self.tenants.get_mut(tenant) else { return };
        let oldest = of_tenant.ids.pop_front().and_then(|id| self.values.remove(&id));
        let bytes = oldest.map_or(0, |entry| entry.bytes);
        of_tenant.bytes = of_tenant.bytes.saturating_sub(bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        if of_tenant.ids.is_empty() {
            self.tenants.remove(tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(60);

    fn keep(kept: &KeptResults<usize>, tenant: &str, ids: std::ops::Range<usize>) {
        for id in ids {
            assert!(kept.insert(&tenant.into(), &format!("{tenant}{id}"), id, 100));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_is_there_until_its_time_is_over() {
        let kept = KeptResults::new(1000, TTL);
        keep(&kept, "a", 0..1);
        tokio::time::advance(TTL - Duration::from_secs(1)).await;
        assert_eq!(kept.get("a0").as_deref(), Some(&0));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(kept.get("a0"), None);
        keep(&kept, "b", 0..1);
        let of_tenants = {
            let kept = kept.kept.lock();
            (kept.bytes, kept.tenants.len())
        };
        assert_eq!(of_tenants, (100, 1));
        assert!(KeptResults::new(1000, Duration::MAX).insert(&"a".into(), "a", (), 1));
    }

    #[tokio::test]
    async fn results_of_one_tenant_push_out_its_own() {
        let kept = KeptResults::new(1000, TTL);
        keep(&kept, "b", 0..3);
        keep(&kept, "a", 0..50);
        let there = |tenant, ids: std::ops::Range<usize>| {
            ids.filter(|id| kept.get(&format!("{tenant}{id}")).is_some()).collect::<Vec<_>>()
        };
        assert_eq!((there("b", 0..3), there("a", 0..50)), (vec![0, 1, 2], (43..50).collect()));
        // The other's share is half.
        keep(&kept, "b", 3..30);
        assert_eq!((there("b", 0..30), there("a", 0..50)), ((25..30).collect(), (45..50).collect()));
        assert!(!kept.insert(&"c".into(), "large", 0, 5000), "there is no room for it");
        assert_eq!((there("a", 0..50).len(), kept.kept.lock().bytes), (5, 1000));
    }
}
