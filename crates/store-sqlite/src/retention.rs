//! What this process writes into its rows, and the ancestors that a response keeps alive.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::keys::KeyRange;
use super::options::SqliteOptions;
use antwort_protocol::id::{Id, is_conversation_id};
use antwort_store::failed_requests::FailedRequests;
use antwort_store::retention::{Retention, TenantRetention, TenantRetentions, millis};
use antwort_store::row_policy::{MAX_CHAIN_LENGTH, RowPolicy};

/// What this process writes into its rows.
pub(super) fn policy(options: &SqliteOptions) -> RowPolicy {
    let own = |ttl: fn(&TenantRetention) -> Option<Duration>| {
        options.tenants.iter().map(move |(tenant, own)| (Arc::clone(tenant), ttl(own)))
    };
    let conversation_ttl = options.conversation_ttl.map_or(options.ttl, |ttl| ttl.0);
    RowPolicy {
        instance: options.instance.clone(),
        lease: millis(options.lease),
        retention: TenantRetentions::new(options.ttl, own(|own| own.ttl)),
        conversations: TenantRetentions::new(conversation_ttl, own(|own| own.conversation_ttl)),
        key_ttl: millis(options.idempotency_ttl),
        event_ttl: millis(options.event_ttl),
        failed_requests: FailedRequests::new(options.failed_requests),
    }
}

/// Extends the life of a response's ancestors, and returns until when they all live.
pub(super) fn extend_lineage(
    connection: &Connection,
    (retention, conversations): (Retention, Retention),
    owner: i64,
    previous: Option<&Id>,
    now: i64,
) -> rusqlite::Result<Option<i64>> {
    let Some(expiry) = retention.expiry(now) else {
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
    if let Some(until) = retention.inherited(known, expiry) {
        return Ok(Some(until));
    }
    extend(connection, conversations, owner, previous, (now, expiry))?;
    Ok(Some(expiry))
}

/// An expired ancestor stays expired and ends the walk: the chain is broken there.
fn extend(
    connection: &Connection,
    conversations: Retention,
    owner: i64,
    newest: &Id,
    (now, expiry): (i64, i64),
) -> rusqlite::Result<()> {
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
        let Some((key, previous)) = found else {
            use_conversation(connection, owner, &id, now, conversations)?;
            break;
        };
        update.execute(params![key, expiry])?;
        next = previous;
    }
    Ok(())
}

/// A chain that began in a conversation keeps that alive, too.
fn use_conversation(
    connection: &Connection,
    owner: i64,
    id: &str,
    now: i64,
    conversations: Retention,
) -> rusqlite::Result<()> {
    if is_conversation_id(id) {
        connection
            .prepare_cached(
                "UPDATE conversations SET used_at = ?3 WHERE id = ?1 AND owner = ?2 AND used_at > ?4",
            )?
            .execute(params![id, owner, now, conversations.oldest_use(now)])?;
    }
    Ok(())
}
