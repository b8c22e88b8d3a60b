//! A store without room: what is refused, what still works, and how it comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    EventLog, IdempotencyKeys, LoggedEvents, OrphanCause, ResponseRecord, ResponseStore, RunLog, Store,
    StoreError,
};
use antwort_store_sqlite::{Disk, DiskSpace, SqliteOptions, SqliteStore};
use serde_json::json;

use super::logged_runs::keyed;
use super::{Folder, owner, record, running, turn};
use antwort_test_support::eventually;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::Upstream;

const MIB: u64 = 1 << 20;

/// A disk that has as much room as a test says.
#[derive(Debug)]
struct Told {
    total: u64,
    available: AtomicU64,
}

impl Told {
    /// So large that the least room that is wanted is a megabyte, and as much for the reserve.
    fn small() -> Arc<Self> {
        Arc::new(Self { total: 8 * MIB, available: AtomicU64::new(8 * MIB) })
    }

    fn set(&self, available: u64) {
        self.available.store(available, Ordering::Relaxed);
    }
}

impl Disk for Told {
    fn space(&self, _: &std::path::Path) -> std::io::Result<DiskSpace> {
        Ok(DiskSpace { total: self.total, available: self.available.load(Ordering::Relaxed) })
    }
}

/// A store whose file may have three megabytes.
fn open(folder: &Folder, disk: &Arc<Told>, change: impl FnOnce(&mut SqliteOptions)) -> SqliteStore {
    folder.open(|options| {
        options.disk = Arc::clone(disk) as Arc<dyn Disk>;
        options.max_pages = Some(384);
        change(options);
    })
}

/// A response of 40 KiB.
fn large() -> ResponseRecord {
    ResponseRecord { body: format!("\"{}\"", "x".repeat(40_000)).into(), ..turn(None, "q", "a") }
}

/// Writes until nothing more can be written; what was.
async fn fill(store: &dyn Store) -> Vec<ResponseRecord> {
    let mut written = Vec::new();
    for _ in 0..200 {
        let record = large();
        match store.finish(record.clone()).await {
            Ok(()) => written.push(record),
            Err(error) => {
                assert!(matches!(error, StoreError::Full(_)), "{error}");
                return written;
            }
        }
    }
    panic!("it never became full");
}

fn is_full<T: std::fmt::Debug>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Full(_)))
}

#[tokio::test]
async fn a_full_database_takes_deletions_and_is_ready_again_when_they_made_room() {
    let folder = Folder::new();
    let store = open(&folder, &Told::small(), |_| ());
    assert!(!store.is_impaired());
    store.ready().await.unwrap();
    let written = fill(&store).await;
    assert!(written.len() > 30, "{}", written.len());
    assert!(store.is_impaired());
    assert!(is_full(store.ready().await));
    assert!(is_full(store.check_writable().await));
    assert!(is_full(store.finish(record()).await), "even a small one: the room is for deletions");
    assert!(is_full(store.begin(running(), None).await));
    for record in &written {
        assert!(
            store.response(&owner(), record.lease.id.as_str(), u64::MAX).await.unwrap().is_some(),
            "it can be read"
        );
    }
    let size = folder.path().metadata().unwrap().len();
    for record in &written {
        assert!(store.delete(&owner(), record.lease.id.as_str()).await.unwrap());
    }
    assert!(!store.delete(&owner(), written[0].lease.id.as_str()).await.unwrap());
    store.ready().await.unwrap();
    assert!(!store.is_impaired());
    store.check_writable().await.unwrap();
    for _ in 2..written.len() {
        store.finish(large()).await.unwrap();
    }
    let grown = folder.path().metadata().unwrap().len();
    assert!(grown <= size.max(384 * 8192), "the room within the file is used: {size} bytes, then {grown}");
}

#[tokio::test]
async fn a_deletion_that_waits_beside_a_write_without_room_is_carried_out() {
    let folder = Folder::new();
    let store = open(&folder, &Told::small(), |_| ());
    let owner = owner();
    for _ in 0..60 {
        let record = large();
        store.finish(record.clone()).await.unwrap();
        let huge = ResponseRecord { body: "x".repeat(4 << 20).into(), ..turn(None, "q", "a") };
        // In one group, as far as they come together.
        let (refused, deleted) =
            tokio::join!(store.finish(huge), store.delete(&owner, record.lease.id.as_str()));
        assert!(is_full(refused), "it never fits");
        assert!(deleted.unwrap());
        assert_eq!(store.response(&owner, record.lease.id.as_str(), u64::MAX).await.unwrap(), None);
        store.ready().await.unwrap();
    }
}

#[tokio::test]
async fn what_expires_makes_room_in_a_full_database() {
    let folder = Folder::new();
    let store = open(&folder, &Told::small(), |options| options.ttl = Some(Duration::from_secs(4)));
    let written = fill(&store).await;
    assert!(is_full(store.maintain().await), "nothing has expired yet");
    tokio::time::sleep(Duration::from_millis(4100)).await;
    store.maintain().await.unwrap();
    assert!(!store.is_impaired());
    assert_eq!(folder.number("SELECT count(*) FROM responses"), 0, "of {}", written.len());
    store.finish(large()).await.unwrap();
}

#[tokio::test]
async fn a_run_that_finds_no_room_for_its_end_can_still_be_deleted() {
    let folder = Folder::new();
    let store = open(&folder, &Told::small(), |_| ());
    let run = running();
    store.begin(run.clone(), None).await.unwrap();
    fill(&store).await;
    assert!(is_full(store.finish(ResponseRecord { status: ResponseStatus::Completed, ..run.clone() }).await));
    assert!(store.delete(&owner(), run.lease.id.as_str()).await.unwrap());
    assert_eq!(store.response(&owner(), run.lease.id.as_str(), u64::MAX).await.unwrap(), None);
}

#[tokio::test]
async fn a_run_that_found_no_room_for_its_end_does_not_stay_in_progress() {
    let folder = Folder::new();
    let store = open(&folder, &Told::small(), |_| ());
    let run = running();
    store.begin(run.clone(), None).await.unwrap();
    let written = fill(&store).await;
    assert!(is_full(store.finish(ResponseRecord { status: ResponseStatus::Completed, ..run.clone() }).await));
    for record in written {
        store.delete(&owner(), record.lease.id.as_str()).await.unwrap();
    }
    // One round finds that there is room, the next has it.
    store.maintain().await.unwrap();
    store.maintain().await.unwrap();
    let orphans = store.take_orphaned(10).await.unwrap();
    let [orphan] = &orphans[..] else { panic!("{orphans:?}") };
    // The gateway was not restarted, and does not say so.
    assert_eq!((&orphan.lease.id, orphan.cause), (&run.lease.id, OrphanCause::EndNotStored));
    let ended = ResponseRecord { lease: orphan.lease.clone(), status: ResponseStatus::Failed, ..run };
    store.finish(ended).await.unwrap();
}

#[tokio::test]
async fn a_refused_run_is_withdrawn_from_a_full_database_and_its_log_takes_nothing_more() {
    let folder = Folder::new();
    let store = open(&folder, &Told::small(), |_| ());
    let run = keyed("k");
    store.begin_logged(run.clone()).await.unwrap();
    fill(&store).await;
    let events = LoggedEvents { first: 2, last: 2, bytes: vec![0; 100] };
    assert!(is_full(store.log_events(&run.record.lease, events).await));
    assert!(is_full(store.begin_logged(keyed("other")).await));
    store.withdraw(run.record.lease.clone()).await.unwrap();
    assert_eq!(store.keyed_response(&owner(), "k").await.unwrap(), None);
}

#[tokio::test]
async fn little_room_on_the_disk_is_told_before_a_commit_fails() {
    let folder = Folder::new();
    let disk = Told::small();
    let store = folder.open(|options| options.disk = Arc::clone(&disk) as Arc<dyn Disk>);
    store.ready().await.unwrap();
    disk.set(MIB - 1);
    let error = store.ready().await.unwrap_err();
    assert!(error.to_string().contains("0 MiB are free"), "{error}");
    assert!(store.is_impaired());
    store.finish(record()).await.expect("what is being made still ends");
    disk.set(MIB);
    store.maintain().await.unwrap();
    assert!(!store.is_impaired(), "maintenance looks, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_is_looked_at_while_much_is_written() {
    let folder = Folder::new();
    let disk = Told::small();
    let store = folder.open(|options| options.disk = Arc::clone(&disk) as Arc<dyn Disk>);
    disk.set(0);
    let huge = ResponseRecord { body: "x".repeat(20 << 20).into(), ..turn(None, "q", "a") };
    store.finish(huge).await.unwrap();
    assert!(eventually(async || store.is_impaired()).await, "with nobody asking");
}

#[tokio::test]
async fn the_reserve_is_given_up_for_deletions_and_made_again() {
    let folder = Folder::new();
    let disk = Told::small();
    let reserve = folder.path().with_extension("db.reserve");
    let bytes = || reserve.metadata().map_or(0, |file| file.len());
    disk.set(MIB);
    let store = open(&folder, &disk, |options| options.reserve = true);
    assert_eq!(bytes(), 0, "from little room none is taken");
    assert!(store.is_impaired());
    disk.set(8 * MIB);
    store.ready().await.unwrap();
    assert_eq!(bytes(), MIB);
    let written = fill(&store).await;
    assert_eq!(bytes(), 0, "given up");
    for record in &written {
        assert!(store.delete(&owner(), record.lease.id.as_str()).await.unwrap());
    }
    store.maintain().await.unwrap();
    assert_eq!(bytes(), MIB);
    store.close().await;
    assert_eq!(bytes(), MIB, "kept for a start on a full disk");
}

#[tokio::test]
async fn a_file_that_is_removed_or_replaced_beneath_the_store_is_noticed() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    store.finish(record()).await.unwrap();
    let aside = folder.path().with_extension("aside");
    std::fs::rename(folder.path(), &aside).unwrap();
    assert!(matches!(store.maintain().await, Err(StoreError::Replaced(_))));
    assert!(store.is_impaired());
    std::fs::copy(&aside, folder.path()).unwrap();
    assert!(matches!(store.ready().await, Err(StoreError::Replaced(_))), "a copy is another file");
    std::fs::rename(&aside, folder.path()).unwrap();
    store.ready().await.unwrap();
    assert!(!store.is_impaired());
}

#[tokio::test]
async fn a_database_that_fails_is_known_to_until_a_commit_succeeds() {
    let folder = Folder::new();
    is_impaired_until_a_commit_succeeds(&folder, &folder.open(|_| ())).await;
}

pub(super) async fn is_impaired_until_a_commit_succeeds(folder: &Folder, store: &SqliteStore) {
    folder.sql().execute_batch("ALTER TABLE responses RENAME TO gone").unwrap();
    assert!(matches!(store.finish(turn(None, "q", "a")).await, Err(StoreError::Database(_))));
    assert!(store.is_impaired());
    folder.sql().execute_batch("ALTER TABLE gone RENAME TO responses").unwrap();
    store.finish(turn(None, "q", "a")).await.unwrap();
    assert!(!store.is_impaired());
}

#[tokio::test]
async fn one_bad_row_impairs_nothing() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let bad = "CREATE TRIGGER bad BEFORE INSERT ON item_ids BEGIN SELECT raise(ABORT, 'no items here'); END";
    folder.sql().execute_batch(bad).unwrap();
    store.finish(turn(None, "q", "a")).await.unwrap_err();
    assert!(!store.is_impaired());
}

#[tokio::test]
async fn nothing_that_could_not_be_stored_is_asked_of_the_provider() {
    let folder = Folder::new();
    let store = Arc::new(open(&folder, &Told::small(), |options| options.instance = "server".to_owned()));
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).store(Arc::clone(&store) as Arc<dyn Store>).spawn().await;
    let ask = || json!({"model": "test-model", "input": "Hi"});
    let kept = gateway.create(ask()).await["id"].as_str().unwrap().to_owned();
    let mut mine = vec![kept];
    // Through the door, until it is shut.
    let input = "x".repeat(40_000);
    let answer = loop {
        let answer = gateway.post("/v1/responses", &json!({"model": "test-model", "input": input})).await;
        if answer.status != 200 || answer.body["status"] != "completed" {
            break answer;
        }
        mine.push(answer.body["id"].as_str().unwrap().to_owned());
        assert!(mine.len() < 200, "it never became full");
    };
    // Of the response that found no room at its end, or of the request that was refused.
    assert_eq!(answer.body["error"]["code"], "storage_full");
    // What is found is kept for a second, also by the look of a server that has just started.
    let unready = eventually(async || {
        let ready = gateway.get("/readyz").await;
        (ready.status, &ready.body["checks"]["store"]) == (503, &json!("full"))
    });
    assert!(unready.await);
    let asked = upstream.requests().len();
    for body in [ask(), json!({"model": "test-model", "input": "Hi", "stream": true})] {
        let answer = gateway.post("/v1/responses", &body).await;
        assert_eq!((answer.status, &answer.body["error"]["code"]), (503, &json!("storage_full")));
        assert!(answer.headers.contains_key("retry-after"));
    }
    assert_eq!(upstream.requests().len(), asked, "nobody was asked");
    gateway.create(json!({"model": "test-model", "input": "Hi", "store": false})).await;
    assert_eq!(gateway.get(&format!("/v1/responses/{}", mine[0])).await.status, 200);
    for id in &mine {
        assert_eq!(gateway.delete(&format!("/v1/responses/{id}")).await.status, 200);
    }
    let served = async || gateway.post("/v1/responses", &ask()).await.status == 200;
    assert!(eventually(served).await, "with nobody asking for readiness");
    assert!(eventually(async || gateway.get("/readyz").await.status == 200).await);
}

#[tokio::test]
async fn a_database_that_was_removed_beneath_the_gateway_makes_it_unready() {
    let folder = Folder::new();
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).database(folder.path()).spawn().await;
    assert_eq!(gateway.get("/readyz").await.status, 200);
    std::fs::remove_file(folder.path()).unwrap();
    // What was found before is told for a second.
    assert!(eventually(async || gateway.get("/readyz").await.status == 503).await);
    assert_eq!(gateway.get("/readyz").await.body["checks"]["store"], "replaced");
    gateway.refuse(json!({"model": "test-model", "input": "Hi"}), 500, "storage_error").await;
    assert_eq!(upstream.requests().len(), 0);
}
