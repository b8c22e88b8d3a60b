//! Opens connections: creation, permissions, and the settings for durability, memory and speed.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::database;
use super::options::{Location, Synchronous};
use antwort_store::StoreError;

/// Bytes of a page. Two or three typical responses fit into one, so that few overflow or leave a page half empty.
/// Applies to new files only.
pub(super) const PAGE_SIZE: u32 = 8192;

/// The size to which the write-ahead log is truncated when it is reset. It is usually half as long; a backup or
/// another long read makes it grow, and it must not stay so.
const WAL_SIZE_LIMIT: u32 = 32 << 20;

/// How long a statement waits for another process's lock.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The one writing connection; creates the database.
pub(super) fn writer(
    location: &Location,
    synchronous: Synchronous,
    max_pages: Option<u32>,
) -> Result<Connection, StoreError> {
    let connection = match location {
        Location::Memory => Connection::open_in_memory().map_err(database)?,
        Location::File(path) => {
            create(path)?;
            open(path)?
        }
    };
    settings(&connection)?;
    connection.pragma_update(None, "page_size", PAGE_SIZE).map_err(database)?;
    if let Some(most) = max_pages {
        connection.pragma_update_and_check(None, "max_page_count", most, |_| Ok(())).map_err(database)?;
    }
    if let Location::File(path) = location {
        if connection.is_readonly("main").map_err(database)? {
            return Err(StoreError::Database(format!("{} is read-only", path.display())));
        }
        write_ahead(&connection, synchronous)?;
    }
    Ok(connection)
}

/// A read-only connection.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let connection = existing(path)?;
    connection.pragma_update(None, "query_only", true).map_err(database)?;
    Ok(connection)
}

/// A connection that runs the checkpoints of an existing file.
pub(super) fn checkpointer(path: &Path, synchronous: Synchronous) -> Result<Connection, StoreError> {
    let connection = existing(path)?;
    // As the writer's: a page is in the file before the log forgets it.
    connection.pragma_update(None, "synchronous", synchronous.pragma()).map_err(database)?;
    Ok(connection)
}

/// A connection to an existing file, whose journal mode and schema are not changed.
pub(super) fn existing(path: &Path) -> Result<Connection, StoreError> {
    let connection = open(path)?;
    settings(&connection)?;
    Ok(connection)
}

fn open(path: &Path) -> Result<Connection, StoreError> {
    // No URI: the path is taken literally. No mutex: a connection is used by one thread at a time.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(database)
}

fn settings(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(BUSY_TIMEOUT).map_err(database)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Statements are compiled once, and not again for each new value that is bound to an indexed column in a join.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(database)?;
    connection
        .execute_batch(
            // At most 1 MiB of page cache each: the kernel caches the rest. Sorts stay in memory, since a container's
            // root may be read-only. No table declares foreign keys.
            "PRAGMA cache_size = -1024; PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF;",
        )
        .map_err(database)
}

fn write_ahead(connection: &Connection, synchronous: Synchronous) -> Result<(), StoreError> {
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
        .map_err(database)?;
    if mode != "wal" {
        return Err(StoreError::Database(format!(
            "its file system allows no write-ahead log (journal mode stays {mode}); use a local disk"
        )));
    }
    connection.pragma_update(None, "synchronous", synchronous.pragma()).map_err(database)?;
    connection
        .pragma_update_and_check(None, "journal_size_limit", WAL_SIZE_LIMIT, |_| Ok(()))
        .map_err(database)?;
    // Deleted data is overwritten with zeros. `FAST` would leave whole pages as they were, which hold all but the
    // shortest texts.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(())).map_err(database)
}

/// Creates the file readable by its owner only; SQLite gives its log the same permissions.
fn create(path: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(StoreError::Database(format!(
            "the folder of {} does not exist; create it first",
            path.display()
        ))),
        Err(error) => Err(StoreError::Database(format!("{} cannot be created: {error}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    /// The check of a lease was once compiled anew for each turn and each result: a fifth of the cost of a tool loop.
    #[test]
    fn a_statement_is_compiled_once_whatever_is_bound_to_it() {
        let connection = writer(&Location::Memory, Synchronous::Normal, None).unwrap();
        connection
            .execute_batch("CREATE TABLE a (x INTEGER PRIMARY KEY); CREATE TABLE b (y INTEGER PRIMARY KEY)")
            .unwrap();
        let sql = "SELECT count(*) FROM a JOIN b ON x = y WHERE x = ?1";
        for value in 0..3 {
            assert_eq!(connection.prepare_cached(sql).unwrap().query_row([value], |row| row.get(0)), Ok(0));
        }
        let statement = connection.prepare_cached(sql).unwrap();
        assert_eq!(statement.get_status(StatementStatus::Run), 3);
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }
}
