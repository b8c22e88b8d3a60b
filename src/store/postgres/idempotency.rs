//! Idempotency keys: written with the row of their response, deleted with it, or when they expire.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::keys::{ResponseKey, id_of};
use super::running::{self, RunningRow};
use super::session::{Param, Session};
use super::values::{get, hash};
use super::{keyed_rows, lifecycle, removal};
use crate::store::in_flight::InFlightRows;
use crate::store::operation::WriteOutcome;
use crate::store::row_policy::{RowPolicy, now};
use crate::store::{KeyedResponse, KeyedRun, Lease, StoreError};

/// Keys per transaction.
const BATCH_ROWS: i64 = 500;

/// Whether the key `k` of the response `s` counts at the time $3: a run that goes on keeps its key.
macro_rules! is_valid {
    () => {
        "(s.key IS NOT NULL AND k.expires_at > $3 AND (s.expires_at IS NULL OR s.expires_at > $3)
            OR EXISTS (SELECT 1 FROM runs r WHERE r.response = k.response AND r.owner = k.owner))"
    };
}

const FIND: &str = concat!(
    "SELECT s.key, s.id, k.fingerprint, EXISTS (SELECT 1 FROM runs r WHERE r.response = k.response AND r.owner = k.owner)
    FROM idempotency_keys k JOIN responses s ON s.key = k.response AND s.owner = k.owner
    WHERE k.owner = $1 AND k.key = $2 AND ",
    is_valid!()
);

/// The response of a key.
pub(super) async fn find(
    session: Session<'_>,
    owner: i64,
    key: &str,
) -> Result<Option<KeyedResponse>, StoreError> {
    let key = key.as_bytes();
    let row =
        session.query_opt(FIND, &[(&owner, Type::INT8), (&key, Type::BYTEA), (&now(), Type::INT8)]).await?;
    let read = |row: &Row| {
        let id = id_of(get(row, 0)?, get(row, 1)?)?;
        Ok(KeyedResponse { id, fingerprint: hash(row, 2)?, is_running: get(row, 3)? })
    };
    row.as_ref().map(read).transpose()
}

/// Whether a key has led to a response before. Locked, so that one process at a time replaces one that has expired.
const KNOWN: &str = concat!(
    "SELECT k.response, coalesce(",
    is_valid!(),
    ", false) FROM idempotency_keys k LEFT JOIN responses s ON s.key = k.response AND s.owner = k.owner
    WHERE k.owner = $1 AND k.key = $2 FOR UPDATE OF k"
);
/// The first of several processes has its key in; the others wait for its commit.
const INSERT: &str = "INSERT INTO idempotency_keys (owner, key, fingerprint, response, expires_at)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT (owner, key) DO NOTHING";

/// Begins a response with its key, unless the key has one.
pub(super) async fn begin(
    session: Session<'_>,
    policy: &RowPolicy,
    in_flight: &mut InFlightRows,
    owner: i64,
    run: &KeyedRun,
) -> Result<WriteOutcome, StoreError> {
    let KeyedRun { key, record, state, events } = run;
    let (now, response) = (now(), ResponseKey::of(record.lease.id.as_str()).uuid);
    let (name, fingerprint) = (key.key.as_bytes(), &key.fingerprint[..]);
    let known =
        session.query_opt(KNOWN, &[(&owner, Type::INT8), (&name, Type::BYTEA), (&now, Type::INT8)]).await?;
    let mut is_repeated = false;
    if let Some(row) = &known {
        let before: Uuid = get(row, 0)?;
        // Of a write that is repeated, as it was not known whether it had been committed, it is its own.
        is_repeated = before == response;
        if get::<bool>(row, 1)? && !is_repeated {
            return Ok(WriteOutcome::KeyTaken);
        }
        if !is_repeated {
            keyed_rows::remove(session, &[before], &[owner]).await?;
        }
    }
    let expires_at = now.saturating_add(policy.key_ttl);
    let parameters: [Param<'_>; 5] = [
        (&owner, Type::INT8),
        (&name, Type::BYTEA),
        (&fingerprint, Type::BYTEA),
        (&response, Type::UUID),
        (&expires_at, Type::INT8),
    ];
    if session.execute(INSERT, &parameters).await? == 0 && !is_repeated {
        return Ok(WriteOutcome::KeyTaken);
    }
    if let Err(refused) = lifecycle::begin(session, policy, in_flight, record, state.as_deref()).await? {
        if !is_repeated {
            keyed_rows::remove(session, &[response], &[owner]).await?;
        }
        return Ok(refused);
    }
    if let Some(events) = events {
        keyed_rows::insert_events(session, (response, owner), events, false).await?;
    }
    Ok(WriteOutcome::Changed)
}

/// Deletes a running response as if it had never been begun.
pub(super) async fn withdraw(
    session: Session<'_>,
    policy: &RowPolicy,
    in_flight: &mut InFlightRows,
    lease: &Lease,
) -> Result<WriteOutcome, StoreError> {
    in_flight.remove(lease);
    match running::find(session, policy, lease).await? {
        Some((key, RunningRow::Held | RunningRow::Deleted)) => {
            removal::remove_all(session, &[key]).await?;
            Ok(WriteOutcome::Changed)
        }
        Some((_, RunningRow::Superseded)) => Ok(WriteOutcome::Superseded),
        None => Ok(WriteOutcome::Absent),
    }
}

const EXPIRED: &str = "SELECT k.response, k.owner FROM idempotency_keys k
    WHERE k.expires_at <= $1
        AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.response = k.response AND r.owner = k.owner)
    ORDER BY k.expires_at LIMIT $2 FOR UPDATE OF k SKIP LOCKED";

/// Deletes expired keys with their logs. Returns whether there may be more.
pub(super) async fn delete_expired(session: Session<'_>) -> Result<bool, StoreError> {
    let found = session.query(EXPIRED, &[(&now(), Type::INT8), (&BATCH_ROWS, Type::INT8)]).await?;
    if found.is_empty() {
        return Ok(false);
    }
    let responses = found.iter().map(|row| get(row, 0)).collect::<Result<Vec<Uuid>, _>>()?;
    let owners = found.iter().map(|row| get(row, 1)).collect::<Result<Vec<i64>, _>>()?;
    keyed_rows::remove(session, &responses, &owners).await?;
    Ok(found.len() as i64 == BATCH_ROWS)
}
