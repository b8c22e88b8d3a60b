//! The schema: the version of a file, and the migrations to the current one. Refuses other programs' files. Whether a
//! file of an earlier version is migrated is decided in `migrate`.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::error::database;
use super::migrations::Migrations;
use super::options::Location;
use super::{backup_names, connection};
use antwort_store::StoreError;

impl Migrations {
    /// The schema of the file at this path, which is not changed. Blocks for some milliseconds.
    pub fn schema_of_file(self, path: &Path) -> Result<Schema, StoreError> {
        if fs::metadata(path).is_ok_and(|file| file.len() > 0) {
            self.schema_of(&connection::existing(path)?)
        } else {
            Ok(Schema::New)
        }
    }

    /// The schema of an open database; an error if it is another program's.
    pub(super) fn schema_of(self, connection: &Connection) -> Result<Schema, StoreError> {
        Ok(match version(connection)? {
            0 => Schema::New,
            version if version == self.latest() => Schema::Current,
            version if version < self.latest() => Schema::Older(version),
            version => Schema::Newer(version),
        })
    }

    /// Why a database of this schema cannot be opened; `None` if it can.
    pub fn refusal(self, schema: Schema, location: &Location) -> Option<StoreError> {
        match schema {
            Schema::New | Schema::Current => None,
            Schema::Older(version) => Some(self.needs_migration(version)),
            Schema::Newer(version) => Some(self.newer_schema_error(version, location)),
        }
    }

    /// Creates the schema of a new database; refuses any other than the current one.
    pub(super) fn create_or_check(
        self,
        connection: &mut Connection,
        location: &Location,
    ) -> Result<(), StoreError> {
        let schema = self.schema_of(connection)?;
        if let Some(refusal) = self.refusal(schema, location) {
            return Err(refusal);
        }
        if schema == Schema::New {
            // Two processes may open a new file at once: the version is read under the lock.
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
            if self.schema_of(&transaction)? == Schema::New {
                self.apply(&transaction, 0)?;
            }
            transaction.commit().map_err(database)?;
        }
        Ok(())
    }

    /// Applies the migrations after this version.
    pub(super) fn apply(self, connection: &Connection, from: i64) -> Result<(), StoreError> {
        for migration in self.after(from) {
            connection.execute_batch(migration.sql).map_err(database)?;
        }
        connection.pragma_update(None, "application_id", APPLICATION_ID).map_err(database)?;
        connection.pragma_update(None, "user_version", self.latest()).map_err(database)
    }

    fn needs_migration(self, version: i64) -> StoreError {
        StoreError::Schema(format!(
            "the database has schema {version} and this antwort needs schema {}: stop the gateway and run `antwort store \
             migrate`, which backs it up first (store.migrate: auto does so at the start)",
            self.latest()
        ))
    }

    /// Names the way back: the backup from before the migration, then the earlier version of antwort.
    fn newer_schema_error(self, version: i64, location: &Location) -> StoreError {
        let latest = self.latest();
        let refusal = format!(
            "the database has schema {version} and this antwort knows schemas up to {latest}: a later antwort has \
             migrated it"
        );
        let Location::File(path) = location else { return StoreError::Schema(refusal) };
        let kept = (1..=latest).rev().find_map(|version| backup_names::last_of_schema(path, version));
        let copy = match kept {
            Some(file) => format!("the backup that was made before the migration, {},", file.display()),
            None => format!("a backup with schema {latest} or earlier (none lies beside it)"),
        };
        StoreError::Schema(format!(
            "{refusal}. Start the later version again; or, to return to this version, stop the gateway, move {file}, \
             {file}-wal and {file}-shm away, copy {copy} to {file}, and start this version. Responses stored since that \
             backup are lost (docs/upgrading.md)",
            file = path.display()
        ))
    }
}

/// The application id (`ant1`): another program's database is never written to, nor one of a build before the first version,
/// whose schemas had other numbers.
const APPLICATION_ID: i32 = 0x616e_7431;

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

/// The version of the schema, 0 if there is none yet; an error if the database is another program's.
pub(super) fn version(connection: &Connection) -> Result<i64, StoreError> {
    let application: i32 = connection.pragma_query_one(None, "application_id").map_err(database)?;
    let version: i64 = connection.pragma_query_one(None, "user_version").map_err(database)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(database)?;
    if tables > 0 && application != APPLICATION_ID {
        return Err(StoreError::Database(
            "the file is another program's SQLite database, or one of a build before antwort 0.1.0; choose another path"
                .to_owned(),
        ));
    }
    Ok(version)
}

/// Creates the schema in an empty database.
#[cfg(test)]
pub(super) fn create(connection: &Connection) {
    Migrations::RELEASED.apply(connection, 0).unwrap();
}

/// The query plan of a statement.
#[cfg(test)]
pub(super) fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let parameters = vec![""; statement.parameter_count()];
    let plan = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get(3)).unwrap();
    plan.map(Result::unwrap).collect()
}
