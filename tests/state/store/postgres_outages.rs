//! What runs of a living process come to while PostgreSQL is away: their writes wait, and nobody takes them over.

use std::sync::Arc;
use std::time::Duration;

use antwort::store::{CallOutcome, LogEnd, ResponseRecord, RunLog, Store, StoreError};
use antwort::store::{ConversationRecord, ConversationStore, EventLog, ResponseStore};
use antwort_store_postgres::PostgresStore;
use antwort_test_support::eventually;
use antwort_test_support::postgres::{Cluster, Database};
use tokio_util::task::TaskTracker;

use super::leases::calling;
use super::postgres_server::{SHORT_TIMEOUT, open};
use super::{owner, record, running};

/// Of the leases of these tests.
const LEASE: Duration = Duration::from_secs(2);

async fn process(cluster: &Cluster, name: &'static str) -> PostgresStore {
    open(cluster, |options| {
        options.instance = name.to_owned();
        options.statement_timeout = SHORT_TIMEOUT;
        options.lease = LEASE;
    })
    .await
}

fn ended(run: &ResponseRecord) -> ResponseRecord {
    ResponseRecord { lease: run.lease.clone(), ..record() }
}

/// A result that was written while the database was away was lost, and the turn behind it failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writes_of_a_run_wait_for_a_server_that_is_away() {
    let mut cluster = Cluster::start(&[]);
    let store = Arc::new(process(&cluster, "own").await);
    let run = running();
    store.begin(run.clone(), None).await.unwrap();
    store.commit_turn(calling(&run.lease, 0)).await.unwrap();
    cluster.stop();
    store.record_tool_result(CallOutcome {
        lease: run.lease.clone(),
        turn: 0,
        index: 0,
        output: "done".to_owned(),
        error: None,
    });
    let turn = TaskTracker::new().spawn({
        let (store, turn) = (Arc::clone(&store), calling(&run.lease, 1));
        async move { store.commit_turn(turn).await }
    });
    // That of a response without a row fails at once: its client can send the request again.
    for _ in 0..3 {
        assert!(matches!(store.finish(record()).await, Err(StoreError::Unavailable(_))));
    }
    assert!(store.is_impaired() && !turn.is_finished());
    cluster.restart();
    turn.await.unwrap().unwrap();
    assert!(!store.is_impaired());
    store.close().await;
    let other = process(&cluster, "other").await;
    let taken = other.take_orphaned(8).await.unwrap().remove(0);
    let outcomes: Vec<_> = taken.calls.iter().map(|call| call.outcome.clone()).collect();
    assert_eq!(outcomes, [Some(("done".to_owned(), None)), None]);
}

/// The end of a run waits as well, and is written once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_run_waits_for_a_server_that_is_away() {
    let mut cluster = Cluster::start(&[]);
    let store = Arc::new(process(&cluster, "own").await);
    let runs = [running(), running()];
    for run in &runs {
        store.begin(run.clone(), None).await.unwrap();
    }
    cluster.stop();
    let ends = TaskTracker::new();
    let spawned = runs.clone().map(|run| {
        let store = Arc::clone(&store);
        let is_first = run.lease == runs[0].lease;
        ends.spawn(async move {
            match is_first {
                true => store.finish(ended(&run)).await,
                false => {
                    let end = LogEnd { keep_below: Some(0), events: None, is_unlisted: false };
                    store.finish_logged(ended(&run), end).await
                }
            }
        })
    });
    tokio::time::sleep(SHORT_TIMEOUT * 3).await;
    assert!(spawned.iter().all(|end| !end.is_finished()));
    cluster.restart();
    for end in spawned {
        end.await.unwrap().unwrap();
    }
    for run in &runs {
        let found = store.response(&owner(), run.lease.id.as_str(), u64::MAX).await.unwrap().unwrap();
        assert!(found.contains("completed"), "{found}");
    }
    store.maintain().await.unwrap();
    let other = process(&cluster, "other").await;
    assert!(other.take_orphaned(8).await.unwrap().is_empty(), "none was given up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_closed_while_the_server_is_away_waits_for_nothing() {
    let mut cluster = Cluster::start(&[]);
    let store = Arc::new(process(&cluster, "own").await);
    let run = running();
    store.begin(run.clone(), None).await.unwrap();
    cluster.stop();
    let end = TaskTracker::new().spawn({
        let (store, end) = (Arc::clone(&store), ended(&run));
        async move { store.finish(end).await }
    });
    tokio::time::sleep(SHORT_TIMEOUT * 3).await;
    assert!(!end.is_finished());
    store.closing();
    assert!(eventually(async || end.is_finished()).await && end.await.unwrap().is_err());
    store.close().await;
}

/// A lock of a table that is held for longer than a statement may take failed the run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writes_of_a_run_wait_for_a_lock() {
    let database = Database::new().await;
    let store = Arc::new(database.open(|options| options.statement_timeout = SHORT_TIMEOUT).await);
    let run = running();
    store.begin(run.clone(), None).await.unwrap();
    let sql = database.sql().await;
    sql.batch_execute("BEGIN; LOCK TABLE turns").await.unwrap();
    let turn = TaskTracker::new().spawn({
        let (store, turn) = (Arc::clone(&store), calling(&run.lease, 0));
        async move { store.commit_turn(turn).await }
    });
    tokio::time::sleep(SHORT_TIMEOUT * 4).await;
    assert!(!turn.is_finished());
    sql.batch_execute("ROLLBACK").await.unwrap();
    turn.await.unwrap().unwrap();
}

/// Of two writes of a run that waited for a lock, the second was made first, and a result was lost behind the end of its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writes_of_a_run_keep_their_order_behind_a_lock() {
    let database = Database::new().await;
    let store = Arc::new(database.open(|options| options.statement_timeout = SHORT_TIMEOUT).await);
    let runs: Vec<_> = (0..8).map(|_| running()).collect();
    for run in &runs {
        store.begin(run.clone(), None).await.unwrap();
        store.commit_turn(calling(&run.lease, 0)).await.unwrap();
    }
    let sql = database.sql().await;
    sql.batch_execute("BEGIN; LOCK TABLE tool_calls").await.unwrap();
    let turns = TaskTracker::new();
    let write = |run: &ResponseRecord| {
        let lease = run.lease.clone();
        let output = "done".to_owned();
        store.record_tool_result(CallOutcome { lease, turn: 0, index: 0, output, error: None });
        let (store, turn) = (Arc::clone(&store), calling(&run.lease, 1));
        turns.spawn(async move { store.commit_turn(turn).await })
    };
    let waiting: Vec<_> = runs.iter().map(write).collect();
    tokio::time::sleep(SHORT_TIMEOUT * 3).await;
    assert!(waiting.iter().all(|turn| !turn.is_finished()));
    sql.batch_execute("ROLLBACK").await.unwrap();
    for turn in waiting {
        turn.await.unwrap().unwrap();
    }
    let known = sql.query_one("SELECT count(*) FROM tool_calls WHERE output IS NOT NULL", &[]).await.unwrap();
    assert_eq!(known.get::<_, i64>(0), runs.len() as i64);
}

/// The first process that reached the database took the runs of all others over, whose leases had expired meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_outage_no_process_takes_runs_or_conversations_of_others_at_once() {
    let mut cluster = Cluster::start(&[]);
    let (own, other) = (process(&cluster, "own").await, process(&cluster, "other").await);
    let run = running();
    own.begin(run.clone(), None).await.unwrap();
    let conversation = ConversationRecord {
        id: "conv_1".into(),
        owner: owner(),
        created_at: 0,
        metadata: "{}".into(),
        items: Vec::new(),
    };
    own.create_conversation(conversation).await.unwrap();
    let held = own.lock_conversation(&owner(), "conv_1").await.unwrap().unwrap();
    other.maintain().await.unwrap();
    cluster.stop();
    assert!(other.maintain().await.is_err());
    tokio::time::sleep(LEASE).await;
    cluster.restart();
    assert!(other.take_orphaned(8).await.is_ok_and(|taken| taken.is_empty()), "it is not known to be over");
    assert!(eventually(async || other.maintain().await.is_ok()).await);
    assert!(other.take_orphaned(8).await.unwrap().is_empty());
    assert!(other.lock_conversation(&owner(), "conv_1").await.unwrap().is_none());
    assert!(eventually(async || own.maintain().await.is_ok()).await);
    own.finish(ended(&run)).await.unwrap();
    drop(held);
    // What its process has given up is taken at once, and after a while what nobody renews.
    let (given_up, left) = (running(), running());
    own.begin(given_up.clone(), None).await.unwrap();
    own.close().await;
    assert_eq!(other.take_orphaned(8).await.unwrap().remove(0).lease.id, given_up.lease.id);
    let gone = process(&cluster, "gone").await;
    gone.begin(left.clone(), None).await.unwrap();
    let is_taken = async || {
        other.maintain().await.unwrap();
        other.take_orphaned(8).await.unwrap().iter().any(|taken| taken.lease.id == left.lease.id)
    };
    assert!(eventually(is_taken).await);
}

/// A process that was started in an outage knew nothing of it, and took the runs of all others over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_started_in_an_outage_takes_no_runs_of_others_at_once() {
    let mut cluster = Cluster::start(&[]);
    let own = process(&cluster, "own").await;
    let run = running();
    own.begin(run.clone(), None).await.unwrap();
    cluster.stop();
    let other = process(&cluster, "other").await;
    tokio::time::sleep(LEASE).await;
    cluster.restart();
    assert!(eventually(async || other.ready().await.is_ok()).await);
    assert!(other.take_orphaned(8).await.unwrap().is_empty());
    other.maintain().await.unwrap();
    assert!(other.take_orphaned(8).await.unwrap().is_empty());
    assert!(eventually(async || own.renew_leases().await.is_ok()).await);
    own.finish(ended(&run)).await.unwrap();
}
