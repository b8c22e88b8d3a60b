//! Moves the rows of schema 6 into those of schema 7, one after another, in the transaction of the migration.
//!
//! What was moved is deleted from the old tables, so that its pages are used again and the file hardly grows. The
//! statements are interrupted like those of a migration in SQL.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::database;
use super::item_ids;
use super::keys::KeyRange;
use crate::protocol::id::Id;
use crate::store::item_index::ItemColumns;
use crate::store::{Direction, ModelView, StateKey, StoreError, StoredItem, StoredState};

/// The column `side` of an old item that the client sent.
const INPUT: i64 = 0;

const NEXT: &str = "SELECT r.key, o.key, r.id FROM old_responses r
    CROSS JOIN owners o ON o.tenant = r.tenant AND o.principal = r.principal
    WHERE r.key > ?1 ORDER BY r.key LIMIT 1";

const MOVE: &str = "INSERT INTO responses (key, owner, id, expires_at, lineage_until, created_at, finished_at, status,
        previous_id, model, item_index, items, body)
    SELECT ?2, ?3, id, expires_at, lineage_until, created_at, finished_at, status, previous_id, model, ?4, ?5, body
    FROM old_responses WHERE key = ?1";

const ITEMS: &str = "SELECT item_id, side, history, wire, state_key, state FROM old_items WHERE response = ?1
    ORDER BY position";

/// Moves all rows and drops the old tables.
pub(super) fn move_rows(connection: &Connection) -> Result<(), StoreError> {
    let mut last = i64::MIN;
    while let Some(key) = move_next(connection, last).map_err(database)? {
        last = key;
    }
    // Rows without a response belong to nobody.
    connection
        .execute_batch(
            "DELETE FROM tool_calls WHERE response NOT IN (SELECT key FROM responses);
             DELETE FROM runs WHERE response NOT IN (SELECT key FROM responses);
             DROP TABLE old_items;
             DROP TABLE old_responses;",
        )
        .map_err(database)
}

/// Moves the response behind this key. Returns its old key; `None` if there is none.
fn move_next(connection: &Connection, last: i64) -> rusqlite::Result<Option<i64>> {
    let next: Option<(i64, i64, String)> = connection
        .prepare_cached(NEXT)?
        .query_row([last], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((old, owner, id)) = next else { return Ok(None) };
    let key = free_key(connection, &id)?;
    let columns = ItemColumns::of(&items(connection, old)?);
    connection.prepare_cached(MOVE)?.execute(params![old, key, owner, columns.index, columns.texts])?;
    item_ids::replace(connection, (owner, key), &id, &[], &columns.index)?;
    for sql in [
        "UPDATE tool_calls SET response = ?2 WHERE response = ?1",
        "UPDATE runs SET response = ?2 WHERE response = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([old, key])?;
    }
    for sql in ["DELETE FROM old_items WHERE response = ?1", "DELETE FROM old_responses WHERE key = ?1"] {
        connection.prepare_cached(sql)?.execute([old])?;
    }
    Ok(Some(old))
}

/// The first key that no row has, of those that the id may have. If all are taken, the row cannot be inserted, and the
/// migration fails.
fn free_key(connection: &Connection, id: &str) -> rusqlite::Result<i64> {
    let KeyRange { first, last } = KeyRange::of(id);
    let mut find = connection.prepare_cached("SELECT 1 FROM responses WHERE key = ?1")?;
    for key in first..last {
        if find.query_row([key], |_| Ok(())).optional()?.is_none() {
            return Ok(key);
        }
    }
    Ok(last)
}

fn items(connection: &Connection, response: i64) -> rusqlite::Result<Vec<StoredItem>> {
    let mut statement = connection.prepare_cached(ITEMS)?;
    statement.query_map([response], item)?.collect()
}

fn item(row: &Row<'_>) -> rusqlite::Result<StoredItem> {
    let (key, blob): (Option<String>, Option<String>) = (row.get(4)?, row.get(5)?);
    Ok(StoredItem {
        id: Id::from(row.get::<_, String>(0)?),
        direction: if row.get::<_, i64>(1)? == INPUT { Direction::Input } else { Direction::Output },
        wire: row.get::<_, String>(3)?.into(),
        model_view: match row.get::<_, Option<String>>(2)? {
            None => ModelView::Same,
            Some(nothing) if nothing.is_empty() => ModelView::Hidden,
            Some(other) => ModelView::Override(other.into()),
        },
        state: key.zip(blob).map(|(key, blob)| StoredState { key: StateKey::stored(key), blob: blob.into() }),
    })
}
