//! Copies between databases: everything arrives as it was, copies that were cut off go on, and what is not the same is
//! refused.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use antwort::store::{ResponseStore, RunLog, Store};
use antwort_store_copy::{CopiedTable, CopyError, CopyPlace, CopyProgress, copy};
use antwort_store_sqlite::ServerLock;
use futures_util::future::join_all;
use tokio::sync::Notify;

use super::copied_content::{Content, fill};
use super::{Folder, owner, record, running, turn};
use antwort_test_support::postgres::Database;

fn file(folder: &Folder) -> CopyPlace {
    CopyPlace::Sqlite(folder.path())
}

fn server(database: &Database) -> CopyPlace {
    CopyPlace::Postgres(database.url())
}

async fn copied(from: &CopyPlace, to: &CopyPlace) -> Vec<CopiedTable> {
    copy(from, to, &mut |_| ()).await.unwrap()
}

async fn refused(from: &CopyPlace, to: &CopyPlace) -> CopyError {
    copy(from, to, &mut |_| ()).await.unwrap_err()
}

/// What was read of two stores; of those that failed to be read nothing is known.
fn assert_same(found: &[String], expected: &[String]) {
    for (found, expected) in found.iter().zip(expected) {
        assert!(!expected.starts_with("Err("), "{expected}");
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

/// The runs that nobody makes, and what is known of them.
async fn orphans(store: &dyn Store) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let taken = store.take_orphaned(100).await.unwrap();
        if taken.is_empty() {
            found.sort();
            return found;
        }
        for mut run in taken {
            // Time goes on.
            let minutes = |left: Duration| Duration::from_mins(left.as_secs().div_ceil(60));
            run.pending.iter_mut().for_each(|call| call.left = call.left.map(minutes));
            found.push(format!("{run:?}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_stored_arrives_in_either_backend_as_it_was() {
    for seed in 1..=3 {
        let (first, database, second) = (Folder::new(), Database::empty().await, Folder::new());
        let store = first.open(|_| ());
        let content = fill(&store, seed).await;
        store.close().await;
        let there = copied(&file(&first), &server(&database)).await;
        let back = copied(&server(&database), &file(&second)).await;
        assert_eq!(there, back);
        let empty: Vec<_> = there.iter().filter(|table| table.digest.rows == 0).collect();
        assert!(empty.is_empty(), "seed {seed}: nothing was tested of {empty:?}");
        let postgres = database.open(|_| ()).await;
        let (sqlite, again) = (first.open(|_| ()), second.open(|_| ()));
        let seen = content.read(&sqlite).await;
        assert_same(&content.read(&postgres).await, &seen);
        assert_same(&content.read(&again).await, &seen);
        let left = orphans(&sqlite).await;
        assert!(!left.is_empty());
        assert_same(&orphans(&postgres).await, &left);
        assert_same(&orphans(&again).await, &left);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_within_one_backend_is_a_copy_too() {
    let (first, second) = (Folder::new(), Folder::new());
    let store = first.open(|_| ());
    let content = fill(&store, 4).await;
    store.close().await;
    let there = copied(&file(&first), &file(&second)).await;
    let (one, two) = (Database::empty().await, Database::new().await);
    assert_eq!(copied(&file(&second), &server(&one)).await, there);
    assert_eq!(copied(&server(&one), &server(&two)).await, there);
    let seen = content.read(&second.open(|_| ())).await;
    assert_same(&content.read(&two.open(|_| ()).await).await, &seen);
}

/// A file with so many responses.
async fn with_responses(count: usize, text: &str) -> (Folder, Content) {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let mut content = Content::default();
    for _ in 0..count.div_ceil(100) {
        let records: Vec<_> = (0..100).map(|_| turn(None, text, "a")).collect();
        for done in join_all(records.iter().map(|record| store.finish(record.clone()))).await {
            done.unwrap();
        }
        content.responses.extend(records);
    }
    store.close().await;
    (folder, content)
}

/// Runs a copy until so many rows were written, and drops it then.
async fn cut_off(from: &CopyPlace, to: &CopyPlace, at: u64) {
    let reached = Notify::new();
    let mut progress = |progress| {
        if let CopyProgress::Written { table: "responses", rows, .. } = progress
            && rows >= at
        {
            reached.notify_one();
        }
    };
    tokio::select! {
        done = copy(from, to, &mut progress) => panic!("it was not cut off: {done:?}"),
        () = reached.notified() => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_was_cut_off_goes_on_when_it_is_run_again() {
    let (first, content) = with_responses(1000, "q").await;
    let (database, second) = (Database::empty().await, Folder::new());
    for (from, to) in [(file(&first), server(&database)), (server(&database), file(&second))] {
        cut_off(&from, &to, 300).await;
        let mut new = None;
        copy(&from, &to, &mut |progress| {
            if let CopyProgress::Written { table: "responses", rows: 1000, new: rows, is_all: true } =
                progress
            {
                new = Some(rows);
            }
        })
        .await
        .unwrap();
        assert!(new.is_some_and(|new| new > 0 && new <= 700), "{new:?}");
        let mut later = 0;
        let again = copy(&from, &to, &mut |progress| {
            if let CopyProgress::Written { new, is_all: true, .. } = progress {
                later += new;
            }
        })
        .await
        .unwrap();
        assert_eq!((again[0].digest.rows, later), (1000, 0), "nothing was left to do");
    }
    let found = content.read(&second.open(|_| ())).await;
    assert_same(&found, &content.read(&first.open(|_| ())).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_with_other_content_is_refused_by_name() {
    let (folder, content) = with_responses(100, "q").await;
    let (database, second) = (Database::new().await, Folder::new());
    copied(&file(&folder), &server(&database)).await;
    copied(&file(&folder), &file(&second)).await;
    let id = content.responses[7].lease.id.as_str();
    let key = uuid::Uuid::try_parse(&id["resp_".len()..]).unwrap();
    let changed = "UPDATE responses SET model = 'other' WHERE key = $1";
    assert_eq!(database.sql().await.execute(changed, &[&key]).await.unwrap(), 1);
    assert_eq!(second.sql().execute("UPDATE responses SET model = 'other' WHERE id = ?1", [id]).unwrap(), 1);
    for to in [server(&database), file(&second)] {
        let error = refused(&file(&folder), &to).await.to_string();
        assert!(error.contains("other content in responses") && error.contains(id), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_only_the_target_has_are_found_out() {
    let (folder, _) = with_responses(100, "q").await;
    let database = Database::new().await;
    let store = database.open(|_| ()).await;
    store.finish(record()).await.unwrap();
    store.close().await;
    let error = refused(&file(&folder), &server(&database)).await;
    let CopyError::Unequal { table: "responses", from, to } = error else { panic!("{error}") };
    assert_eq!((from.rows, to.rows), (100, 101));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_in_use_is_neither_copied_nor_copied_to() {
    let ((folder, _), (third, _)) = (with_responses(100, "q").await, with_responses(100, "q").await);
    let (database, other) = (Database::new().await, Folder::new());
    let lock = ServerLock::acquire(&folder.path()).unwrap();
    for (from, to) in [(file(&folder), file(&other)), (file(&third), file(&folder))] {
        let error = refused(&from, &to).await.to_string();
        assert!(error.contains("in use"), "{error}");
    }
    drop(lock);
    let store = database.open(|_| ()).await;
    store.begin(running(), None).await.unwrap();
    for (from, to) in [(server(&database), file(&other)), (file(&folder), server(&database))] {
        let error = refused(&from, &to).await.to_string();
        assert!(error.contains("in use by a gateway") && error.contains("stop all gateways"), "{error}");
    }
    assert!(!other.path().exists(), "nothing was begun");
    store.close().await;
    copied(&server(&database), &file(&other)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_copy_would_lose_is_refused() {
    let (folder, _) = with_responses(100, "q").await;
    let (database, other) = (Database::new().await, Folder::new());
    for change in ["CREATE TABLE novel (thing bigint)", "ALTER TABLE turns ADD COLUMN thing bigint"] {
        database.sql().await.batch_execute(change).await.unwrap();
        let error = refused(&server(&database), &file(&other)).await.to_string();
        assert!(error.contains("does not know how to copy the column thing"), "{error}");
        database.sql().await.batch_execute("DROP TABLE IF EXISTS novel").await.unwrap();
    }
    folder.sql().execute_batch("CREATE TABLE novel (thing INTEGER)").unwrap();
    let error = refused(&file(&folder), &file(&other)).await.to_string();
    assert!(error.contains("the column thing of the table novel"), "{error}");
}

fn antwort(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_antwort"));
    command.current_dir(folder).env_clear().args(["store", "copy"]);
    command
}

fn run(folder: &Path, from: &str, to: &str) -> Output {
    antwort(folder).args([from, to]).output().unwrap()
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_prints_what_is_the_same_and_fails_clearly() {
    let (folder, content) = with_responses(100, "q").await;
    let (database, other) = (Database::empty().await, Folder::new());
    let here = folder.path();
    let (place, from) = (here.parent().unwrap(), format!("sqlite:{}", here.display()));
    let done = run(place, &from, &database.url());
    let (printed, progress) = (text(&done.stdout), text(&done.stderr));
    assert_eq!(done.status.code(), Some(0), "{progress}");
    let tables: Vec<_> = printed.lines().filter(|line| line.contains(" rows  ")).collect();
    let words: Vec<_> = tables[0].split_whitespace().collect();
    assert_eq!((words[0], words[1], words[3].len()), ("responses", "100", 64), "{printed}");
    assert!(printed.contains("all rows are the same in both"), "{printed}");
    assert!(printed.contains(&format!("the key in {}.seal-key", here.display())), "{printed}");
    assert!(progress.contains("responses: 100 rows, 100 of them new"), "{progress}");
    let to = format!("sqlite:{}", other.path().display());
    assert_eq!(run(place, &database.url(), &to).status.code(), Some(0));
    assert_same(&content.read(&other.open(|_| ())).await, &content.read(&folder.open(|_| ())).await);
    for (from, to, code, says) in [
        (&*from, &*from, 1, "both are the same database"),
        ("sqlite:none.db", &*to, 1, "there is no such database"),
        (&*from, "postgres://u:secret@127.0.0.1:1/db", 1, "the PostgreSQL database to copy to"),
        ("memory:", &*to, 2, "expected sqlite:PATH or postgres:"),
    ] {
        let failed = run(place, from, to);
        let error = text(&failed.stderr);
        assert!(failed.status.code() == Some(code) && error.contains(says), "{from} {to}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
    assert!(!place.join("none.db").exists());
}

/// Bytes of the content of the copy in the next test.
const LARGE: usize = 150 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_takes_less_memory_than_what_is_copied() {
    let (folder, _) = with_responses(1000, &"x".repeat(LARGE / 1000)).await;
    let (database, other) = (Database::empty().await, Folder::new());
    let url = |folder: &Folder| format!("sqlite:{}", folder.path().display());
    for (from, to) in [(url(&folder), database.url()), (database.url(), url(&other))] {
        let mut child = antwort(folder.path().parent().unwrap())
            .args([from, to])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut peak = 0;
        let status = loop {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            if let Some(kilobytes) = line.and_then(|line| line.trim().strip_suffix(" kB")) {
                peak = peak.max(kilobytes.parse::<usize>().unwrap() * 1024);
            }
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        };
        assert!(status.success());
        println!("peak: {} MiB", peak >> 20);
        assert!(peak > 0 && peak < LARGE * 2 / 3, "{peak}");
    }
    assert_eq!(other.number("SELECT count(*) FROM responses"), 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_are_matched_by_name_and_not_by_number() {
    let (folder, content) = with_responses(100, "q").await;
    let database = Database::new().await;
    let sql = database.sql().await;
    sql.batch_execute("INSERT INTO owners (tenant, principal) VALUES ('x', 'y'), ('acme', 'ann')")
        .await
        .unwrap();
    copied(&file(&folder), &server(&database)).await;
    let store = database.open(|_| ()).await;
    let id = content.responses[0].lease.id.as_str();
    assert!(store.response(&owner(), id, u64::MAX).await.unwrap().is_some());
}
