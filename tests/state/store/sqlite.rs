//! What is SQLite's own: files, restarts, groups, damage, room.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    CallOutcome, OrphanCause, ReadLimit, ResponseRecord, ResponseStore, RunLog, Store, StoreError, TurnRecord,
};
use antwort_store_sqlite::{Location, SqliteOptions, SqliteStore, Synchronous};
use serde_json::{Value, json};

use super::leases::calling;
use super::{Folder, owner, record, running, texts, turn};

#[tokio::test]
async fn what_was_committed_is_there_after_the_process_is_gone() {
    let folder = Folder::new();
    for synchronous in [Synchronous::Normal, Synchronous::Full] {
        let store = folder.open(|options| options.synchronous = synchronous);
        let record = turn(None, "q", "a");
        store.finish(record.clone()).await.unwrap();
        drop(store);
        assert_eq!(texts(&folder.open(|_| ()), &record).await.unwrap(), ["q", "a"]);
    }
}

#[tokio::test]
async fn closing_leaves_one_file_that_its_owner_alone_reads() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let record = record();
    store.finish(record.clone()).await.unwrap();
    store.response(&owner(), record.lease.id.as_str(), u64::MAX).await.unwrap().unwrap();
    for entry in folder.folder.path().read_dir().unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    store.close().await;
    let names: Vec<_> =
        folder.folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["responses.db"]);
}

#[test]
fn a_file_that_cannot_be_used_is_refused_with_a_reason() {
    let folder = Folder::new();
    let nowhere = folder.folder.path().join("missing/responses.db");
    assert_refused(&nowhere, "the folder of");
    assert!(!nowhere.exists());
    assert_refused(folder.folder.path(), "cannot be opened");

    let garbage = folder.folder.path().join("garbage.db");
    std::fs::write(&garbage, "not a database, and long enough to be looked at ".repeat(100)).unwrap();
    assert_refused(&garbage, "not a SQLite database");
    assert!(std::fs::read_to_string(&garbage).unwrap().starts_with("not a database"));

    let foreign = folder.folder.path().join("foreign.db");
    rusqlite::Connection::open(&foreign)
        .unwrap()
        .execute_batch("CREATE TABLE x (y); PRAGMA user_version = 1")
        .unwrap();
    assert_refused(&foreign, "another program's");
}

#[test]
fn a_schema_of_a_later_version_is_refused() {
    let folder = Folder::new();
    drop(folder.open(|_| ()));
    folder.sql().pragma_update(None, "user_version", 1000).unwrap();
    assert_refused(&folder.path(), "has schema 1000");
}

#[tokio::test]
async fn a_restarted_process_takes_over_what_it_had_left() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let left = running();
    store.begin(left.clone(), None).await.unwrap();
    let kept = turn(None, "q", "a");
    store.finish(kept.clone()).await.unwrap();
    drop(store);

    let store = folder.open(|_| ());
    let orphans = store.take_orphaned(10).await.unwrap();
    let [orphan] = &orphans[..] else { panic!("{orphans:?}") };
    assert_eq!((&orphan.lease.id, orphan.cause), (&left.lease.id, OrphanCause::ProcessGone));
    assert!(matches!(store.finish(left.clone()).await, Err(StoreError::Superseded)));
    let ended =
        ResponseRecord { lease: orphan.lease.clone(), status: ResponseStatus::Failed, ..left.clone() };
    store.finish(ended).await.unwrap();
    let lineage =
        store.lineage(&owner(), left.lease.id.as_str(), ReadLimit::UNLIMITED).await.unwrap().unwrap();
    assert_eq!(lineage.status, ResponseStatus::Failed);
    assert_eq!(texts(&store, &kept).await.unwrap(), ["q", "a"]);
    assert!(store.take_orphaned(10).await.unwrap().is_empty());
}

#[tokio::test]
async fn runs_of_a_living_process_are_left_alone() {
    let folder = Folder::new();
    let other = folder.open(|options| options.instance = "other".into());
    let run = running();
    other.begin(run.clone(), None).await.unwrap();
    let store = folder.open(|_| ());
    store.maintain().await.unwrap();
    assert_eq!(body(&store, &run).await["status"], "in_progress");
    let taken = store
        .finish(ResponseRecord { status: ResponseStatus::Completed, body: "{}".into(), ..run.clone() })
        .await;
    assert!(matches!(taken, Err(StoreError::Superseded)), "only its owner ends it");
    other.finish(ResponseRecord { status: ResponseStatus::Completed, ..turn(None, "q", "a") }).await.unwrap();
    other.finish(ResponseRecord { status: ResponseStatus::Completed, ..run.clone() }).await.unwrap();
}

#[tokio::test]
async fn leases_are_renewed_and_those_that_ran_out_end_the_run() {
    let folder = Folder::new();
    let short = Duration::from_millis(1500);
    let open = |name: &str| {
        folder.open(|options| {
            options.instance = name.to_owned();
            options.lease = short;
        })
    };
    let (living, dead, watcher) = (open("living"), open("dead"), open("watcher"));
    let (lives, dies) = (running(), running());
    living.begin(lives.clone(), None).await.unwrap();
    dead.begin(dies.clone(), None).await.unwrap();
    for _ in 0..4 {
        tokio::time::sleep(short / 3).await;
        living.maintain().await.unwrap();
        watcher.maintain().await.unwrap();
    }
    let orphans = watcher.take_orphaned(10).await.unwrap();
    assert_eq!(orphans.iter().map(|orphan| &orphan.lease.id).collect::<Vec<_>>(), [&dies.lease.id]);
    assert_eq!(body(&watcher, &lives).await["status"], "in_progress");
    assert!(matches!(dead.finish(dies).await, Err(StoreError::Superseded)), "its time was over");
    living.finish(ResponseRecord { status: ResponseStatus::Completed, ..lives }).await.unwrap();
}

#[tokio::test]
async fn closing_gives_leases_up() {
    let folder = Folder::new();
    let store = folder.open(|options| options.instance = "leaving".into());
    let run = running();
    store.begin(run.clone(), None).await.unwrap();
    store.close().await;
    let next = folder.open(|_| ());
    assert_eq!(next.take_orphaned(10).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_row_fails_alone_and_leaves_nothing() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    folder
        .sql()
        .execute_batch(
            "CREATE TRIGGER bad BEFORE INSERT ON item_ids WHEN new.item_id = 'bad'
             BEGIN SELECT raise(ABORT, 'no such items here'); END",
        )
        .unwrap();
    let records: Vec<ResponseRecord> = (0..100)
        .map(|number| {
            let mut record = turn(None, "q", "a");
            if number % 10 == 3 {
                record.items[1].id = "bad".into();
            }
            record
        })
        .collect();
    let writes = records.iter().map(|record| store.finish(record.clone()));
    let results = futures_util::future::join_all(writes).await;
    for (number, (record, result)) in records.iter().zip(results).enumerate() {
        let stored = store.response(&owner(), record.lease.id.as_str(), u64::MAX).await.unwrap();
        assert_eq!((result.is_err(), stored.is_none()), (number % 10 == 3, number % 10 == 3), "{number}");
    }
    assert_eq!(folder.number("SELECT count(*) FROM item_ids"), 180);
}

#[tokio::test]
async fn a_begin_that_failed_does_not_swallow_the_end() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let sql = folder.sql();
    sql.execute_batch(
        "CREATE TRIGGER bad BEFORE INSERT ON responses WHEN new.status = 'in_progress'
         BEGIN SELECT raise(ABORT, 'not now'); END",
    )
    .unwrap();
    let run = running();
    let ended = ResponseRecord { status: ResponseStatus::Completed, ..run.clone() };
    let (begun, finished) = tokio::join!(store.begin(run.clone(), None), store.finish(ended));
    assert!(matches!(begun, Err(StoreError::Database(_))));
    finished.unwrap();
    assert!(store.response(&owner(), run.lease.id.as_str(), u64::MAX).await.unwrap().is_some());
}

#[tokio::test]
async fn the_store_recovers_from_a_database_that_failed() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    store.finish(record()).await.unwrap();
    folder.sql().execute_batch("ALTER TABLE responses RENAME TO gone").unwrap();
    let refused = turn(None, "q", "a");
    assert!(matches!(store.finish(refused.clone()).await, Err(StoreError::Database(_))));
    assert!(matches!(
        store.response(&owner(), refused.lease.id.as_str(), u64::MAX).await,
        Err(StoreError::Database(_))
    ));
    folder.sql().execute_batch("ALTER TABLE gone RENAME TO responses").unwrap();
    store.finish(refused.clone()).await.unwrap();
    assert_eq!(texts(&store, &refused).await.unwrap(), ["q", "a"]);
}

#[tokio::test]
async fn a_locked_database_is_waited_for_and_then_named() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let sql = folder.sql();
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (finished, ready) = tokio::join!(store.finish(record()), store.ready());
    let words = [finished, ready].map(|result| result.unwrap_err().to_string());
    assert!(words[0].contains("another process holds its lock"), "{words:?}");
    assert!(words[1].contains("no write was possible"), "{words:?}");
    sql.execute_batch("ROLLBACK").unwrap();
    store.finish(record()).await.unwrap();
    store.ready().await.unwrap();
}

/// The result of a call was lost, and the turn behind it failed the run, when another program held the lock for longer than is
/// waited for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writes_of_a_run_wait_for_a_lock_of_another_program() {
    let folder = Folder::new();
    let (store, run, sql) = (folder.open(|_| ()), running(), folder.sql());
    store.begin(run.clone(), None).await.unwrap();
    store.commit_turn(calling(&run.lease, 0)).await.unwrap();
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (lease, output) = (run.lease.clone(), "done".to_owned());
    store.record_tool_result(CallOutcome { lease, turn: 0, index: 0, output, error: None });
    let mut turn = pin!(store.commit_turn(calling(&run.lease, 1)));
    let mut end = pin!(store.finish(ResponseRecord { lease: run.lease.clone(), ..record() }));
    tokio::select! {
        biased;
        _ = &mut turn => panic!("its turn waits"),
        _ = &mut end => panic!("its end waits"),
        // That of a response without a row fails: its client can send the request again.
        failed = store.finish(record()) => assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}"),
    }
    assert!(store.is_impaired());
    sql.execute_batch("ROLLBACK").unwrap();
    turn.await.unwrap();
    let output = "SELECT output FROM tool_calls WHERE turn = 0";
    let output: String = sql.query_row(output, [], |row| row.get(0)).unwrap();
    assert_eq!(output, "done");
    end.await.unwrap();
    assert!(!store.is_impaired() && store.take_orphaned(8).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_expired_is_deleted_with_its_items() {
    let folder = Folder::new();
    let store = folder.open(|options| options.ttl = Some(Duration::from_millis(50)));
    let writes = (0..450).map(|_| store.finish(turn(None, "q", "a")));
    futures_util::future::join_all(writes).await.into_iter().for_each(|result| result.unwrap());
    store.begin(running(), None).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    store.maintain().await.unwrap();
    assert_eq!(folder.number("SELECT count(*) FROM responses"), 1, "what runs does not expire");
    assert_eq!(folder.number("SELECT count(*) FROM item_ids"), 0);
}

#[tokio::test]
async fn the_oldest_make_room_when_the_database_is_too_large() {
    let folder = Folder::new();
    let store = folder.open(|options| options.max_bytes = Some(1 << 20));
    let run = running();
    store.begin(run.clone(), None).await.unwrap();
    let mut records = Vec::new();
    for number in 0..600 {
        let mut record = turn(None, &number.to_string(), "a");
        record.body = format!("{{\"pad\":\"{}\"}}", "x".repeat(5000)).into();
        store.finish(record.clone()).await.unwrap();
        records.push(record);
    }
    store.maintain().await.unwrap();
    let sql = folder.sql();
    let pragma = |name: &str| sql.pragma_query_one::<i64>(None, name).unwrap();
    let used = (pragma("page_count") - pragma("freelist_count")) * pragma("page_size");
    assert!(used <= 1 << 20, "{used}");
    assert!(used > 1 << 18, "no more is deleted than must be: {used}");
    assert_eq!(texts(&store, &records[0]).await, None);
    assert!(texts(&store, &records[599]).await.is_some());
    assert_eq!(body(&store, &run).await["status"], "in_progress", "what runs stays");
    let pages = pragma("page_count");
    for _ in 0..100 {
        store.finish(ResponseRecord { body: records[0].body.clone(), ..turn(None, "q", "a") }).await.unwrap();
    }
    assert_eq!(pragma("page_count"), pages, "freed pages are used again");
}

#[tokio::test]
async fn a_chain_is_extended_once_in_a_while_and_then_whole() {
    let folder = Folder::new();
    let store = folder.open(|options| options.ttl = Some(Duration::from_secs(24 * 3600)));
    let mut last = turn(None, "q", "a");
    store.finish(last.clone()).await.unwrap();
    for _ in 0..5 {
        last = turn(Some(&last), "q", "a");
        store.finish(last.clone()).await.unwrap();
    }
    let oldest = "SELECT expires_at FROM responses ORDER BY key LIMIT 1";
    let least = "SELECT min(expires_at) FROM responses";
    let age = |hours: f64| {
        let sql = "UPDATE responses SET expires_at = expires_at - ?1, lineage_until = lineage_until - ?1";
        folder.sql().execute(sql, [(hours * 3_600_000.0) as i64]).unwrap();
    };
    for (hours, extended) in [(0.5, false), (0.25, false), (0.5, true), (0.5, false), (23.0, true)] {
        age(hours);
        let before = folder.number(oldest);
        last = turn(Some(&last), "q", "a");
        store.finish(last.clone()).await.unwrap();
        assert_eq!(folder.number(oldest) > before, extended, "{hours}");
        if extended {
            assert!(folder.number(least) > before, "every ancestor is extended");
        }
    }
}

#[tokio::test]
async fn damage_is_reported_and_not_passed_on() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let record = turn(None, "q", "a");
    store.finish(record.clone()).await.unwrap();
    folder.sql().execute_batch("UPDATE responses SET items = substr(items, 1, 10)").unwrap();
    assert!(matches!(
        store.lineage(&owner(), record.lease.id.as_str(), ReadLimit::UNLIMITED).await,
        Err(StoreError::Corrupt(_))
    ));
    let found = store.items(&owner(), &[record.items[0].id.clone()], ReadLimit::UNLIMITED).await;
    assert!(matches!(found, Err(StoreError::Corrupt(_))));
}

#[tokio::test]
async fn two_processes_share_a_file() {
    let folder = Folder::new();
    let (one, two) = (folder.open(|_| ()), folder.open(|options| options.instance = "two".into()));
    let first = turn(None, "1", "2");
    one.finish(first.clone()).await.unwrap();
    let second = turn(Some(&first), "3", "4");
    two.finish(second.clone()).await.unwrap();
    assert_eq!(texts(&one, &second).await.unwrap(), ["1", "2", "3", "4"]);
}

fn assert_refused(path: &Path, reason: &str) {
    let opened = SqliteStore::open(SqliteOptions::new(Location::File(path.to_owned()), "test"));
    let error = opened.err().unwrap().to_string();
    assert!(error.contains(reason), "{error}");
}

async fn body(store: &dyn Store, record: &ResponseRecord) -> Value {
    let body = store.response(&record.owner, record.lease.id.as_str(), u64::MAX).await.unwrap();
    body.map_or(json!(null), |body| serde_json::from_str(&body).unwrap())
}

/// A deleted row's key may be the next response's: what came of a call must not land in its journal.
#[tokio::test]
async fn an_outcome_does_not_reach_the_response_that_took_over_a_deleted_rows_key() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let (deleted, other) = (running(), running());
    for run in [&deleted, &other] {
        store.commit_turn(TurnRecord { begin: Some(run.clone()), ..calling(&run.lease, 0) }).await.unwrap();
        if run.lease.id == deleted.lease.id {
            assert!(store.delete(&owner(), run.lease.id.as_str()).await.unwrap());
        }
    }
    store.record_tool_result(CallOutcome {
        lease: deleted.lease.clone(),
        turn: 0,
        index: 0,
        output: "not yours".to_owned(),
        error: None,
    });
    store.close().await;
    assert_eq!(folder.number("SELECT count(*) FROM tool_calls"), 1);
    assert_eq!(folder.number("SELECT count(*) FROM tool_calls WHERE output IS NOT NULL"), 0);
}

/// The row that says so to a run is removed by its end.
#[tokio::test]
async fn a_response_that_was_deleted_while_it_ran_leaves_no_row() {
    let folder = Folder::new();
    let store = folder.open(|options| options.ttl = Some(Duration::from_secs(60)));
    let (ends, dies) = (running(), running());
    for run in [&ends, &dies] {
        store.begin(run.clone(), None).await.unwrap();
        assert!(store.delete(&owner(), run.lease.id.as_str()).await.unwrap());
    }
    store.maintain().await.unwrap();
    assert_eq!(folder.number("SELECT count(*) FROM responses WHERE body = ''"), 2);
    store.finish(ResponseRecord { status: ResponseStatus::Completed, ..ends }).await.unwrap();
    assert_eq!(folder.number("SELECT count(*) FROM responses"), 1);
    drop(store);
    let store = folder.open(|_| ());
    assert!(store.take_orphaned(10).await.unwrap().is_empty());
    assert_eq!(body(&store, &dies).await, json!(null));
    assert_eq!(folder.number("SELECT count(*) FROM responses"), 0, "nor one of a process that is gone");
}
