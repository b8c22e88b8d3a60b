//! What this process writes into its rows, and the ancestors that a response keeps alive.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, params};

use super::keys::KeyRange;
use crate::protocol::id::Id;
use crate::store::retention::{Retention, millis};

/// Responses in one chain. Far more than any model's context holds; bounds the work of one query.
pub(super) const MAX_CHAIN_LENGTH: usize = 10_000;

/// What this process writes into its rows; times in milliseconds.
pub(super) struct RowPolicy {
    /// The name under which this process owns rows.
    pub instance: String,
    /// How long a lease lasts without renewal.
    pub lease: i64,
    /// How long a response is kept after its last use.
    pub retention: Retention,
    /// How long an idempotency key is kept.
    pub key_ttl: i64,
}

impl RowPolicy {
    pub(super) fn new(instance: String, lease: Duration, ttl: Option<Duration>, key_ttl: Duration) -> Self {
        let retention = Retention::new(ttl);
        Self { instance, lease: millis(lease), retention, key_ttl: millis(key_ttl) }
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
    owner: i64,
    previous: Option<&Id>,
    now: i64,
) -> rusqlite::Result<Option<i64>> {
    let Some(expiry) = policy.retention.expiry(now) else {
        return Ok(None);
    };
    let Some(previous) = previous else {
        return Ok(Some(expiry));
    };
    let KeyRange { first, last } = KeyRange::of(previous.as_str());
    let known: Option<i64> = connection
        .prepare_cached(
            "SELECT lineage_until FROM responses WHERE key BETWEEN ?1 AND ?2 AND id = ?3 AND +owner = ?4",
        )?
        .query_row(params![first, last, previous.as_str(), owner], |row| row.get(0))
        .optional()?
        .flatten();
    if let Some(until) = policy.retention.inherited(known, expiry) {
        return Ok(Some(until));
    }
    extend(connection, owner, previous, now, expiry)?;
    Ok(Some(expiry))
}

/// An expired ancestor stays expired and ends the walk: the chain is broken there.
fn extend(connection: &Connection, owner: i64, newest: &Id, now: i64, expiry: i64) -> rusqlite::Result<()> {
    let mut find = connection.prepare_cached(
        "SELECT key, previous_id FROM responses
         WHERE key BETWEEN ?1 AND ?2 AND id = ?3 AND +owner = ?4 AND (expires_at IS NULL OR expires_at > ?5)",
    )?;
    let mut update = connection.prepare_cached(
        "UPDATE responses SET expires_at = ?2, lineage_until = ?2 WHERE key = ?1 AND expires_at < ?2",
    )?;
    let mut next = Some(newest.as_str().to_owned());
    for _ in 0..MAX_CHAIN_LENGTH {
        let Some(id) = next else { break };
        let KeyRange { first, last } = KeyRange::of(&id);
        let found: Option<(i64, Option<String>)> = find
            .query_row(params![first, last, id, owner, now], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((key, previous)) = found else { break };
        update.execute(params![key, expiry])?;
        next = previous;
    }
    Ok(())
}
