//! The tables that lead from the ids of items to their responses.
//!
//! An id that the gateway made names its response and needs no row; those of clients and model servers do.

use rusqlite::{Connection, params};

use antwort_store::item_index::Damaged;
use antwort_store::item_names::ItemNames;

/// Replaces the rows of the items that were in a response's index by those of the items that are.
pub(super) fn replace(
    connection: &Connection,
    (owner, key): (i64, i64),
    response: &str,
    before: &[u8],
    after: &[u8],
) -> rusqlite::Result<()> {
    let old = match ItemNames::read(before, response) {
        Ok(names) => names,
        Err(Damaged) => {
            remove_all(connection, key)?;
            ItemNames::default()
        }
    };
    let new = ItemNames::to_write(after, response);
    for id in old.ids.difference(&new.ids) {
        connection
            .prepare_cached("DELETE FROM item_ids WHERE owner = ?1 AND item_id = ?2 AND response = ?3")?
            .execute(params![owner, id, key])?;
    }
    for id in new.ids.difference(&old.ids) {
        connection
            .prepare_cached("INSERT INTO item_ids (owner, item_id, response) VALUES (?1, ?2, ?3)")?
            .execute(params![owner, id, key])?;
    }
    for state in old.states.difference(&new.states) {
        connection
            .prepare_cached("DELETE FROM item_states WHERE state_key = ?1 AND response = ?2")?
            .execute(params![state, key])?;
    }
    for state in new.states.difference(&old.states) {
        connection
            .prepare_cached("INSERT INTO item_states (state_key, response) VALUES (?1, ?2)")?
            .execute(params![state, key])?;
    }
    Ok(())
}

/// Which ids a damaged index had is not known: its rows are searched for.
fn remove_all(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM item_ids WHERE response = ?1", [key])?;
    connection.execute("DELETE FROM item_states WHERE response = ?1", [key])?;
    Ok(())
}
