//! Checks the settings of the store.

use std::time::Duration;

use super::checker::Checker;
use crate::bus::BusUrl;
use crate::settings::SealSettings;
use crate::store::{StoreSettings, StoreUrl, TimeToLive};

/// The fewest connections to PostgreSQL: one for writes and one for reads.
const MIN_POOL_SIZE: usize = 2;
/// The most: a server has hundreds for all its clients.
const MAX_POOL_SIZE: usize = 1000;
/// A statement that runs for longer is not one of the gateway's.
const MAX_STATEMENT_TIMEOUT: Duration = Duration::from_secs(3600);
/// The most rows of failed requests of a tenant: the oldest are found by counting them.
const MAX_FAILED_REQUESTS: u32 = 100_000;

impl Checker<'_> {
    /// What only one kind of database has, and what the other needs.
    pub(super) fn store(&mut self, mut store: StoreSettings, seal: &SealSettings) -> StoreSettings {
        if store.pool_size < MIN_POOL_SIZE {
            self.error(&["store", "pool_size"], "must be 2 or more: one connection is for writes");
        }
        if store.pool_size > MAX_POOL_SIZE {
            self.error(&["store", "pool_size"], format!("must be {MAX_POOL_SIZE} or less"));
        }
        if store.statement_timeout > MAX_STATEMENT_TIMEOUT {
            self.error(&["store", "statement_timeout"], "must be 1h or less");
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

    /// The bus is between processes that share a database.
    pub(super) fn check_bus(&mut self, bus: &BusUrl, store: &StoreUrl) {
        let message = match (bus, store.is_postgres()) {
            (BusUrl::Auto, _) | (BusUrl::Local, false) => return,
            (BusUrl::Local, true) => {
                "is local:, but other replicas may have the same database: leave it out, or write poll:"
            }
            (_, true) => return,
            (_, false) => {
                "is for replicas that share a PostgreSQL database, and store.url is none: leave it out"
            }
        };
        self.error(&["bus", "url"], message);
    }

    /// What expires at once is never seen.
    pub(super) fn check_retention(&mut self, store: &StoreSettings) {
        if store.failed_requests > MAX_FAILED_REQUESTS {
            self.error(&["store", "failed_requests"], format!("must be at most {MAX_FAILED_REQUESTS}"));
        }
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
