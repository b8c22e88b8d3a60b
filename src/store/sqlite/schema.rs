//! The schema: applies migrations, and refuses files that are not ours or come from a later version.

use rusqlite::{Connection, TransactionBehavior};

use super::error::database;
use crate::store::StoreError;

/// Every migration in order. The n-th leads to schema version n; a released one is never edited.
const MIGRATIONS: &[&str] = &[
    include_str!("../../../migrations/sqlite/0001_responses.sql"),
    include_str!("../../../migrations/sqlite/0002_tool_calls.sql"),
    include_str!("../../../migrations/sqlite/0003_approvals.sql"),
    include_str!("../../../migrations/sqlite/0004_item_state.sql"),
    include_str!("../../../migrations/sqlite/0005_item_owners.sql"),
];

/// The schema version that this antwort writes.
const KNOWN: i64 = MIGRATIONS.len() as i64;

/// Marks a file as antwort's (`antw`), so that another program's database is never written to.
const APPLICATION_ID: i32 = 0x616e_7477;

/// Brings the database to the schema that this version knows.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    if version(connection)? == KNOWN {
        return Ok(());
    }
    // Two processes may open a new file at once: the version that counts is read under the lock.
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    let from = version(&transaction)?;
    for (version, migration) in (1..).zip(MIGRATIONS) {
        if version > from {
            transaction.execute_batch(migration).map_err(database)?;
        }
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(database)?;
    transaction.pragma_update(None, "user_version", KNOWN).map_err(database)?;
    transaction.commit().map_err(database)
}

/// The schema's version, if the database is ours and not from the future.
fn version(connection: &Connection) -> Result<i64, StoreError> {
    let application: i32 = connection.pragma_query_one(None, "application_id").map_err(database)?;
    let version: i64 = connection.pragma_query_one(None, "user_version").map_err(database)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(database)?;
    if tables > 0 && application != APPLICATION_ID {
        return Err(StoreError::Database(
            "the file is another program's SQLite database; choose another path".to_owned(),
        ));
    }
    if version > KNOWN {
        return Err(StoreError::Database(format!(
            "its schema has version {version} and this antwort knows versions up to {KNOWN}: \
             a later antwort has written it; run that one, or use another file"
        )));
    }
    Ok(version)
}

/// The steps by which SQLite would run a statement.
#[cfg(test)]
pub(super) fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let parameters = vec![""; statement.parameter_count()];
    let plan = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get(3)).unwrap();
    plan.map(Result::unwrap).collect()
}
