//! What is PostgreSQL's own: its schema, its connections, and a server that goes and comes back.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use antwort::store::{ReadLimit, ResponseRecord, ResponseStore, RunLog, Store, StoreError};
use antwort_store_postgres::{DatabaseSchema, Migrations, PostgresOptions, PostgresStore, schema_of};
use futures_util::future::join_all;
use tokio_util::task::TaskTracker;

use super::{LEASE, owner, record, running, texts, turn};
use antwort_test_support::eventually;
use antwort_test_support::next_version;
use antwort_test_support::postgres::{Cluster, Database};

/// A limit of statements, and so of how long writes wait for a server that is away.
pub(super) const SHORT_TIMEOUT: Duration = Duration::from_millis(300);

pub(super) async fn open(cluster: &Cluster, change: impl FnOnce(&mut PostgresOptions)) -> PostgresStore {
    let mut options = PostgresOptions::new(cluster.url("postgres"), "test");
    options.pool_size = 3;
    change(&mut options);
    PostgresStore::open(options).await.unwrap()
}

async fn is_stored(store: &PostgresStore, record: &ResponseRecord) -> bool {
    store.response(&record.owner, record.lease.id.as_str(), u64::MAX).await.unwrap().is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_waits_for_a_server_that_is_away_at_its_start() {
    let mut cluster = Cluster::start(&[]);
    cluster.stop();
    let store = open(&cluster, |_| ()).await;
    assert!(matches!(store.ready().await, Err(StoreError::Unavailable(_))));
    assert!(store.is_impaired() && store.check_writable().await.is_err());
    assert!(matches!(store.finish(record()).await, Err(StoreError::Unavailable(_))));
    assert!(store.response(&owner(), "resp_1", u64::MAX).await.is_err());
    cluster.restart();
    assert!(eventually(async || store.ready().await.is_ok()).await);
    assert!(!store.is_impaired());
    let stored = record();
    store.finish(stored.clone()).await.unwrap();
    assert!(is_stored(&store, &stored).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_fail_while_the_server_is_away_and_work_again_when_it_is_back() {
    let mut cluster = Cluster::start(&[]);
    let store = open(&cluster, |options| {
        (options.statement_timeout, options.outage_timeout) = (SHORT_TIMEOUT, SHORT_TIMEOUT);
    })
    .await;
    let (before, begun) = (turn(None, "before", "a"), running());
    store.finish(before.clone()).await.unwrap();
    store.begin(begun.clone(), None).await.unwrap();
    cluster.stop();
    for _ in 0..3 {
        assert!(matches!(store.finish(record()).await, Err(StoreError::Unavailable(_))));
    }
    let ended = ResponseRecord { lease: begun.lease.clone(), ..record() };
    assert!(store.finish(ended).await.is_err());
    assert!(store.is_impaired() && store.ready().await.is_err());
    cluster.restart();
    assert!(eventually(async || store.check_writable().await.is_ok()).await);
    assert_eq!(texts(&store, &before).await.unwrap(), ["before", "a"]);
    store.finish(turn(Some(&before), "after", "b")).await.unwrap();
    // Its end is lost, and its run is given to whoever ends such runs.
    let orphans = store.take_orphaned(8).await.unwrap();
    assert_eq!(orphans.iter().map(|run| &run.lease.id).collect::<Vec<_>>(), [&begun.lease.id]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_interruption_is_waited_out() {
    let mut cluster = Cluster::start(&[]);
    let store = Arc::new(open(&cluster, |options| options.statement_timeout = Duration::from_secs(30)).await);
    store.finish(record()).await.unwrap();
    cluster.stop();
    let stored = record();
    let write = TaskTracker::new().spawn({
        let (store, stored) = (Arc::clone(&store), stored.clone());
        async move { store.finish(stored).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!write.is_finished(), "it waits");
    cluster.restart();
    write.await.unwrap().unwrap();
    assert!(is_stored(&store, &stored).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_acknowledged_is_lost_when_the_server_crashes() {
    let mut cluster = Cluster::start(&["fsync=on", "synchronous_commit=on"]);
    let store = Arc::new(open(&cluster, |options| options.statement_timeout = SHORT_TIMEOUT).await);
    let (tasks, count) = (TaskTracker::new(), Arc::new(AtomicUsize::new(0)));
    let writers = (0..16).map(|number| {
        let (store, count) = (Arc::clone(&store), Arc::clone(&count));
        tasks.spawn(async move {
            let mut acknowledged: Vec<ResponseRecord> = Vec::new();
            loop {
                // Chains and single responses.
                let next = turn(acknowledged.last().filter(|_| number % 2 == 0), "q", "a");
                match store.finish(next.clone()).await {
                    Ok(()) => {
                        acknowledged.push(next);
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) => return acknowledged,
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    assert!(eventually(async || count.load(Ordering::Relaxed) > 64).await);
    cluster.stop();
    let acknowledged: Vec<_> = join_all(writers).await.into_iter().flat_map(Result::unwrap).collect();
    assert!(acknowledged.len() > 64, "{}", acknowledged.len());
    cluster.restart();
    assert!(eventually(async || store.check_writable().await.is_ok()).await);
    for record in &acknowledged {
        assert!(is_stored(&store, record).await, "{}", record.lease.id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_and_reads_go_on_when_their_connections_are_cut() {
    let database = Database::new().await;
    let store = database.open(|_| ()).await;
    let (first, sql) = (turn(None, "q", "a"), database.sql().await);
    store.finish(first.clone()).await.unwrap();
    for _ in 0..3 {
        sql.batch_execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .await
        .unwrap();
        store.finish(turn(Some(&first), "q", "a")).await.unwrap();
        assert_eq!(texts(&store, &first).await.unwrap(), ["q", "a"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_need_not_be_prepared() {
    let database = Database::new().await;
    let store = database.open(|options| options.prepared_statements = false).await;
    let first = turn(None, "q", "a");
    let second = turn(Some(&first), "r", "b");
    store.finish(first.clone()).await.unwrap();
    store.begin(ResponseRecord { items: Vec::new(), ..second.clone() }, None).await.unwrap();
    store.finish(second.clone()).await.unwrap();
    assert_eq!(texts(&store, &second).await.unwrap(), ["q", "a", "r", "b"]);
    let found = store.items(&owner(), &[first.items[0].id.clone()], ReadLimit::UNLIMITED).await.unwrap();
    assert!(found[0].is_some());
    assert!(store.delete(&owner(), first.lease.id.as_str()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_that_end_at_once_are_stored_once_each() {
    let database = Database::new().await;
    let stores = [database.open(|_| ()).await, database.open(|_| ()).await];
    let records: Vec<_> = (0..200).map(|_| turn(None, "q", "a")).collect();
    // Both present each of them: one writes it, and the other is told that it has ended.
    let writes = records.iter().flat_map(|record| stores.iter().map(|store| store.finish(record.clone())));
    let outcomes = join_all(writes).await;
    let written = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(written, records.len());
    let sql = database.sql().await;
    let count = sql.query_one("SELECT count(*) FROM responses", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), records.len() as i64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_processes_that_start_at_once_one_makes_the_schema() {
    let database = Database::empty().await;
    assert_eq!(schema_of(&database.url()).await.unwrap(), DatabaseSchema::New);
    let stores = join_all((0..8).map(|_| database.open(|options| options.pool_size = 2))).await;
    let record = record();
    stores[0].finish(record.clone()).await.unwrap();
    for store in &stores {
        assert!(is_stored(store, &record).await);
    }
    assert_eq!(
        schema_of(&database.url()).await.unwrap(),
        DatabaseSchema::Usable(Migrations::RELEASED.latest())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_schema_is_used_if_it_says_so_and_others_are_refused() {
    let database = Database::new().await;
    let sql = database.sql().await;
    sql.batch_execute("UPDATE antwort_schema SET version = version + 1").await.unwrap();
    let store = database.open(|_| ()).await;
    store.finish(record()).await.unwrap();
    let refused = async |change: &str, migrations: Migrations| {
        sql.batch_execute(&format!("UPDATE antwort_schema SET {change}")).await.unwrap();
        let mut options = PostgresOptions::new(database.url(), "test");
        options.migrate = migrations == Migrations::RELEASED;
        options.migrations = migrations;
        PostgresStore::open(options).await.err().unwrap().to_string()
    };
    let newer = refused("compatible_with = version", Migrations::RELEASED).await;
    assert!(newer.contains("a later antwort"), "{newer}");
    let older = refused("version = 1, compatible_with = 1", next_version::postgres()).await;
    assert!(older.contains("antwort store migrate"), "{older}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_of_another_program_is_refused() {
    let database = Database::empty().await;
    database.sql().await.batch_execute("CREATE TABLE responses (id int)").await.unwrap();
    let error = PostgresStore::open(PostgresOptions::new(database.url(), "test")).await.err().unwrap();
    assert!(matches!(&error, StoreError::Schema(why) if why.contains("another program's")), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_renewed_keeps_its_run() {
    let database = Database::new().await;
    let [own, other] = ["own", "other"].map(|name| {
        database.open(move |options| {
            options.instance = name.to_owned();
            options.lease = LEASE;
        })
    });
    let (own, other) = (own.await, other.await);
    let begun = running();
    own.begin(begun.clone(), None).await.unwrap();
    let until = tokio::time::Instant::now() + LEASE * 2;
    let mut taken = HashSet::new();
    while tokio::time::Instant::now() < until {
        own.maintain().await.unwrap();
        taken.extend(other.take_orphaned(8).await.unwrap().into_iter().map(|run| run.lease));
    }
    assert!(taken.is_empty(), "{taken:?}");
    own.finish(ResponseRecord { lease: begun.lease.clone(), ..record() }).await.unwrap();
}
