//! What is PostgreSQL's own with runs: the queue, claims, logs.

use std::time::Duration;

use antwort::store::{
    EventLog, IdempotencyKeys, JobQueue, LogEnd, LogKept, LoggedEvents, LoggedRun, NewJob, Requeue, Store,
};
use antwort_store_postgres::{CLAIM_OLDEST, PostgresOptions, PostgresStore, TENANTS_IN_TURN};

use super::jobs::job;
use super::{SHORT, owner, running};
use antwort_test_support::postgres::{Cluster, Database, connect};

/// What the planner makes of a statement, with its parameters as they are written.
async fn plan(database: &Database, statement: &str) -> String {
    let rows = database.sql().await.query(&format!("EXPLAIN {statement}"), &[]).await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}

/// Many runs that wait.
async fn many_queued(database: &Database, count: u32) {
    let store = database.open(|_| ()).await;
    let first: NewJob = job();
    store.enqueue(first.clone()).await.unwrap();
    let sql = format!(
        "INSERT INTO responses (key, owner, created_at, status, model, item_index, items, body)
            SELECT ('f0000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, owner, created_at, status, model,
                item_index, items, body FROM responses, generate_series(1, {count}) n;
         INSERT INTO runs (response, owner, instance, epoch, lease_until, state, attempt, job, tenant)
            SELECT s.key, s.owner, '', 1, 0, convert_to(repeat('s', 500), 'UTF8'), 0, convert_to(repeat('j', 3000), 'UTF8'),
                (SELECT tenant FROM runs LIMIT 1) FROM responses s WHERE s.key >= 'f0000000-0000-7000-8000-000000000000';
         ANALYZE"
    );
    database.sql().await.batch_execute(&sql).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_queue_is_claimed_from_its_front_by_the_index() {
    let database = Database::new().await;
    many_queued(&database, 10_000).await;
    let tenants = TENANTS_IN_TURN
        .replace("$1", "'test'")
        .replace("$2", "''::bytea")
        .replace("$3", "'{full}'::bytea[]")
        .replace("$4", "16")
        .replace("$5", "0::bigint");
    let oldest = CLAIM_OLDEST
        .replace("$1", "'test'")
        .replace("$2", "'{acme,zoo}'")
        .replace("$3", "'{8,8}'")
        .replace("$4", "0::bigint");
    for statement in [tenants, oldest] {
        let plan = plan(&database, &statement).await;
        assert!(plan.contains("using runs_waiting_by_tenant"), "{plan}");
        assert!(plan.contains("runs_claimed") && !plan.contains("Seq Scan on runs"), "{plan}");
    }
    let store = database.open(|_| ()).await;
    for _ in 0..10 {
        assert_eq!(store.claim_jobs(16).await.unwrap().len(), 16);
    }
    assert_eq!(store.job_stats().await.unwrap().queued, 10_001 - 160);
}

/// The renewal once held the rows that it had renewed while it waited for one that was being written, and so for a writer that
/// waited for those: a deadlock, which held up commits for a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_of_leases_holds_no_run_while_it_waits_for_another() {
    let database = Database::new().await;
    let store = database.open(|_| ()).await;
    for _ in 0..2 {
        store
            .begin_logged(LoggedRun { key: None, record: running(), state: None, events: None })
            .await
            .unwrap();
    }
    let (mut writer, observer) = (database.sql().await, database.sql().await);
    observer.batch_execute("UPDATE runs SET lease_until = 0").await.unwrap();
    let writing = writer.transaction().await.unwrap();
    let last = "SELECT response FROM runs ORDER BY ctid DESC LIMIT 1 FOR UPDATE";
    assert_eq!(writing.execute(last, &[]).await.unwrap(), 1);
    let renewed = async {
        store.maintain().await.unwrap();
    };
    let written = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while observer.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
        let others = "SELECT response FROM runs FOR UPDATE NOWAIT";
        assert_eq!(writing.execute(others, &[]).await.unwrap(), 2);
        writing.commit().await.unwrap();
    };
    tokio::join!(renewed, written);
    let left = observer.query_one("SELECT count(*) FROM runs WHERE lease_until = 0", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), 0, "the one that was waited for is renewed, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_kept_for_a_time_after_the_end_of_its_response() {
    let database = Database::new().await;
    let store = database.open(|options| options.event_ttl = SHORT).await;
    let events = |first, last| LoggedEvents { first, last, bytes: b"event".to_vec() };
    let run = LoggedRun { key: None, record: running(), state: None, events: Some(events(0, 1)) };
    store.begin_logged(run.clone()).await.unwrap();
    let id = &run.record.lease.id;
    tokio::time::sleep(SHORT + SHORT / 4).await;
    store.maintain().await.unwrap();
    let state = async || store.log_state(&owner(), id).await.unwrap().unwrap().log;
    assert!(matches!(state().await, LogKept::Kept(_)), "the time begins at the end");
    let end = LogEnd { keep_below: None, events: Some(events(2, 2)), is_unlisted: false };
    store.finish_logged(run.record.clone(), end).await.unwrap();
    store.maintain().await.unwrap();
    assert!(matches!(state().await, LogKept::Kept(_)));
    tokio::time::sleep(SHORT + SHORT / 4).await;
    for _ in 0..2 {
        assert_eq!(state().await, LogKept::Gone, "before maintenance, too");
        assert_eq!(store.logged_events(&owner(), id, 0, 1000).await.unwrap(), None);
        store.maintain().await.unwrap();
    }
    let left = database.sql().await.query_one("SELECT count(*) FROM event_log", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), 0);
}

/// Nobody was told of them, and their leases would have been renewed for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_a_claim_whose_connection_is_lost_at_its_commit_are_claimed_again() {
    // A commit waits for a server that does not exist, after it was made.
    let settings = ["fsync=off", "synchronous_standby_names=nobody", "synchronous_commit=local"];
    let cluster = tokio::task::spawn_blocking(move || Cluster::start(&settings)).await.unwrap();
    let url = cluster.url("postgres");
    let store = PostgresStore::open(PostgresOptions::new(&url, "test")).await.unwrap();
    for _ in 0..3 {
        store.enqueue(job()).await.unwrap();
    }
    let sql = connect(&url).await;
    sql.batch_execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM set_config('synchronous_commit', 'on', true); RETURN NULL; END $$;
         CREATE TRIGGER wait AFTER UPDATE ON runs FOR EACH ROW WHEN (NEW.claim IS NOT NULL) EXECUTE FUNCTION wait()",
    )
    .await
    .unwrap();
    let end = async {
        let waiting = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        while sql.query(waiting, &[]).await.unwrap().is_empty() {}
    };
    let (claimed, ()) = tokio::join!(store.claim_jobs(10), end);
    assert!(claimed.is_err(), "{claimed:?}");
    let made = sql.query_one("SELECT count(*) FROM runs WHERE instance = 'test'", &[]).await.unwrap();
    assert_eq!(made.get::<_, i64>(0), 3, "the claim was committed");
    sql.batch_execute("DROP TRIGGER wait ON runs; CREATE TABLE late AS SELECT DISTINCT claim FROM runs")
        .await
        .unwrap();
    let claimed = store.claim_jobs(10).await.unwrap();
    assert_eq!(claimed.len(), 3);
    assert!(claimed.iter().all(|claim| claim.attempt == 1 && &*claim.spec == b"spec"));
    // As if a part of that commit became visible only now.
    store.enqueue(job()).await.unwrap();
    let late = "UPDATE runs SET instance = 'test', epoch = 2, attempt = 1, lease_until = 9e15,
        claim = (SELECT claim FROM late) WHERE instance = ''";
    sql.batch_execute(late).await.unwrap();
    let claimed = store.claim_jobs(10).await.unwrap();
    assert_eq!(claimed.iter().map(|claim| claim.attempt).collect::<Vec<_>>(), [1], "it is undone again");
    store.close().await;
}

/// Once its lease was renewed until the process ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_could_not_be_given_back_is_free_when_the_database_is_there_again() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start(&["fsync=off"])).await.unwrap();
    let mut options = PostgresOptions::new(cluster.url("postgres"), "test");
    options.statement_timeout = Duration::from_millis(300);
    let store = PostgresStore::open(options).await.unwrap();
    store.enqueue(job()).await.unwrap();
    let claimed = store.claim_jobs(10).await.unwrap().remove(0);
    let cluster = change(cluster, Cluster::stop).await;
    let requeue = Requeue { delay: Duration::ZERO, counts: true };
    assert!(store.requeue(claimed.run.lease, requeue).await.is_err());
    let cluster = change(cluster, Cluster::restart).await;
    while store.maintain().await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let again = store.claim_jobs(10).await.unwrap();
    assert_eq!(again.iter().map(|claim| claim.attempt).collect::<Vec<_>>(), [2]);
    store.close().await;
    drop(cluster);
}

async fn change(mut cluster: Cluster, change: fn(&mut Cluster)) -> Cluster {
    let changed = tokio::task::spawn_blocking(move || {
        change(&mut cluster);
        cluster
    });
    changed.await.unwrap()
}
