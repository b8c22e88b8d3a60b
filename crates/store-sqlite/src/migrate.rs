//! Migrates the file of an earlier version to the current schema, after a backup.
//!
//! The backup gets its final name when the migration is committed, so that a process that is killed repeatedly in
//! between leaves one backup and not many. The migrating process holds the server lock.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, TransactionBehavior};
use tokio_util::sync::CancellationToken;

use super::disk::{self, Disk, FileSystem};
use super::error::database;
use super::lock::{ServerLock, beside};
use super::migrations::Migrations;
use super::options::{Location, Synchronous};
use super::schema::Schema;
use super::{backup, backup_names, connection, guard, space};
use antwort_store::StoreError;

/// Steps of SQLite's virtual machine between two checks of `stop`.
const PROGRESS_STEPS: i32 = 10_000;

/// How a file is migrated.
#[derive(Debug, Clone)]
pub struct MigrateOptions {
    /// Whether the file is backed up first; it is not migrated if there is no room for that.
    pub backup: bool,
    /// Measures the free space of the disk.
    pub disk: Arc<dyn Disk>,
    /// Those to the current schema.
    pub migrations: Migrations,
    /// Aborts the migration: it returns an error, and the file is unchanged.
    pub stop: CancellationToken,
}

impl Default for MigrateOptions {
    fn default() -> Self {
        Self {
            backup: true,
            disk: Arc::new(FileSystem),
            migrations: Migrations::of_program(),
            stop: CancellationToken::new(),
        }
    }
}

/// The result of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    /// The version of the schema before.
    pub from: i64,
    /// The backup of the file as it was.
    pub backup: Option<PathBuf>,
}

/// Migrates the locked database; `None` if it is up to date. Blocks for as long as the disk takes.
pub fn migrate(lock: &ServerLock, options: &MigrateOptions) -> Result<Option<Migrated>, StoreError> {
    let path = lock.database();
    match options.migrations.schema_of_file(path)? {
        Schema::New | Schema::Newer(_) => Ok(None),
        Schema::Current => finalize_leftover_backups(path, options.migrations).map(|()| None),
        Schema::Older(_) => match try_migrate(path, options) {
            Err(StoreError::Full(_)) if disk::remove_reserve(&guard::reserve_of(path)) => {
                try_migrate(path, options)
            }
            done => done,
        },
    }
}

fn try_migrate(path: &Path, options: &MigrateOptions) -> Result<Option<Migrated>, StoreError> {
    let mut connection = connection::writer(&Location::File(path.to_owned()), Synchronous::Full, None)?;
    let Schema::Older(from) = options.migrations.schema_of(&connection)? else { return Ok(None) };
    let stop = options.stop.clone();
    connection.progress_handler(PROGRESS_STEPS, Some(move || stop.is_cancelled())).map_err(database)?;
    // Changes when another connection commits.
    let seen = data_version(&connection)?;
    let part = part_of(path, from);
    check_room(&connection, path, from, options)?;
    if options.backup {
        back_up(&connection, path, from, options.migrations)?;
    }
    if let Err(error) = change(&mut connection, from, seen, options.migrations) {
        _ = fs::remove_file(&part);
        return Err(error);
    }
    let backup = if options.backup { Some(finalize_backup(path, from)?) } else { None };
    let to = options.migrations.latest();
    tracing::info!(from, to, file = %path.display(), "store: migrated the schema");
    Ok(Some(Migrated { from, backup }))
}

fn back_up(
    connection: &Connection,
    path: &Path,
    from: i64,
    migrations: Migrations,
) -> Result<(), StoreError> {
    let (part, to) = (part_of(path, from), migrations.latest());
    tracing::info!(from, to, file = %path.display(), "store: backing the file up before its schema is migrated");
    // Left by a process that was killed: this one holds the lock.
    if part.exists() {
        fs::remove_file(&part)
            .map_err(|error| StoreError::Database(format!("{}: {error}", part.display())))?;
    }
    backup::copy(connection, &part)
}

/// Whether there is room for the backup, and for what the migration writes: if it rewrites rows, all of them are in the
/// log once and may make the file as much larger before the pages of the old ones are used again.
fn check_room(
    connection: &Connection,
    path: &Path,
    from: i64,
    options: &MigrateOptions,
) -> Result<(), StoreError> {
    let rewrites_rows = options.migrations.rewrites_rows(from);
    let (copy, written) = (u64::from(options.backup), if rewrites_rows { 2 } else { 0 });
    let needed = space::used_bytes(connection).map_err(database)?.saturating_mul(copy + written);
    backup::check_room(needed, path, &*options.disk).map_err(|error| no_room(&error, options))
}

fn no_room(error: &StoreError, options: &MigrateOptions) -> StoreError {
    let StoreError::Full(why) = error else { return error.clone() };
    let (what, advice) = match options.backup {
        true => (
            "to back it up first",
            "Free some space; or make a backup elsewhere with `antwort store backup FILE` and run `antwort store \
             migrate --no-backup`",
        ),
        false => ("to rewrite its rows", "Free some space"),
    };
    StoreError::Schema(format!(
        "the database must be migrated to schema {}, and there is no room {what}: {why}. Nothing was changed. {advice}",
        options.migrations.latest()
    ))
}

/// One transaction: all of it or nothing.
fn change(
    connection: &mut Connection,
    from: i64,
    seen: i64,
    migrations: Migrations,
) -> Result<(), StoreError> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    if data_version(&transaction)? != seen {
        return Err(StoreError::Schema(
            "another process has written to the database during the migration, and nothing was changed: stop \
             the gateway of the earlier version first"
                .to_owned(),
        ));
    }
    migrations.apply(&transaction, from)?;
    transaction.commit().map_err(database)
}

fn data_version(connection: &Connection) -> Result<i64, StoreError> {
    connection.pragma_query_one(None, "data_version").map_err(database)
}

/// The name of a backup until the migration is committed.
fn part_of(path: &Path, from: i64) -> PathBuf {
    beside(&backup_names::name(path, from, 1), "part")
}

/// Renames the backup to the first free final name.
fn finalize_backup(path: &Path, from: i64) -> Result<PathBuf, StoreError> {
    let part = part_of(path, from);
    let mut names = (1..).map(|number| backup_names::name(path, from, number));
    // There is always a next number.
    let name = names.find(|name| fs::symlink_metadata(name).is_err()).unwrap_or_else(|| part.clone());
    backup::publish(&part, &name)?;
    tracing::info!(backup = %name.display(), "store: kept a backup of the file as it was before the migration");
    Ok(name)
}

/// Renames backups of migrations whose process ended right after the commit.
fn finalize_leftover_backups(path: &Path, migrations: Migrations) -> Result<(), StoreError> {
    for from in 1..migrations.latest() {
        if part_of(path, from).exists() {
            finalize_backup(path, from)?;
        }
    }
    Ok(())
}
