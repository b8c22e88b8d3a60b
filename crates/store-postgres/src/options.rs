//! How a store in PostgreSQL is opened.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::schema::Migrations;
use antwort_store::failed_requests::FailedRequests;
use antwort_store::outage::OUTAGE_TIMEOUT;
use antwort_store::retention::{TenantRetentions, millis};
use antwort_store::row_policy::RowPolicy;
use antwort_store::{TenantRetention, TimeToLive};

/// How a [`PostgresStore`](super::PostgresStore) is opened.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host/database?sslmode=verify-full`.
    pub url: String,
    /// Connections of this process, 2 or more.
    pub pool_size: usize,
    /// How long a statement may take.
    pub statement_timeout: Duration,
    /// How long writes of runs wait for a server that is away, before the runs fail.
    pub outage_timeout: Duration,
    /// Whether statements are prepared; a pooler that shares connections between transactions may not allow it.
    pub prepared_statements: bool,
    /// Whether the schema is brought up to date when the database is first reached.
    pub migrate: bool,
    /// Those to the schema that the database must have.
    pub migrations: Migrations,
    /// How long a response is kept after it was made or last continued; `None`: until it is deleted.
    pub ttl: Option<Duration>,
    /// How long a conversation is kept after it was last used; absent: as long as a response.
    pub conversation_ttl: Option<TimeToLive>,
    /// How long an idempotency key is kept, with the log of its response's events.
    pub idempotency_ttl: Duration,
    /// How long the log of a response is kept after its end.
    pub event_ttl: Duration,
    /// How many rows of requests that failed before their first output a tenant has at most; 0: none.
    pub failed_requests: u32,
    /// Tenants that have a retention of their own.
    pub tenants: HashMap<Arc<str>, TenantRetention>,
    /// The name under which this process owns its runs: the same after a restart, and unique among the processes that
    /// use this database.
    pub instance: String,
    /// How long a lease lasts: other processes end this one's runs if it was not renewed for so long. Should span
    /// three or more calls of [`Store::maintain`](antwort_store::Store::maintain).
    pub lease: Duration,
}

impl PostgresOptions {
    /// The defaults: no response expires, idempotency keys do after 24 hours, leases of a minute, 8 connections.
    pub fn new(url: impl Into<String>, instance: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            pool_size: 8,
            statement_timeout: Duration::from_secs(5),
            outage_timeout: OUTAGE_TIMEOUT,
            prepared_statements: true,
            migrate: true,
            migrations: Migrations::of_program(),
            ttl: None,
            conversation_ttl: None,
            idempotency_ttl: Duration::from_hours(24),
            event_ttl: Duration::from_secs(24 * 60 * 60),
            failed_requests: FailedRequests::DEFAULT_MAX,
            tenants: HashMap::new(),
            instance: instance.into(),
            lease: Duration::from_secs(60),
        }
    }

    /// What this process writes into its rows.
    pub(super) fn policy(&self) -> RowPolicy {
        let own = |ttl: fn(&TenantRetention) -> Option<Duration>| {
            self.tenants.iter().map(move |(tenant, own)| (Arc::clone(tenant), ttl(own)))
        };
        let conversation_ttl = self.conversation_ttl.map_or(self.ttl, |ttl| ttl.0);
        RowPolicy {
            instance: self.instance.clone(),
            lease: millis(self.lease),
            retention: TenantRetentions::new(self.ttl, own(|own| own.ttl)),
            conversations: TenantRetentions::new(conversation_ttl, own(|own| own.conversation_ttl)),
            key_ttl: millis(self.idempotency_ttl),
            event_ttl: millis(self.event_ttl),
            failed_requests: FailedRequests::new(self.failed_requests),
        }
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL has the password.
        to.debug_struct("PostgresOptions").field("instance", &self.instance).finish_non_exhaustive()
    }
}
