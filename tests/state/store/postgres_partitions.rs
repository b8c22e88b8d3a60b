//! Tables that an operator has partitioned as `docs/scaling.md` says.

use std::time::Duration;

use antwort::store::{
    EventLog, IdempotencyKeys, LogEnd, LogExtent, LogKept, LoggedEvents, LoggedRun, ReadLimit,
    ResponseRecord, ResponseStore, RunLog, Store, StoreError,
};
use tokio_postgres::Client;

use super::{SHORT, owner, running, texts, turn};
use antwort_test_support::postgres::Database;

const DOCUMENT: &str = include_str!("../../../docs/scaling.md");

/// Divides the tables: what has been written is in the first partition, what comes in the next one.
async fn divide(sql: &Client) {
    let (_, procedures) = DOCUMENT.split_once("```sql\n").unwrap();
    let (procedures, _) = procedures.split_once("```").unwrap();
    sql.batch_execute(procedures).await.unwrap();
    sql.batch_execute(
        "DO $$
        DECLARE bound timestamptz := clock_timestamp();
        BEGIN
            CALL antwort_divide(bound);
            CALL antwort_add('_next', bound, bound + interval '1 day');
        END $$",
    )
    .await
    .unwrap();
    // Ids of one millisecond may be on both sides.
    tokio::time::sleep(Duration::from_millis(2)).await;
}

fn logged(last: u64) -> LoggedRun {
    let events = LoggedEvents { first: 0, last, bytes: b"event".to_vec() };
    LoggedRun { key: None, record: running(), state: None, events: Some(events) }
}

async fn end(store: &dyn Store, run: &LoggedRun) {
    let end = LogEnd { keep_below: None, events: None, is_unlisted: false };
    store.finish_logged(run.record.clone(), end).await.unwrap();
}

async fn is_there(store: &dyn Store, record: &ResponseRecord) -> bool {
    store.response(&owner(), record.lease.id.as_str(), u64::MAX).await.unwrap().is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_goes_on_when_its_tables_are_divided_and_when_a_part_is_dropped() {
    let database = Database::new().await;
    let (store, sql) = (database.open(|_| ()).await, database.sql().await);
    let (first, begun) = (turn(None, "q", "a"), running());
    store.finish(first.clone()).await.unwrap();
    store.begin(begun.clone(), None).await.unwrap();
    divide(&sql).await;
    let second = turn(Some(&first), "r", "b");
    store.begin(ResponseRecord { items: Vec::new(), ..second.clone() }, None).await.unwrap();
    store.finish(second.clone()).await.unwrap();
    assert_eq!(texts(&store, &second).await.unwrap(), ["q", "a", "r", "b"]);
    store.finish(begun.clone()).await.unwrap();
    let alone = turn(None, "s", "c");
    store.finish(alone.clone()).await.unwrap();
    store.maintain().await.unwrap();
    database.open(|_| ()).await.ready().await.unwrap();
    sql.batch_execute("CALL antwort_drop('_first')").await.unwrap();
    assert!(!is_there(&store, &first).await && !is_there(&store, &begun).await);
    assert!(is_there(&store, &second).await, "what continued it is there");
    let lineage = store.lineage(&owner(), second.lease.id.as_str(), ReadLimit::UNLIMITED).await;
    assert!(matches!(lineage, Err(StoreError::BrokenChain { .. })), "and cannot be continued");
    assert_eq!(texts(&store, &alone).await.unwrap(), ["s", "c"]);
    store.finish(turn(Some(&alone), "t", "d")).await.unwrap();
    assert!(store.delete(&owner(), alone.lease.id.as_str()).await.unwrap());
    store.maintain().await.unwrap();
}

/// Rows of two partitions may have the same `ctid`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_deleted_takes_none_of_another_partition_with_it() {
    let database = Database::new().await;
    let store = database.open(|options| options.event_ttl = SHORT).await;
    let sql = database.sql().await;
    let (deleted, expired) = (logged(1), logged(1));
    for run in [&deleted, &expired] {
        store.begin_logged(run.clone()).await.unwrap();
    }
    divide(&sql).await;
    let kept = [logged(7), logged(7), logged(7)];
    for run in &kept {
        store.begin_logged(run.clone()).await.unwrap();
    }
    end(&store, &deleted).await;
    end(&store, &expired).await;
    assert!(store.delete(&owner(), deleted.record.lease.id.as_str()).await.unwrap());
    tokio::time::sleep(SHORT + SHORT / 4).await;
    store.maintain().await.unwrap();
    for run in &kept {
        let state = store.log_state(&owner(), &run.record.lease.id).await.unwrap().unwrap();
        let all = LogExtent { begun: 8, next: 8, replaced_from: None };
        assert_eq!(state.log, LogKept::Kept(all));
    }
    let left = sql.query_one("SELECT count(*) FROM event_log", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), kept.len() as i64);
}
