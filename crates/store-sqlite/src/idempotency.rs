//! Idempotency keys: written with the row of their response, deleted with it, or when they expire. Of a response that its
//! owner deletes the key stays, apart from those of responses.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::error::database;
use super::read::{bytes, text};
use super::running::{self, RunningRow};
use super::{deleted_keys, lifecycle, logged_rows, owners, rows};
use antwort_protocol::id::Id;
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{IdempotencyKey, KeyUse, KeyedResponse, Lease, LoggedRun, Owner, StoreError};

/// Keys per transaction.
const BATCH_ROWS: i64 = 200;

/// Whether the key `k` of the response `s` counts at the time ?3: a run that goes on keeps its key.
macro_rules! is_valid {
    () => {
        "(k.expires_at > ?3 AND (s.expires_at IS NULL OR s.expires_at > ?3)
            OR EXISTS (SELECT 1 FROM runs r WHERE r.response = k.response))"
    };
}

const FIND: &str = concat!(
    "SELECT s.id, k.fingerprint, EXISTS (SELECT 1 FROM runs r WHERE r.response = k.response) FROM idempotency_keys k JOIN responses s ON s.key = k.response
     WHERE k.owner = ?1 AND k.key = ?2 AND ",
    is_valid!(),
    " UNION ALL SELECT NULL, fingerprint, 0 FROM deleted_keys WHERE owner = ?1 AND key = ?2 AND expires_at > ?3"
);

/// What a key has led to.
pub(super) fn find(connection: &Connection, owner: &Owner, key: &str) -> Result<Option<KeyUse>, StoreError> {
    let Some(owner) = owners::find(connection, owner).map_err(database)? else { return Ok(None) };
    let read = |row: &Row<'_>| {
        let fingerprint = bytes(row, 1)?.try_into().unwrap_or_default();
        if row.get_ref(0)? == ValueRef::Null {
            return Ok(KeyUse::Deleted { fingerprint });
        }
        let found = KeyedResponse { id: Id::from(text(row, 0)?), fingerprint, is_running: row.get(2)? };
        Ok(KeyUse::Response(found))
    };
    let mut statement = connection.prepare_cached(FIND).map_err(database)?;
    statement.query_row(params![owner, key, now()], read).optional().map_err(database)
}

/// Begins a response with its key and its log, unless the key has one.
pub(super) fn begin(
    connection: &Connection,
    policy: &RowPolicy,
    in_flight: &mut InFlightRows,
    run: &LoggedRun,
) -> rusqlite::Result<WriteOutcome> {
    let LoggedRun { key, record, state, events } = run;
    let owner = owners::key(connection, &record.owner)?;
    if let Some(key) = key
        && is_taken(connection, owner, key)?
    {
        return Ok(WriteOutcome::KeyTaken);
    }
    let response = match lifecycle::begin(connection, policy, in_flight, record, state.as_deref())? {
        Ok(response) => response,
        Err(refused) => return Ok(refused),
    };
    if let Some(key) = key {
        insert(connection, (owner, response), key, now().saturating_add(policy.key_ttl))?;
    }
    if let Some(events) = events {
        logged_rows::begin_log(connection, response, events)?;
    }
    Ok(WriteOutcome::Changed)
}

/// Whether the key has led to a response. One that does not count any more is deleted.
fn is_taken(connection: &Connection, owner: i64, key: &IdempotencyKey) -> rusqlite::Result<bool> {
    let known: Option<(i64, bool)> = connection
        .prepare_cached(concat!(
            "SELECT k.response, ",
            is_valid!(),
            " FROM idempotency_keys k JOIN responses s ON s.key = k.response WHERE k.owner = ?1 AND k.key = ?2"
        ))?
        .query_row(params![owner, &*key.key, now()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match known {
        Some((_, true)) => Ok(true),
        Some((response, false)) => logged_rows::remove_key(connection, response).map(|()| false),
        None => deleted_keys::is_kept(connection, owner, &key.key),
    }
}

fn insert(
    connection: &Connection,
    (owner, response): (i64, i64),
    key: &IdempotencyKey,
    expires_at: i64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO idempotency_keys (owner, key, fingerprint, response, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![owner, &*key.key, key.fingerprint, response, expires_at])?;
    Ok(())
}

/// Deletes a running response as if it had never been begun.
pub(super) fn withdraw(
    connection: &Connection,
    policy: &RowPolicy,
    in_flight: &mut InFlightRows,
    lease: &Lease,
) -> rusqlite::Result<WriteOutcome> {
    in_flight.remove(lease);
    match running::find(connection, policy, lease)? {
        Some((key, row @ (RunningRow::Held | RunningRow::Deleted))) => {
            rows::remove(connection, key)?;
            Ok(if row == RunningRow::Held { WriteOutcome::Changed } else { WriteOutcome::Absent })
        }
        Some((_, RunningRow::Superseded)) => Ok(WriteOutcome::Superseded),
        None => Ok(WriteOutcome::Absent),
    }
}

const EXPIRED: &str = "SELECT k.response FROM idempotency_keys k
    WHERE k.expires_at <= ?1 AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.response = k.response) LIMIT ?2";

/// Deletes expired keys. Returns whether there may be more.
pub(super) fn delete_expired(connection: &mut Connection) -> Result<bool, StoreError> {
    // Usually there is nothing to do; then no lock is taken.
    if expired(connection, 1)?.is_empty() && !deleted_keys::any_expired(connection).map_err(database)? {
        return Ok(false);
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    for response in expired(&transaction, BATCH_ROWS)? {
        logged_rows::remove_key(&transaction, response).map_err(database)?;
    }
    deleted_keys::delete_expired(&transaction, BATCH_ROWS).map_err(database)?;
    transaction.commit().map_err(database)?;
    Ok(true)
}

fn expired(connection: &Connection, limit: i64) -> Result<Vec<i64>, StoreError> {
    let mut statement = connection.prepare_cached(EXPIRED).map_err(database)?;
    let found = statement.query_map(params![now(), limit], |row| row.get(0)).map_err(database)?;
    found.collect::<Result<_, _>>().map_err(database)
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn keys_are_found_by_their_indexes() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        for (sql, step) in [
            (FIND, "SEARCH k USING PRIMARY KEY (owner=? AND key=?)"),
            (EXPIRED, "SEARCH k USING COVERING INDEX idempotency_keys_by_expiry (expires_at<?)"),
            (
                "DELETE FROM idempotency_keys WHERE response = ?1",
                "SEARCH idempotency_keys USING COVERING INDEX idempotency_keys_by_response (response=?)",
            ),
            (FIND, "SEARCH deleted_keys USING PRIMARY KEY (owner=? AND key=?)"),
        ] {
            let plan = schema::plan(&connection, sql);
            assert!(
                plan.iter().any(|found| found.starts_with(step.split(" USING").next().unwrap())),
                "{plan:#?}"
            );
            assert!(!plan.iter().any(|found| found.starts_with("SCAN")), "{plan:#?}");
        }
    }
}
