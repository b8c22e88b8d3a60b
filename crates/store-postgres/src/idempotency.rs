//! Idempotency keys: written with the row of their response, deleted with it, or when they expire. Of a response that its
//! owner deletes the key stays, apart from those of responses.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::keys::{ResponseKey, id_of};
use super::running::{self, RunningRow};
use super::session::{Param, Session};
use super::values::{get, hash};
use super::{deleted_keys, jobs, lifecycle, logged_rows, owners, removal};
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{IdempotencyKey, KeyUse, KeyedResponse, Lease, LoggedRun, StoreError};

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
    is_valid!(),
    " UNION ALL SELECT NULL, NULL, fingerprint, false FROM deleted_keys
    WHERE owner = $1 AND key = $2 AND expires_at > $3"
);

/// What a key has led to.
pub(super) async fn find(session: Session<'_>, owner: i64, key: &str) -> Result<Option<KeyUse>, StoreError> {
    let key = key.as_bytes();
    let row =
        session.query_opt(FIND, &[(&owner, Type::INT8), (&key, Type::BYTEA), (&now(), Type::INT8)]).await?;
    let read = |row: &Row| {
        let fingerprint = hash(row, 2)?;
        let Some(key) = get::<Option<Uuid>>(row, 0)? else { return Ok(KeyUse::Deleted { fingerprint }) };
        let id = id_of(key, get(row, 1)?)?;
        Ok(KeyUse::Response(KeyedResponse { id, fingerprint, is_running: get(row, 3)? }))
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
/// The first of several processes has its key in; the others wait for its commit. The key of a deleted response is not free.
const INSERT: &str = "INSERT INTO idempotency_keys (owner, key, fingerprint, response, expires_at)
    SELECT $1, $2, $3, $4, $5
    WHERE NOT EXISTS (SELECT 1 FROM deleted_keys WHERE owner = $1 AND key = $2 AND expires_at > $6)
    ON CONFLICT (owner, key) DO NOTHING";

/// Begins a response with its key and its log, unless the key has one. With a job it is queued.
pub(super) async fn begin(
    session: Session<'_>,
    policy: &RowPolicy,
    in_flight: &mut InFlightRows,
    run: &LoggedRun,
    job: Option<&[u8]>,
) -> Result<WriteOutcome, StoreError> {
    let LoggedRun { key, record, state, events } = run;
    let owner = owners::key(session, &record.owner).await?;
    let response = ResponseKey::of(record.lease.id.as_str()).uuid;
    let inserted = match key {
        Some(key) => insert(session, policy, (owner, response), key).await?,
        None => Key::Known,
    };
    if inserted == Key::Taken {
        return Ok(WriteOutcome::KeyTaken);
    }
    let state = state.as_deref();
    let begun = match job {
        Some(job) => jobs::begin(session, in_flight, record, state, job).await?,
        None => lifecycle::begin(session, policy, in_flight, record, state).await?,
    };
    if let Err(refused) = begun {
        if inserted == Key::New {
            logged_rows::remove_keys(session, &[response], &[owner]).await?;
        }
        return Ok(refused);
    }
    if let Some(events) = events {
        logged_rows::begin_log(session, (response, owner), events).await?;
    }
    Ok(WriteOutcome::Changed)
}

/// What has become of a key.
#[derive(PartialEq, Eq)]
enum Key {
    New,
    /// It leads to this response, or there is none. So it is with a write that is repeated, as it was not known whether it
    /// had been committed.
    Known,
    /// It leads to another response, or to one that was deleted.
    Taken,
}

async fn insert(
    session: Session<'_>,
    policy: &RowPolicy,
    (owner, response): (i64, Uuid),
    key: &IdempotencyKey,
) -> Result<Key, StoreError> {
    let now = now();
    let (name, fingerprint) = (key.key.as_bytes(), &key.fingerprint[..]);
    let known =
        session.query_opt(KNOWN, &[(&owner, Type::INT8), (&name, Type::BYTEA), (&now, Type::INT8)]).await?;
    if let Some(row) = &known {
        let before: Uuid = get(row, 0)?;
        if before == response {
            return Ok(Key::Known);
        }
        if get::<bool>(row, 1)? {
            return Ok(Key::Taken);
        }
        logged_rows::remove_keys(session, &[before], &[owner]).await?;
    }
    let expires_at = now.saturating_add(policy.key_ttl);
    let parameters: [Param<'_>; 6] = [
        (&owner, Type::INT8),
        (&name, Type::BYTEA),
        (&fingerprint, Type::BYTEA),
        (&response, Type::UUID),
        (&expires_at, Type::INT8),
        (&now, Type::INT8),
    ];
    Ok(match session.execute(INSERT, &parameters).await? {
        0 => Key::Taken,
        _ => Key::New,
    })
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
        Some((key, row @ (RunningRow::Held | RunningRow::Deleted))) => {
            removal::remove_all(session, &[key]).await?;
            Ok(if row == RunningRow::Held { WriteOutcome::Changed } else { WriteOutcome::Absent })
        }
        Some((_, RunningRow::Superseded)) => Ok(WriteOutcome::Superseded),
        None => Ok(WriteOutcome::Absent),
    }
}

const EXPIRED: &str = "SELECT k.response, k.owner FROM idempotency_keys k
    WHERE k.expires_at <= $1
        AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.response = k.response AND r.owner = k.owner)
    ORDER BY k.expires_at LIMIT $2 FOR UPDATE OF k SKIP LOCKED";

/// Deletes expired keys. Returns whether there may be more.
pub(super) async fn delete_expired(session: Session<'_>) -> Result<bool, StoreError> {
    let found = session.query(EXPIRED, &[(&now(), Type::INT8), (&BATCH_ROWS, Type::INT8)]).await?;
    if found.is_empty() {
        return deleted_keys::delete_expired(session, BATCH_ROWS).await;
    }
    let responses = found.iter().map(|row| get(row, 0)).collect::<Result<Vec<Uuid>, _>>()?;
    let owners = found.iter().map(|row| get(row, 1)).collect::<Result<Vec<i64>, _>>()?;
    logged_rows::remove_keys(session, &responses, &owners).await?;
    Ok(true)
}
