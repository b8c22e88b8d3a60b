//! Copies of a database, asked for and before a migration: whole, private, never over another file, and never many.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use antwort::store::{RunLog, Store, StoreError};
use antwort_store_sqlite::{Disk, DiskSpace, FileSystem, Migrations, SqliteOptions, SqliteStore, backup};

use super::migrations::insert;
use super::{Folder, Location, texts, turn};
use antwort_test_support::next_version;

/// A disk with so many bytes free, that does something when it is asked.
struct Told<F>(u64, F);

impl<F> std::fmt::Debug for Told<F> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} bytes", self.0)
    }
}

impl<F: Fn() + Send + Sync> Disk for Told<F> {
    fn space(&self, _: &Path) -> std::io::Result<DiskSpace> {
        (self.1)();
        Ok(DiskSpace { total: 1 << 40, available: self.0 })
    }
}

fn number(path: &Path, query: &str) -> i64 {
    rusqlite::Connection::open(path).unwrap().query_row(query, [], |row| row.get(0)).unwrap()
}

fn is_private(path: &Path) -> bool {
    fs::metadata(path).unwrap().permissions().mode() & 0o777 == 0o600
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_is_one_state_of_the_database() {
    let folder = Folder::new();
    let store = Arc::new(folder.open(|_| ()));
    let over = Arc::new(AtomicBool::new(false));
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (store, over) = (Arc::clone(&store), Arc::clone(&over));
        writers.spawn(async move {
            let mut last = turn(None, "q", "a");
            store.finish(last.clone()).await.unwrap();
            while !over.load(Ordering::Relaxed) {
                last = turn(Some(&last), "q", "a");
                store.finish(last.clone()).await.unwrap();
                // The file must not grow faster than it is copied.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    }
    let mut before = 0;
    for n in 0..10 {
        let (source, copy) = (folder.path(), folder.folder.path().join(format!("copy-{n}.db")));
        let target = copy.clone();
        let made = tokio::task::spawn_blocking(move || backup(&source, &target, &FileSystem)).await.unwrap();
        assert_eq!(made.unwrap().schema, Migrations::RELEASED.latest());
        let responses = number(&copy, "SELECT count(*) FROM responses");
        assert!(responses >= before, "later copies have what earlier ones had");
        before = responses;
        assert_eq!(number(&copy, "SELECT count(*) FROM item_ids"), 2 * responses, "a response and its items");
        let orphans = "SELECT count(*) FROM responses r WHERE previous_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM responses p
                WHERE p.owner = r.owner AND p.id = r.previous_id)";
        assert_eq!(number(&copy, orphans), 0, "a response and what it continues");
        assert_eq!(
            number(&copy, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"),
            0
        );
        assert!(is_private(&copy));
    }
    over.store(true, Ordering::Relaxed);
    writers.join_all().await;
    assert!(before > 0);
}

#[tokio::test]
async fn a_backup_put_in_the_place_of_the_database_is_the_database() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let first = turn(None, "q", "a");
    store.finish(first.clone()).await.unwrap();
    let copy = folder.folder.path().join("copy.db");
    backup(&folder.path(), &copy, &FileSystem).unwrap();
    store.finish(turn(Some(&first), "later", "later")).await.unwrap();
    store.close().await;
    fs::copy(&copy, folder.path()).unwrap();
    let store = folder.open(|_| ());
    assert_eq!(texts(&store, &first).await.unwrap(), ["q", "a"]);
    let second = turn(Some(&first), "q2", "a2");
    store.finish(second.clone()).await.unwrap();
    assert_eq!(texts(&store, &second).await.unwrap().len(), 4);
    assert_eq!(folder.number("SELECT count(*) FROM responses"), 2);
}

#[tokio::test]
async fn a_backup_overwrites_nothing_and_leaves_nothing_when_it_fails() {
    let folder = Folder::new();
    // What SQLite keeps beside the file is gone then.
    folder.open(|_| ()).close().await;
    let inside = |name: &str| folder.folder.path().join(name);
    fs::write(inside("there"), "something else").unwrap();
    symlink(inside("nowhere"), inside("link")).unwrap();
    let before = folder.names();
    let refuse = |name: &str, disk: &dyn Disk, words: &str| {
        let error = backup(&folder.path(), &inside(name), disk).unwrap_err().to_string();
        assert!(error.contains(words), "{name}: {error}");
    };
    refuse("there", &FileSystem, "exists, and no file is overwritten");
    refuse("link", &FileSystem, "exists, and no file is overwritten");
    refuse("responses.db", &FileSystem, "exists, and no file is overwritten");
    refuse("missing/copy.db", &FileSystem, "missing/copy.db.part: No such file");
    refuse("copy.db", &Told(1 << 20, || ()), "32 MiB must stay free");
    assert_eq!(folder.names(), before);
    assert_eq!(fs::read_to_string(inside("there")).unwrap(), "something else");
    let missing = backup(&inside("no.db"), &inside("copy.db"), &FileSystem).unwrap_err().to_string();
    assert!(missing.contains("there is no database"), "{missing}");
    assert_eq!(folder.names(), before, "no database is made");
    rusqlite::Connection::open(inside("foreign.db")).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
    let foreign = backup(&inside("foreign.db"), &inside("copy.db"), &FileSystem).unwrap_err().to_string();
    assert!(foreign.contains("another program's"), "{foreign}");
}

/// A file of this version with a response, which the next version migrates.
fn old() -> Folder {
    let folder = Folder::new();
    drop(folder.open(|_| ()));
    // The threads of the store close it a moment later, and what SQLite keeps beside the file is gone then.
    while folder.names().len() > 1 {
        #[expect(clippy::disallowed_methods, reason = "no runtime is kept waiting")]
        std::thread::sleep(Duration::from_millis(5));
    }
    insert(&folder, 1);
    folder
}

fn next_schema() -> i64 {
    next_version::sqlite().latest()
}

#[test]
fn a_migration_keeps_the_file_as_it_was_and_says_where() {
    let folder = old();
    let first = folder.folder.path().join("responses.db.schema-1.backup");
    let migrated = folder.migrate(|_| ()).unwrap().unwrap();
    assert_eq!((migrated.from, migrated.backup.as_ref()), (1, Some(&first)));
    let kept =
        |path: &Path| (number(path, "PRAGMA user_version"), number(path, "SELECT count(*) FROM responses"));
    assert_eq!(kept(&first), (1, 1));
    assert!(is_private(&first));
    assert_eq!(folder.number("PRAGMA user_version"), next_schema());
    assert_eq!(folder.migrate(|_| ()).unwrap(), None, "once");

    // Back to the earlier version, and on again: the first copy stays what it is.
    fs::copy(&first, folder.path()).unwrap();
    insert(&folder, 1);
    let second = folder.migrate(|_| ()).unwrap().unwrap().backup.unwrap();
    assert_eq!(second, folder.folder.path().join("responses.db.schema-1.2.backup"));
    assert_eq!((kept(&first), kept(&second)), ((1, 1), (1, 2)));
    assert_eq!(folder.names().len(), 3);
}

#[test]
fn a_migration_without_room_for_a_backup_changes_nothing_and_says_what_to_do() {
    let folder = old();
    let error = folder.migrate(|options| options.disk = Arc::new(Told(32 << 20, || ()))).unwrap_err();
    for words in
        ["no room to back it up", "Nothing was changed", "store backup FILE", "store migrate --no-backup"]
    {
        assert!(error.to_string().contains(words), "{error}");
    }
    let unchanged = (1, vec!["responses.db".to_owned()]);
    assert_eq!((folder.number("PRAGMA user_version"), folder.names()), unchanged);
    // Its rows are rewritten, which takes room without a backup, too.
    let without = |free: u64| {
        folder.migrate(|options| {
            options.backup = false;
            options.disk = Arc::new(Told(free, || ()));
        })
    };
    let error = without(32 << 20).unwrap_err();
    assert!(error.to_string().contains("no room to rewrite its rows"), "{error}");
    assert_eq!((folder.number("PRAGMA user_version"), folder.names()), unchanged);
    let done = without(1 << 40).unwrap().unwrap();
    assert_eq!((done.backup, folder.number("PRAGMA user_version")), (None, next_schema()));
    assert_eq!(folder.names(), ["responses.db"]);
}

#[test]
fn migrations_that_are_killed_again_and_again_leave_one_copy() {
    let folder = old();
    let part = folder.folder.path().join("responses.db.schema-1.backup.part");
    // Killed while the copy was written.
    fs::write(&part, "half a copy").unwrap();
    folder.migrate(|_| ()).unwrap();
    let kept = folder.folder.path().join("responses.db.schema-1.backup");
    assert_eq!(folder.names(), ["responses.db", "responses.db.schema-1.backup"]);
    assert_eq!(number(&kept, "PRAGMA user_version"), 1);
    // Killed right behind the commit.
    fs::rename(&kept, &part).unwrap();
    assert_eq!(folder.migrate(|_| ()).unwrap(), None);
    assert_eq!(folder.names(), ["responses.db", "responses.db.schema-1.backup"]);
}

#[test]
fn a_migration_that_is_told_to_stop_leaves_the_file_as_it_was() {
    let folder = old();
    insert(&folder, 5_000);
    let stopped = folder.migrate(|options| options.stop.cancel());
    assert!(stopped.is_err());
    assert_eq!((folder.number("PRAGMA user_version"), folder.names()), (1, vec!["responses.db".to_owned()]));
}

#[test]
fn what_an_earlier_gateway_writes_while_its_file_is_migrated_is_not_lost() {
    let folder = Arc::new(old());
    let writer = Arc::clone(&folder);
    // Between the look at the file and its copy, as a program would that knows no lock.
    let disk = Told(1 << 40, move || insert(&writer, 1));
    let error = folder.migrate(|options| options.disk = Arc::new(disk)).unwrap_err();
    assert!(error.to_string().contains("another process has written to the database"), "{error}");
    assert_eq!((folder.number("PRAGMA user_version"), folder.names()), (1, vec!["responses.db".to_owned()]));
}

#[test]
fn a_file_of_a_later_version_is_refused_with_the_way_back() {
    let folder = Folder::new();
    drop(folder.open_next());
    let (known, later) = (next_schema(), next_schema() + 1);
    folder.sql().pragma_update(None, "user_version", later).unwrap();
    let refused = || {
        let mut options = SqliteOptions::new(Location::File(folder.path()), "test");
        options.migrations = next_version::sqlite();
        let error = SqliteStore::open(options).err().unwrap();
        assert!(matches!(error, StoreError::Schema(_)));
        error.to_string()
    };
    let error = refused();
    assert!(error.contains(&format!("a backup with schema {known} or earlier")), "{error}");
    let last = format!("schema-{known}.2.backup");
    for name in ["schema-1.backup", &format!("schema-{known}.backup"), &last] {
        fs::write(folder.folder.path().join(format!("responses.db.{name}")), "").unwrap();
    }
    let error = refused();
    assert!(error.contains(&format!("responses.db.{last}, to")), "the latest that is known: {error}");
    assert!(error.contains("responses.db-wal") && error.contains("docs/upgrading.md"), "{error}");
    assert_eq!(folder.migrate(|_| ()).unwrap(), None, "and it is not changed");
    assert_eq!(folder.number("PRAGMA user_version"), later);
}

#[test]
fn a_file_of_an_earlier_version_is_opened_by_nobody_before_it_is_migrated() {
    let folder = old();
    let mut options = folder.options();
    options.migrations = next_version::sqlite();
    let error = SqliteStore::open(options).err().unwrap().to_string();
    assert!(error.contains("antwort store migrate"), "{error}");
    assert_eq!(folder.number("PRAGMA user_version"), 1);
}
