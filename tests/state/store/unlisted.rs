//! Responses that are polled but not stored: found by their id alone, and kept as long as their log.

use std::time::Duration;

use antwort::store::{
    Direction, LogEnd, NewJob, PageRequest, ReadLimit, ResponseFilter, ResponseRecord, Store,
};

use super::jobs::job;
use super::{Folder, message, owner, turn};
use antwort_test_support::postgres::Database;

const SHORT: Duration = Duration::from_millis(700);

/// A run in the background whose client wants nothing stored, queued and ended.
async fn made(store: &dyn Store) -> ResponseRecord {
    let NewJob { mut run, spec } = job();
    run.record.is_unlisted = true;
    store.enqueue(NewJob { run, spec }).await.unwrap();
    let claimed = store.claim_jobs(10).await.unwrap().remove(0);
    let items = vec![message(Direction::Input, "q"), message(Direction::Output, "a")];
    let record = ResponseRecord { lease: claimed.run.lease.clone(), items, ..turn(None, "q", "a") };
    let end = LogEnd { keep_below: None, events: None, is_unlisted: true };
    store.finish_logged(record.clone(), end).await.unwrap();
    record
}

async fn is_there(store: &dyn Store, record: &ResponseRecord) -> bool {
    store.response(&owner(), record.lease.id.as_str(), u64::MAX).await.unwrap().is_some()
}

pub(super) async fn a_response_that_is_not_stored_is_polled_but_neither_listed_nor_continued(
    store: &dyn Store,
) {
    let record = made(store).await;
    let id = record.lease.id.as_str();
    assert!(is_there(store, &record).await);
    let page = PageRequest { limit: 10, ascending: true, after: None, before: None, max_bytes: u64::MAX };
    for (status, model) in [(None, None), (Some(record.status), None), (None, Some(record.model.clone()))] {
        let found = store.responses(&owner(), &page, &ResponseFilter { status, model }).await.unwrap();
        assert!(found.data.is_empty(), "{found:?}");
    }
    assert!(store.lineage(&owner(), id, ReadLimit::UNLIMITED).await.unwrap().is_none());
    let ids: Vec<_> = record.items.iter().map(|item| item.id.clone()).collect();
    let items = store.items(&owner(), &ids, ReadLimit::UNLIMITED).await.unwrap();
    assert!(items.iter().all(Option::is_none), "{items:?}");
    assert!(store.delete(&owner(), id).await.unwrap());
    assert!(!is_there(store, &record).await);
}

/// The walk over all rows comes to few of them in a minute.
async fn leaves_with_the_next_round(store: &dyn Store) -> ResponseRecord {
    for n in 0..30 {
        store.finish(turn(None, &n.to_string(), "lives on")).await.unwrap();
    }
    let record = made(store).await;
    tokio::time::sleep(SHORT + Duration::from_millis(100)).await;
    assert!(!is_there(store, &record).await, "it has expired");
    store.maintain().await.unwrap();
    record
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_row_behind_rows_that_live_on_leaves_the_file_with_the_next_round() {
    let folder = Folder::new();
    let store = folder.open(|options| options.event_ttl = SHORT);
    leaves_with_the_next_round(&store).await;
    assert_eq!(folder.number("SELECT count(*) FROM responses WHERE unlisted IS NOT NULL"), 0);
    assert_eq!(folder.number("SELECT count(*) FROM responses"), 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_row_behind_rows_that_live_on_leaves_the_database_with_the_next_round() {
    let database = Database::new().await;
    let store = database.open(|options| options.event_ttl = SHORT).await;
    leaves_with_the_next_round(&store).await;
    let counts = "SELECT count(*), count(unlisted) FROM responses";
    let row = database.sql().await.query_one(counts, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (30, 0));
}
