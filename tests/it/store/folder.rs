//! A database file of a test.

use std::path::PathBuf;
use std::sync::Arc;

use antwort::internal::sqlite::{
    Location, MigrateOptions, Migrated, ServerLock, SqliteOptions, SqliteStore, migrate,
};
use antwort::store::{Store, StoreError};
use tempfile::TempDir;

use super::{LEASE, migrations};

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

    /// The store of the process with this instance name.
    pub(super) fn instance(&self, name: &str) -> Arc<dyn Store> {
        let options = |options: &mut SqliteOptions| {
            options.instance = name.to_owned();
            options.lease = LEASE;
        };
        Arc::new(self.open(options))
    }

    /// Makes the database as the version of antwort did that knew migrations up to this one.
    pub(super) fn create_with_schema(&self, version: usize) {
        let sql = self.sql();
        for number in 1..=version {
            sql.execute_batch(&migrations::read(number).unwrap()).unwrap();
        }
        sql.execute_batch(&format!("PRAGMA application_id = 0x616e7477; PRAGMA user_version = {version}"))
            .unwrap();
    }

    /// Brings the database to the current schema, as a server does before it opens it.
    pub(super) fn migrate(
        &self,
        change: impl FnOnce(&mut MigrateOptions),
    ) -> Result<Option<Migrated>, StoreError> {
        let mut options = MigrateOptions::default();
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
