//! Retention: when a response expires, and the ancestors that it keeps alive.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, params};

use crate::store::ResponseRecord;

/// An ancestor is rewritten only when its expiry moves by at least this fraction of the time to live.
const EXTENSION_DIVISOR: i64 = 24;

/// What this process writes into its rows; times in milliseconds.
pub(super) struct RowPolicy {
    /// The name under which this process owns rows.
    pub instance: String,
    /// How long a lease lasts without renewal.
    pub lease: i64,
    /// How long a response is kept after its last use.
    pub ttl: Option<i64>,
}

impl RowPolicy {
    pub(super) fn new(instance: String, lease: Duration, ttl: Option<Duration>) -> Self {
        Self { instance, lease: millis(lease), ttl: ttl.map(millis) }
    }

    /// The expiry of a row that is used now.
    pub(super) fn expiry(&self, now: i64) -> Option<i64> {
        Some(now.saturating_add(self.ttl?))
    }
}

/// The time in Unix milliseconds.
pub(super) fn now() -> i64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Extends the life of a response's ancestors, and returns until when they all live.
///
/// Walking the chain for every turn would make each turn dearer than the last. So each row remembers a time before
/// which neither it nor any of its ancestors expires; a child inherits it while it is recent, and only otherwise is
/// the chain walked. A chain in use is thus rewritten once per 1/24 of the time to live. The parent's own expiry
/// would not do: it is always recent if turns are quick.
pub(super) fn extend_lineage(
    connection: &Connection,
    policy: &RowPolicy,
    record: &ResponseRecord,
    now: i64,
) -> rusqlite::Result<Option<i64>> {
    let (Some(ttl), Some(expiry)) = (policy.ttl, policy.expiry(now)) else {
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
    if let Some(known) = known.filter(|known| *known >= expiry.saturating_sub(ttl / EXTENSION_DIVISOR)) {
        return Ok(Some(known));
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
