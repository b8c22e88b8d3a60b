//! A database file of a test.

use std::path::PathBuf;
use std::sync::Arc;

use antwort::store::{Store, StoreError};
use antwort_store_sqlite::{
    Location, MigrateOptions, Migrated, ServerLock, SqliteOptions, SqliteStore, migrate,
};
use tempfile::TempDir;

use super::LEASE;
use antwort_test_support::next_version;

/// A folder with one database, opened as often as wanted.
pub(super) struct Folder {
    pub(super) folder: TempDir,
}

impl Folder {
    pub(super) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("responses.db")
    }

    pub(super) fn options(&self) -> SqliteOptions {
        SqliteOptions::new(Location::File(self.path()), "test")
    }

    pub(super) fn open(&self, change: impl FnOnce(&mut SqliteOptions)) -> SqliteStore {
        let mut options = self.options();
        change(&mut options);
        SqliteStore::open(options).unwrap()
    }

    /// The store of the next version.
    pub(super) fn open_next(&self) -> SqliteStore {
        self.open(|options| options.migrations = next_version::sqlite())
    }

    /// The store of the process with this instance name.
    pub(super) fn instance(&self, name: &str) -> Arc<dyn Store> {
        let options = |options: &mut SqliteOptions| {
            options.instance = name.to_owned();
            options.lease = LEASE;
        };
        Arc::new(self.open(options))
    }

    /// Brings the database to the schema of the next version, as a server of that does before it opens it.
    pub(super) fn migrate(
        &self,
        change: impl FnOnce(&mut MigrateOptions),
    ) -> Result<Option<Migrated>, StoreError> {
        let mut options = MigrateOptions { migrations: next_version::sqlite(), ..MigrateOptions::default() };
        change(&mut options);
        migrate(&ServerLock::acquire(&self.path()).unwrap(), &options)
    }

    /// The names of the files in the folder, but for that of the lock.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = self.folder.path().read_dir().unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| !name.ends_with(".lock")).collect();
        names.sort();
        names
    }

    /// A connection beside the store's, to look at rows and to do damage.
    pub(super) fn sql(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).unwrap()
    }

    pub(super) fn number(&self, query: &str) -> i64 {
        self.sql().query_row(query, [], |row| row.get(0)).unwrap()
    }
}
