//! Checks the settings of the store.

use super::checker::Checker;
use crate::config::settings::SealSettings;
use crate::config::store::{StoreSettings, TimeToLive};

/// The fewest connections to PostgreSQL: one for writes and one for reads.
const MIN_POOL_SIZE: usize = 2;

impl Checker<'_> {
    /// What only one kind of database has, and what the other needs.
    pub(super) fn store(&mut self, mut store: StoreSettings, seal: &SealSettings) -> StoreSettings {
        if store.pool_size < MIN_POOL_SIZE {
            self.error(&["store", "pool_size"], "must be 2 or more: one connection is for writes");
        }
        if !store.url.is_postgres() {
            return store;
        }
        if self.tree.get(&["store", "max_size"]).is_some() && store.max_size.is_some() {
            self.error(
                &["store", "max_size"],
                "the size of a PostgreSQL database is not bounded by the gateway, as it is not given back when rows are \
                 deleted: leave it out, and bound store.ttl, or store.tenants.NAME.max_size",
            );
        }
        // The default is for a file.
        store.max_size = None;
        if self.tree.get(&["store", "synchronous"]).is_some() {
            self.error(
                &["store", "synchronous"],
                "the durability of a commit is a setting of the PostgreSQL server, or of its user \
                 (`ALTER ROLE … SET synchronous_commit`): leave it out",
            );
        }
        if seal.keys.is_empty() {
            self.missing(
                &["seal", "keys"],
                "a store in PostgreSQL needs keys, the same for all gateways that use it: make one with `openssl rand \
                 -base64 32`, and set ANTWORT_SEAL_KEYS or seal.keys to it",
            );
        }
        store
    }

    /// What expires at once is never seen.
    pub(super) fn check_retention(&mut self, store: &StoreSettings) {
        let is_zero = |ttl: Option<TimeToLive>| ttl.and_then(|ttl| ttl.0).is_some_and(|ttl| ttl.is_zero());
        self.require_nonzero(&["store", "conversation_ttl"], is_zero(store.conversation_ttl));
        for (tenant, own) in &store.tenants {
            for (key, value) in [
                ("ttl", is_zero(own.ttl)),
                ("conversation_ttl", is_zero(own.conversation_ttl)),
                ("max_size", own.max_size == Some(0)),
            ] {
                self.require_nonzero(&["store", "tenants", tenant, key], value);
            }
        }
    }
}
