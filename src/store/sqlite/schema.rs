//! The schema: the version of a file, and the migrations to the current one. Refuses other programs' files. Whether a
//! file of an earlier version is migrated is decided in `migrate`.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::error::database;
use super::move_rows::move_rows;
use super::options::Location;
use super::{backup_names, connection};
use crate::store::StoreError;

/// Every migration in order. The n-th leads to schema version n; a released one is never edited.
const MIGRATIONS: &[Migration] = &[
    sql(include_str!("../../../migrations/sqlite/0001_responses.sql")),
    sql(include_str!("../../../migrations/sqlite/0002_tool_calls.sql")),
    sql(include_str!("../../../migrations/sqlite/0003_approvals.sql")),
    sql(include_str!("../../../migrations/sqlite/0004_item_state.sql")),
    sql(include_str!("../../../migrations/sqlite/0005_item_owners.sql")),
    sql(include_str!("../../../migrations/sqlite/0006_runs.sql")),
    Migration { sql: include_str!("../../../migrations/sqlite/0007_one_row.sql"), then: Some(move_rows) },
    sql(include_str!("../../../migrations/sqlite/0008_conversations_and_keys.sql")),
    sql(include_str!("../../../migrations/sqlite/0009_live.sql")),
    sql(include_str!("../../../migrations/sqlite/0010_jobs.sql")),
    sql(include_str!("../../../migrations/sqlite/0011_inputs.sql")),
    sql(include_str!("../../../migrations/sqlite/0012_tasks.sql")),
    sql(include_str!("../../../migrations/sqlite/0013_traces.sql")),
    sql(include_str!("../../../migrations/sqlite/0014_deleted_keys.sql")),
    sql(include_str!("../../../migrations/sqlite/0015_conversation_queues.sql")),
    sql(include_str!("../../../migrations/sqlite/0016_shares.sql")),
];

/// A part of a migration in Rust.
type Step = fn(&Connection) -> Result<(), StoreError>;

/// A migration.
struct Migration {
    sql: &'static str,
    /// What SQL cannot do, behind it.
    then: Option<Step>,
}

/// Whether the migrations after this version rewrite the rows of the database.
pub(super) fn moves_rows(from: i64) -> bool {
    (1..).zip(MIGRATIONS).any(|(version, migration): (i64, _)| version > from && migration.then.is_some())
}

/// A migration in SQL alone.
const fn sql(sql: &'static str) -> Migration {
    Migration { sql, then: None }
}

/// The schema version that this build writes.
const CURRENT_VERSION: i64 = MIGRATIONS.len() as i64;

/// The application id (`antw`): another program's database is never written to.
const APPLICATION_ID: i32 = 0x616e_7477;

/// How the schema of a file relates to the one that this build writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// There is none yet: no file, or an empty one.
    New,
    /// Written by an earlier version of antwort.
    Older(i64),
    /// The current schema.
    Current,
    /// Written by a later version of antwort.
    Newer(i64),
}

impl Schema {
    /// The version that this build writes.
    pub const CURRENT: i64 = CURRENT_VERSION;

    /// The schema of the file at this path, which is not changed. Blocks for some milliseconds.
    pub fn of_file(path: &Path) -> Result<Self, StoreError> {
        if fs::metadata(path).is_ok_and(|file| file.len() > 0) {
            Self::of(&connection::existing(path)?)
        } else {
            Ok(Self::New)
        }
    }

    /// Why a database of this schema cannot be opened; `None` if it can.
    pub fn refusal(self, location: &Location) -> Option<StoreError> {
        match self {
            Self::New | Self::Current => None,
            Self::Older(version) => Some(needs_migration(version)),
            Self::Newer(version) => Some(newer_schema_error(version, location)),
        }
    }

    /// The schema of an open database; an error if it is another program's.
    pub(super) fn of(connection: &Connection) -> Result<Self, StoreError> {
        Ok(match version(connection)? {
            0 => Self::New,
            CURRENT_VERSION => Self::Current,
            version if version < CURRENT_VERSION => Self::Older(version),
            version => Self::Newer(version),
        })
    }
}

/// Creates the schema of a new database; refuses any other than the current one.
pub(super) fn create_or_check(connection: &mut Connection, location: &Location) -> Result<(), StoreError> {
    let schema = Schema::of(connection)?;
    if let Some(refusal) = schema.refusal(location) {
        return Err(refusal);
    }
    if schema == Schema::New {
        // Two processes may open a new file at once: the version is read under the lock.
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
        if Schema::of(&transaction)? == Schema::New {
            apply(&transaction, 0)?;
        }
        transaction.commit().map_err(database)?;
        // Tables of earlier schemas have left free pages. If another process uses the file by now, they stay.
        if let Err(error) = connection.execute_batch("VACUUM") {
            tracing::debug!(%error, "store: compacting the new database failed");
        }
    }
    Ok(())
}

/// Applies the migrations after this version.
pub(super) fn apply(connection: &Connection, from: i64) -> Result<(), StoreError> {
    for (version, migration) in (1..).zip(MIGRATIONS) {
        if version > from {
            connection.execute_batch(migration.sql).map_err(database)?;
            if let Some(then) = migration.then {
                then(connection)?;
            }
        }
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID).map_err(database)?;
    connection.pragma_update(None, "user_version", CURRENT_VERSION).map_err(database)
}

/// The version of the schema, 0 if there is none yet; an error if the database is another program's.
pub(super) fn version(connection: &Connection) -> Result<i64, StoreError> {
    let application: i32 = connection.pragma_query_one(None, "application_id").map_err(database)?;
    let version: i64 = connection.pragma_query_one(None, "user_version").map_err(database)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(database)?;
    if tables > 0 && application != APPLICATION_ID {
        return Err(StoreError::Database(
            "the file is another program's SQLite database; choose another path".to_owned(),
        ));
    }
    Ok(version)
}

fn needs_migration(version: i64) -> StoreError {
    StoreError::Schema(format!(
        "the database has schema {version} and this antwort needs schema {CURRENT_VERSION}: stop the gateway and run \
         `antwort store migrate`, which backs it up first (store.migrate: auto does so at the start)"
    ))
}

/// Names the way back: the backup from before the migration, then the earlier version of antwort.
fn newer_schema_error(version: i64, location: &Location) -> StoreError {
    let refusal = format!(
        "the database has schema {version} and this antwort knows schemas up to {CURRENT_VERSION}: a later antwort has \
         migrated it"
    );
    let Location::File(path) = location else { return StoreError::Schema(refusal) };
    let kept = (1..=CURRENT_VERSION).rev().find_map(|version| backup_names::last_of_schema(path, version));
    let copy = match kept {
        Some(file) => format!("the backup that was made before the migration, {},", file.display()),
        None => format!("a backup with schema {CURRENT_VERSION} or earlier (none lies beside it)"),
    };
    StoreError::Schema(format!(
        "{refusal}. Start the later version again; or, to return to this version, stop the gateway, move {file}, \
         {file}-wal and {file}-shm away, copy {copy} to {file}, and start this version. Responses stored since that \
         backup are lost (docs/upgrading.md)",
        file = path.display()
    ))
}

/// The query plan of a statement.
#[cfg(test)]
pub(super) fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let parameters = vec![""; statement.parameter_count()];
    let plan = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get(3)).unwrap();
    plan.map(Result::unwrap).collect()
}
