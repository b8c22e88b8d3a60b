//! Periodic maintenance: renews leases, deletes rows for which there is no room.
//!
//! Each function is one bounded transaction on the writer thread; those that return whether there may be more are
//! called again, and other writes run in between.

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::error::database;
use super::space::{BATCH_BYTES, used_bytes};
use super::{conversation_expiry, rows};
use antwort_store::StoreError;
use antwort_store::conversations::ConversationLocks;
use antwort_store::row_policy::{RowPolicy, now};

/// Rows per transaction.
const BATCH_ROWS: i64 = 200;

/// Renews the leases of the runs that this process makes. Those of orphans that it has taken over end unless they are
/// finished.
pub(super) fn renew_leases(connection: &mut Connection, policy: &RowPolicy) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE runs SET lease_until = ?1 WHERE instance = ?2 AND orphan IS NULL")
        .map_err(database)?
        .execute(params![now().saturating_add(policy.lease), policy.instance])
        .map_err(database)?;
    Ok(())
}

/// Releases this process's leases, so that another process may end its runs.
pub(super) fn release_leases(connection: &mut Connection, policy: &RowPolicy) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE runs SET lease_until = 0 WHERE instance = ?1")
        .map_err(database)?
        .execute([&policy.instance])
        .map_err(database)?;
    Ok(())
}

/// Deletes the oldest ended rows, and the conversations that were used longest ago, while the database is larger than
/// `max_bytes`. Returns whether it still may be.
pub(super) fn trim(
    connection: &mut Connection,
    max_bytes: u64,
    locks: &ConversationLocks,
) -> Result<bool, StoreError> {
    let used = used_bytes(connection).map_err(database)?;
    if used <= max_bytes {
        return Ok(false);
    }
    let target = max_bytes.max(used.saturating_sub(BATCH_BYTES));
    let conversation = conversation_expiry::least_used(connection, locks)?;
    let oldest = oldest_responses(connection)?;
    if let Some((key, used_at)) = conversation
        && oldest.first().is_none_or(|(_, created_at)| used_at / 1000 <= *created_at)
    {
        conversation_expiry::delete(connection, key)?;
        return Ok(true);
    }
    let transaction = begin(connection)?;
    for (key, created_at) in &oldest {
        if conversation.is_some_and(|(_, used_at)| used_at / 1000 <= *created_at) {
            break;
        }
        rows::remove(&transaction, *key).map_err(database)?;
        if used_bytes(&transaction).map_err(database)? <= target {
            break;
        }
    }
    transaction.commit().map_err(database)?;
    if oldest.is_empty() {
        tracing::warn!(
            max_bytes,
            "store: the database exceeds store.max_size, and all its responses are still running"
        );
    }
    Ok(!oldest.is_empty())
}

/// Writes and commits one row: shows whether the database accepts writes now.
pub(super) fn probe(connection: &mut Connection) -> Result<(), StoreError> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO probe (id, written) VALUES (0, ?1)")
        .map_err(database)?
        .execute([now()])
        .map_err(database)?;
    Ok(())
}

/// The oldest ended rows, and when they were created, in Unix seconds.
fn oldest_responses(connection: &Connection) -> Result<Vec<(i64, i64)>, StoreError> {
    let sql = "SELECT key, created_at FROM responses WHERE key NOT IN (SELECT response FROM runs)
        ORDER BY key LIMIT ?1";
    let mut statement = connection.prepare_cached(sql).map_err(database)?;
    let rows = statement.query_map([BATCH_ROWS], |row| Ok((row.get(0)?, row.get(1)?))).map_err(database)?;
    rows.collect::<Result<_, _>>().map_err(database)
}

fn begin(connection: &mut Connection) -> Result<Transaction<'_>, StoreError> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)
}
