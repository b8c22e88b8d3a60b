//! The table of owners: each row names its owner by a small number.
//!
//! Maintenance forgets owners that have nothing stored any more. No key is given twice, so that one that was read stays
//! that owner's.

use rusqlite::{Connection, OptionalExtension, params};

use super::error::database;
use antwort_store::{Owner, StoreError};

/// Owners that a round of maintenance looks at.
const ROUND_OWNERS: i64 = 500;

/// Some owners behind a key, and whether they have nothing stored.
const NEXT: &str = "SELECT key, NOT EXISTS (SELECT 1 FROM responses WHERE owner = o.key)
        AND NOT EXISTS (SELECT 1 FROM approvals WHERE owner = o.key)
        AND NOT EXISTS (SELECT 1 FROM conversations WHERE owner = o.key)
        AND NOT EXISTS (SELECT 1 FROM webhook_outbox WHERE owner = o.key)
        AND NOT EXISTS (SELECT 1 FROM deleted_keys WHERE owner = o.key)
    FROM owners o WHERE key > ?1 ORDER BY key LIMIT ?2";

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

/// Forgets the unused ones of some owners behind this key. Returns the last key that was looked at; `None` at the end.
pub(super) fn forget_unused(connection: &mut Connection, after: i64) -> Result<Option<i64>, StoreError> {
    let mut statement = connection.prepare_cached(NEXT).map_err(database)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?));
    let found = statement.query_map([after, ROUND_OWNERS], read).map_err(database)?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(database)?;
    drop(statement);
    for (key, _) in found.iter().filter(|(_, is_unused)| *is_unused) {
        forget(connection, *key).map_err(database)?;
    }
    Ok(found.last().map(|(key, _)| *key))
}

/// Deletes an owner. The one with the highest key only loses its name, or the key would be given to the next.
fn forget(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    let deleted = connection
        .prepare_cached("DELETE FROM owners WHERE key = ?1 AND key < (SELECT max(key) FROM owners)")?
        .execute([key])?;
    if deleted == 0 {
        connection
            .prepare_cached(
                "UPDATE owners SET tenant = '', principal = '#' || key WHERE key = ?1 AND tenant <> ''",
            )?
            .execute([key])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    fn names(connection: &Connection) -> Vec<(i64, String)> {
        let mut statement = connection.prepare("SELECT key, principal FROM owners ORDER BY key").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    fn add(connection: &Connection, name: &str) -> i64 {
        key(connection, &Owner { tenant: "t".into(), principal: name.into() }).unwrap()
    }

    #[test]
    fn names_of_owners_without_data_are_forgotten_and_no_key_is_given_twice() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        let keys = ["ann", "bob", "eve"].map(|name| add(&connection, name));
        let sql = "INSERT INTO approvals (owner, id, response, arguments, definition, expires_at)
            VALUES (?1, 'a', 'r', x'', x'', 9)";
        connection.execute(sql, [keys[1]]).unwrap();
        assert_eq!(forget_unused(&mut connection, 0).unwrap(), Some(keys[2]));
        assert_eq!(names(&connection), [(keys[1], "bob".to_owned()), (keys[2], format!("#{}", keys[2]))]);
        assert_eq!(forget_unused(&mut connection, keys[2]).unwrap(), None);
        assert!(add(&connection, "eve") > keys[2]);
        forget_unused(&mut connection, 0).unwrap();
        assert_eq!(names(&connection).len(), 2, "the nameless one is gone: it is not the last any more");
    }

    #[test]
    fn owners_without_data_are_found_by_indexes() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        let plan = schema::plan(&connection, NEXT);
        assert!(plan.iter().all(|step| !step.starts_with("SCAN")), "{plan:?}");
    }
}
