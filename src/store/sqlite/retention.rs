//! What this process writes into its rows, and the ancestors that a response keeps alive.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, params};

use crate::store::ResponseRecord;
use crate::store::retention::{Retention, millis};

/// What this process writes into its rows; times in milliseconds.
pub(super) struct RowPolicy {
    /// The name under which this process owns rows.
    pub instance: String,
    /// How long a lease lasts without renewal.
    pub lease: i64,
    /// How long a response is kept after its last use.
    pub retention: Retention,
}

impl RowPolicy {
    pub(super) fn new(instance: String, lease: Duration, ttl: Option<Duration>) -> Self {
        Self { instance, lease: millis(lease), retention: Retention::new(ttl) }
    }
}

/// The time in Unix milliseconds.
pub(super) fn now() -> i64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Extends the life of a response's ancestors, and returns until when they all live.
pub(super) fn extend_lineage(
    connection: &Connection,
    policy: &RowPolicy,
    record: &ResponseRecord,
    now: i64,
) -> rusqlite::Result<Option<i64>> {
    let Some(expiry) = policy.retention.expiry(now) else {
        return Ok(None);
    };
    let Some(previous) = &record.previous else {
        return Ok(Some(expiry));
    };
    let (tenant, principal) = (&*record.owner.tenant, &*record.owner.principal);
    let known: Option<i64> = connection
        .prepare_cached(
            "SELECT lineage_until FROM responses WHERE tenant = ?1 AND principal = ?2 AND id = ?3",
        )?
        .query_row(params![tenant, principal, previous.as_str()], |row| row.get(0))
        .optional()?
        .flatten();
    if let Some(until) = policy.retention.inherited(known, expiry) {
        return Ok(Some(until));
    }
    connection.prepare_cached(EXTEND)?.execute(params![tenant, principal, previous.as_str(), now, expiry])?;
    Ok(Some(expiry))
}

/// An expired ancestor stays expired and ends the walk: the chain is broken there. The cross join makes SQLite go
/// from the chain to the rows, each by its full key.
pub(super) const EXTEND: &str = "WITH RECURSIVE chain (key, previous_id) AS (
        SELECT key, previous_id FROM responses
        WHERE tenant = ?1 AND principal = ?2 AND id = ?3 AND (expires_at IS NULL OR expires_at > ?4)
        UNION ALL
        SELECT r.key, r.previous_id FROM chain CROSS JOIN responses r
            ON r.tenant = ?1 AND r.principal = ?2 AND r.id = chain.previous_id
        WHERE r.expires_at IS NULL OR r.expires_at > ?4
        LIMIT 10000
    )
    UPDATE responses SET expires_at = ?5, lineage_until = ?5
    WHERE key IN (SELECT key FROM chain) AND expires_at < ?5";
