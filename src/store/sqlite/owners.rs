//! The table of owners: each row names its owner by a small number.
//!
//! A row of an owner is never deleted, so that keys may be remembered.

use rusqlite::{Connection, OptionalExtension, params};

use crate::store::Owner;

/// The key of this owner; `None` if it has never stored anything.
pub(super) fn find(connection: &Connection, owner: &Owner) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT key FROM owners WHERE tenant = ?1 AND principal = ?2")?
        .query_row(params![&*owner.tenant, &*owner.principal], |row| row.get(0))
        .optional()
}

/// The key of this owner, which is new if it stores something for the first time.
pub(super) fn key(connection: &Connection, owner: &Owner) -> rusqlite::Result<i64> {
    if let Some(key) = find(connection, owner)? {
        return Ok(key);
    }
    connection
        .prepare_cached("INSERT INTO owners (tenant, principal) VALUES (?1, ?2)")?
        .execute(params![&*owner.tenant, &*owner.principal])?;
    Ok(connection.last_insert_rowid())
}
