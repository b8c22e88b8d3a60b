//! Writes that their callers commit themselves, while few runs are in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use antwort::protocol::response::ResponseStatus;
use antwort::store::{CallOutcome, ResponseRecord, ResponseStore, RunLog, Store, StoreError, TurnRecord};
use antwort_store_sqlite::{SqliteStore, Synchronous};

use super::full::is_impaired_until_a_commit_succeeds;
use super::leases::calling;
use super::{Folder, owner, record, running, turn};

fn idle(store: SqliteStore) -> SqliteStore {
    store.set_runs_in_flight(Arc::new(|| 1));
    store
}

/// Whether a write is committed when it is first polled, without the other thread.
async fn is_committed_inline(store: &SqliteStore, record: ResponseRecord) -> bool {
    let mut write = std::pin::pin!(store.finish(record));
    let done = std::future::poll_fn(|context| std::task::Poll::Ready(write.as_mut().poll(context))).await;
    match done {
        std::task::Poll::Ready(done) => {
            done.unwrap();
            true
        }
        std::task::Poll::Pending => {
            write.await.unwrap();
            false
        }
    }
}

#[tokio::test]
async fn callers_commit_themselves_while_few_runs_are_in_flight() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    assert!(!is_committed_inline(&store, turn(None, "q", "a")).await, "how many there are is not known");
    let runs = Arc::new(AtomicUsize::new(3));
    let told = Arc::clone(&runs);
    store.set_runs_in_flight(Arc::new(move || told.load(Ordering::Relaxed)));
    assert!(!is_committed_inline(&store, turn(None, "q", "a")).await, "too many");
    runs.store(2, Ordering::Relaxed);
    let mut made = Vec::new();
    let mut at_once = 0;
    // A commit that was slow, or the other thread which is not done yet, lets some be queued.
    for _ in 0..200 {
        let record = turn(None, "q", "a");
        at_once += u32::from(is_committed_inline(&store, record.clone()).await);
        made.push(record);
        tokio::time::sleep(Duration::from_millis(10)).await;
        if at_once > 3 {
            break;
        }
    }
    assert!(at_once > 3);
    // The other thread may have committed one by then.
    let mut was_queued = false;
    for _ in 0..20 {
        let large = ResponseRecord { body: "x".repeat(100_000).into(), ..record() };
        was_queued |= !is_committed_inline(&store, large).await;
    }
    assert!(was_queued, "it takes long");
    for record in made {
        assert!(store.response(&owner(), record.lease.id.as_str(), u64::MAX).await.unwrap().is_some());
    }
    store.close().await;
    assert!(matches!(store.finish(record()).await, Err(StoreError::Database(_))), "closed");
}

#[tokio::test]
async fn a_commit_that_waits_for_the_disk_is_made_by_the_writer_thread() {
    let folder = Folder::new();
    let store = idle(folder.open(|options| options.synchronous = Synchronous::Full));
    for _ in 0..5 {
        assert!(!is_committed_inline(&store, turn(None, "q", "a")).await);
    }
}

/// On the one thread of this runtime, a caller that waited for the lock would never see it released.
#[tokio::test]
async fn a_caller_does_not_wait_for_the_lock_of_another_process() {
    let folder = Folder::new();
    let store = idle(folder.open(|_| ()));
    let record = turn(None, "q", "a");
    let other = folder.sql();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let release = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        other.execute_batch("COMMIT").unwrap();
    };
    let (stored, ()) = tokio::join!(store.finish(record.clone()), release);
    stored.unwrap();
    assert!(!store.is_impaired());
    assert!(store.response(&owner(), record.lease.id.as_str(), u64::MAX).await.unwrap().is_some());
}

#[tokio::test]
async fn a_commit_that_fails_is_told_as_any_other() {
    let folder = Folder::new();
    is_impaired_until_a_commit_succeeds(&folder, &idle(folder.open(|_| ()))).await;
}

/// The outcome of a call waits some milliseconds for another write; the end of its run must not come before it.
#[tokio::test]
async fn a_caller_does_not_overtake_what_it_has_queued() {
    let folder = Folder::new();
    let store = idle(folder.open(|_| ()));
    for _ in 0..20 {
        let run = running();
        store.commit_turn(TurnRecord { begin: Some(run.clone()), ..calling(&run.lease, 0) }).await.unwrap();
        store.record_tool_result(CallOutcome {
            lease: run.lease.clone(),
            turn: 0,
            index: 0,
            output: "done".to_owned(),
            error: None,
        });
        store.finish(ResponseRecord { status: ResponseStatus::Completed, ..run }).await.unwrap();
    }
    assert_eq!(folder.number("SELECT count(*) FROM tool_calls WHERE output = 'done'"), 20);
}
