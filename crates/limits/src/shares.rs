//! The limits of a resource for each tenant and key.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use antwort_identity::Requester;

/// The limits of one resource. If two or more tenants are configured, none holds more than half of it; if a tenant
/// has two or more keys, none of them holds more than half of the tenant's limit.
#[derive(Debug, Clone)]
pub struct Shares {
    capacity: u64,
    tenant: u64,
    /// Tenants with several keys.
    divided: HashSet<Arc<str>>,
    /// Configured limits of single keys.
    keys: HashMap<Requester, u64>,
    /// The largest request; every share has room for it.
    at_least: u64,
}

impl Shares {
    /// The shares of the configured requesters; one alone, or none, has the whole capacity.
    pub fn new(capacity: u64, configured: &[Requester]) -> Self {
        let tenants: HashSet<&Arc<str>> = configured.iter().map(|requester| &requester.tenant).collect();
        let has_several = |tenant: &str| {
            configured.iter().filter(|requester| *requester.tenant == *tenant).nth(1).is_some()
        };
        let divided = tenants.iter().filter(|tenant| has_several(tenant)).map(|tenant| Arc::clone(tenant));
        let capacity = capacity.max(1);
        Self {
            capacity,
            tenant: if tenants.len() > 1 { capacity / 2 } else { capacity },
            divided: divided.collect(),
            keys: HashMap::new(),
            at_least: 1,
        }
    }

    /// Overrides the limit of each tenant.
    #[must_use]
    pub(crate) fn with_tenant_limit(mut self, limit: u64) -> Self {
        self.tenant = limit;
        self
    }

    /// Overrides the limit of one key, which is never more than its tenant's.
    #[must_use]
    pub(crate) fn with_key_limit(mut self, requester: &Requester, limit: u64) -> Self {
        self.keys.insert(requester.clone(), limit);
        self
    }

    /// Makes every share large enough for a request of this weight.
    #[must_use]
    pub fn at_least(mut self, weight: u64) -> Self {
        self.at_least = weight;
        self
    }

    /// Whether anybody has less than the whole capacity.
    pub(crate) fn are_divided(&self) -> bool {
        self.of_tenant() < self.capacity || !self.divided.is_empty() || !self.keys.is_empty()
    }

    /// The capacity of the resource.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The limit of a tenant.
    pub fn of_tenant(&self) -> u64 {
        self.tenant.max(self.at_least).clamp(1, self.capacity)
    }

    /// The limit of a key.
    pub fn of_key(&self, requester: &Requester) -> u64 {
        let tenant = self.of_tenant();
        let share = match self.keys.get(requester) {
            Some(said) => *said,
            None if self.divided.contains(&requester.tenant) => tenant / 2,
            None => tenant,
        };
        share.max(self.at_least).clamp(1, tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requester(tenant: &str, key: &str) -> Requester {
        Requester::new(&tenant.into(), &key.into())
    }

    #[test]
    fn a_single_key_has_everything() {
        let anonymous = requester("default", "anonymous");
        let shares = Shares::new(1024, &[]);
        assert_eq!((shares.of_tenant(), shares.of_key(&anonymous)), (1024, 1024));
        let only = requester("acme", "ci");
        let shares = Shares::new(1024, std::slice::from_ref(&only));
        assert_eq!((shares.of_tenant(), shares.of_key(&only)), (1024, 1024));
    }

    #[test]
    fn of_two_tenants_or_keys_none_has_more_than_half() {
        let [a, b, c] = [requester("acme", "a"), requester("acme", "b"), requester("zoo", "c")];
        let keys = Shares::new(1024, &[a.clone(), b.clone()]);
        assert_eq!((keys.of_tenant(), keys.of_key(&a)), (1024, 512));
        let tenants = Shares::new(1024, &[a.clone(), b, c.clone()]);
        assert_eq!((tenants.of_tenant(), tenants.of_key(&a), tenants.of_key(&c)), (512, 256, 512));
        let odd = Shares::new(1, &[a.clone(), c]);
        assert_eq!((odd.of_tenant(), odd.of_key(&a)), (1, 1), "a share of nothing would serve nobody");
    }

    #[test]
    fn what_the_operator_says_counts_and_a_share_has_room_for_the_largest_request() {
        let [a, b] = [requester("acme", "a"), requester("zoo", "b")];
        let shares = Shares::new(100, &[a.clone(), b.clone()]).with_tenant_limit(80).with_key_limit(&a, 70);
        assert_eq!((shares.of_tenant(), shares.of_key(&a), shares.of_key(&b)), (80, 70, 80));
        assert_eq!(shares.with_key_limit(&a, 90).of_key(&a), 80);
        let large = Shares::new(100, &[a.clone(), b]).at_least(60);
        assert_eq!((large.of_tenant(), large.of_key(&a)), (60, 60));
    }
}
