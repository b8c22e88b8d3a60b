//! Deletes conversations with their items, in steps that other writes run between.
//!
//! The one that was used longest ago comes first. A conversation that is deleted is marked in the first step, and its row
//! goes with its last items.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::conversation_items::{end, key};
use super::conversations;
use super::error::database;
use super::retention::now;
use super::space::{BATCH_BYTES, used_bytes};
use crate::store::StoreError;
use crate::store::retention::Retention;

/// Items that a step deletes.
const STEP_ITEMS: i64 = 200;

const LEAST_USED: &str = "SELECT key, used_at FROM conversations ORDER BY used_at LIMIT 1";
const ITEMS: &str = "SELECT key FROM conversation_items WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3";

/// The conversation that was used longest ago, and when that was.
pub(super) fn least_used(connection: &Connection) -> Result<Option<(i64, i64)>, StoreError> {
    connection
        .prepare_cached(LEAST_USED)
        .map_err(database)?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .map_err(database)
}

/// One step of deleting expired conversations. Returns whether there may be more.
pub(super) fn step(connection: &mut Connection, retention: Retention) -> Result<bool, StoreError> {
    match least_used(connection)? {
        Some((conversation, used_at)) if used_at <= retention.oldest_use(now()) => {
            delete(connection, conversation)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// One step of deleting a conversation. Returns whether there is more of it.
pub(super) fn delete(connection: &mut Connection, conversation: i64) -> Result<bool, StoreError> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    conversations::mark_deleted(&transaction, conversation).map_err(database)?;
    let is_done = delete_items(&transaction, conversation)?;
    if is_done {
        transaction
            .prepare_cached("DELETE FROM conversations WHERE key = ?1")
            .map_err(database)?
            .execute([conversation])
            .map_err(database)?;
    }
    transaction.commit().map_err(database)?;
    Ok(!is_done)
}

/// Deletes items until it is enough for one transaction. Returns whether none is left.
fn delete_items(connection: &Connection, conversation: i64) -> Result<bool, StoreError> {
    let target = used_bytes(connection)?.saturating_sub(BATCH_BYTES);
    let mut statement = connection.prepare_cached(ITEMS).map_err(database)?;
    let keys = statement
        .query_map(params![key(conversation, 0), end(conversation), STEP_ITEMS], |row| row.get::<_, i64>(0))
        .map_err(database)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(database)?;
    let mut delete =
        connection.prepare_cached("DELETE FROM conversation_items WHERE key = ?1").map_err(database)?;
    for key in &keys {
        delete.execute([key]).map_err(database)?;
        if used_bytes(connection)? <= target {
            return Ok(false);
        }
    }
    Ok((keys.len() as i64) < STEP_ITEMS)
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn the_conversation_to_delete_and_its_items_are_found_by_indexes() {
        let connection = Connection::open_in_memory().unwrap();
        schema::apply(&connection, 0).unwrap();
        assert_eq!(
            schema::plan(&connection, LEAST_USED),
            ["SCAN conversations USING COVERING INDEX conversations_by_use"]
        );
        let range = "SEARCH conversation_items USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)";
        assert_eq!(schema::plan(&connection, ITEMS), [range]);
    }
}
