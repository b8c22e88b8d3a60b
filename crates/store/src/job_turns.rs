//! Whose background runs a claim takes: those of tenants in turn, and of none more than its share.
//!
//! The law: of the tenants that wait and have room, in the order of their names behind the one that was served last, each is
//! dealt one run, again and again, until there are as many as were asked for. Where no share applies, a tenant that waits
//! alone has all. A claim looks at as many
//! tenants as it may serve, and at the first runs of each, so that it costs the same however long the queue is.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

/// How many runs of one tenant a process makes at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TenantRuns {
    /// As many as of all.
    #[default]
    All,
    /// At most so many.
    AtMost(usize),
    /// At most so many as soon as the store has rows of another tenant.
    AtMostBesideOthers(usize),
}

/// A claim of background runs: how many, and whose turn it is.
#[derive(Debug, Clone, Default)]
pub struct JobTurns {
    limit: usize,
    share: TenantRuns,
    /// The runs of each tenant that the process makes.
    running: HashMap<Arc<str>, usize>,
    /// The tenant that was served last.
    last: Option<Arc<str>>,
}

impl JobTurns {
    /// At most so many runs, whosever they are.
    pub fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// The same, of a process that makes these runs of each tenant, and whose tenants have this share.
    #[must_use]
    pub fn within(mut self, share: TenantRuns, running: HashMap<Arc<str>, usize>) -> Self {
        (self.share, self.running) = (share, running);
        self
    }

    /// The turn of those behind this tenant.
    #[must_use]
    pub fn behind(mut self, last: Option<Arc<str>>) -> Self {
        self.last = last;
        self
    }

    /// The same, but at most so many runs.
    #[must_use]
    pub fn at_most(mut self, limit: usize) -> Self {
        self.limit = self.limit.min(limit);
        self
    }

    /// How many runs are claimed at most.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The tenants without room if their share applies.
    pub fn full(&self) -> Vec<Arc<str>> {
        let (TenantRuns::AtMost(most) | TenantRuns::AtMostBesideOthers(most)) = self.share else {
            return Vec::new();
        };
        let full = self.running.iter().filter(|(_, running)| **running >= most);
        full.map(|(tenant, _)| Arc::clone(tenant)).collect()
    }

    /// The least name that comes behind the tenant that was served last. Names have their turns from there on, and then from
    /// the first.
    pub fn first(&self) -> String {
        self.last.as_ref().map_or_else(String::new, |last| behind(last))
    }

    /// How many tenants it takes to know whose the next runs are, of which those without room may be some.
    pub fn candidates(&self) -> usize {
        self.limit.saturating_add(self.full().len())
    }

    /// Whose the next runs are, one after the other, if these tenants wait, or are full. `has_others`: the store has rows of
    /// several.
    pub fn deal(&self, mut waiting: Vec<Arc<str>>, has_others: bool) -> Vec<Arc<str>> {
        waiting.sort_unstable_by(|one, other| self.order(one, other));
        waiting.dedup();
        let most = match self.share {
            TenantRuns::AtMost(most) => most,
            TenantRuns::AtMostBesideOthers(most) if has_others || waiting.len() > 1 => most,
            TenantRuns::AtMostBesideOthers(_) | TenantRuns::All => usize::MAX,
        };
        let room = |tenant: &Arc<str>| most.saturating_sub(self.running.get(tenant).copied().unwrap_or(0));
        let mut rooms: Vec<_> = waiting.into_iter().map(|tenant| (room(&tenant), tenant)).collect();
        let mut dealt = Vec::new();
        loop {
            rooms.retain(|(room, _)| *room > 0);
            if rooms.is_empty() {
                return dealt;
            }
            for (room, tenant) in &mut rooms {
                if dealt.len() >= self.limit {
                    return dealt;
                }
                *room -= 1;
                dealt.push(Arc::clone(tenant));
            }
        }
    }

    /// Which of two tenants is served first.
    fn order(&self, one: &Arc<str>, other: &Arc<str>) -> Ordering {
        let is_past = |tenant: &Arc<str>| self.last.as_ref().is_some_and(|last| tenant <= last);
        (is_past(one), one).cmp(&(is_past(other), other))
    }
}

/// The least name behind this one.
pub fn behind(tenant: &str) -> String {
    format!("{tenant}\0")
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    fn names(names: &[&str]) -> Vec<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    #[test]
    fn tenants_are_served_in_turn_behind_the_one_that_was_served_last() {
        let turns = |limit| JobTurns::new(limit).behind(Some("b".into()));
        assert_eq!(turns(5).deal(names(&["a", "b", "c"]), true), names(&["c", "a", "b", "c", "a"]));
        assert_eq!(turns(1).deal(names(&["a", "b"]), true), names(&["a"]));
        assert_eq!(turns(3).deal(names(&["b"]), false), names(&["b", "b", "b"]));
        assert_eq!(turns(3).deal(Vec::new(), true), names(&[]));
        assert!(*"b" < *turns(1).first() && *turns(1).first() < *"b\u{1}");
    }

    #[test]
    fn a_share_applies_once_there_are_others() {
        let turns = |share| JobTurns::new(9).within(share, HashMap::from([("a".into(), 2)]));
        let beside = turns(TenantRuns::AtMostBesideOthers(3));
        assert_eq!(beside.deal(names(&["a"]), false).len(), 9, "alone it has all");
        assert_eq!(beside.deal(names(&["a"]), true).len(), 1);
        assert_eq!(beside.deal(names(&["a", "b"]), false), names(&["a", "b", "b", "b"]));
        assert_eq!(turns(TenantRuns::AtMost(2)).deal(names(&["a"]), false), names(&[]));
        assert_eq!(turns(TenantRuns::AtMost(2)).full(), names(&["a"]));
        assert_eq!(turns(TenantRuns::All).deal(names(&["a"]), true).len(), 9);
    }

    proptest! {
        /// Nobody has more than its share, a place stays free only if nobody who waits has room, and of two who have room to
        /// the end neither is dealt two more than the other.
        #[test]
        fn each_claim_is_fair(
            running in btree_map("[a-e]", 0..6_usize, 0..5), waiting in vec("[a-e]", 0..6), limit in 0..12_usize,
            most in 1..6_usize, last in proptest::option::of("[a-e]"),
        ) {
            let running: HashMap<Arc<str>, usize> =
                running.into_iter().map(|(tenant, count)| (tenant.into(), count)).collect();
            let waiting: Vec<Arc<str>> = waiting.into_iter().map(Arc::from).collect();
            let turns = JobTurns::new(limit)
                .within(TenantRuns::AtMost(most), running.clone())
                .behind(last.map(Arc::from));
            let dealt = turns.deal(waiting.clone(), true);
            let count = |tenant: &Arc<str>| dealt.iter().filter(|dealt| *dealt == tenant).count();
            let room = |tenant: &Arc<str>| most.saturating_sub(running.get(tenant).copied().unwrap_or(0));
            prop_assert!(dealt.len() <= limit && dealt.iter().all(|tenant| waiting.contains(tenant)));
            for tenant in &waiting {
                prop_assert!(count(tenant) <= room(tenant));
                prop_assert!(dealt.len() == limit || count(tenant) == room(tenant));
                prop_assert_eq!(turns.full().contains(tenant), running.contains_key(tenant) && room(tenant) == 0);
                for other in &waiting {
                    prop_assert!(count(tenant) == room(tenant) || count(other) <= count(tenant) + 1);
                }
            }
        }
    }
}
