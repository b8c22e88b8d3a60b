//! What every store does with notices to webhooks.

use std::time::Duration;

use antwort::protocol::id::Id;
use antwort::store::{ErasureTarget, OutboxNotice, ResponseRecord, Store};
use futures_util::future::join_all;

use super::{Open, owned_by, owner, record, running};

const LONG: Duration = Duration::from_secs(60);
const SHORTLY: Duration = Duration::from_millis(1000);

fn notice(webhook: &str) -> OutboxNotice {
    OutboxNotice { webhook: webhook.into(), event_id: Id::generate("evt"), body: "{}".into() }
}

fn told(record: ResponseRecord, webhook: &str) -> ResponseRecord {
    ResponseRecord { outbox: vec![notice(webhook)], ..record }
}

/// The names of the webhooks whose notices are due, which are taken.
async fn due(store: &dyn Store) -> Vec<String> {
    let taken = store.take_due_notices(10, LONG, &[]).await.unwrap();
    let mut names: Vec<_> = taken.into_iter().map(|notice| notice.webhook).collect();
    names.sort();
    names
}

pub(super) async fn a_notice_is_written_with_the_end_of_its_response(store: &dyn Store) {
    let run = running();
    store.begin(told(run.clone(), "too early"), None).await.unwrap();
    assert_eq!(due(store).await, [""; 0], "it has not ended");
    store.finish(told(run.clone(), "a")).await.unwrap();
    store.finish(told(record(), "b")).await.unwrap();
    let late = store.finish(told(run, "too late")).await;
    assert!(late.is_err(), "it has ended already");
    let deleted = running();
    store.begin(deleted.clone(), None).await.unwrap();
    store.delete(&owner(), deleted.lease.id.as_str()).await.unwrap();
    store.finish(told(deleted, "deleted")).await.unwrap();
    assert_eq!(due(store).await, ["a", "b"]);
}

pub(super) async fn a_notice_is_taken_by_one_until_its_time_is_over(store: &dyn Store) {
    let written = notice("a");
    store.finish(ResponseRecord { outbox: vec![written.clone()], ..record() }).await.unwrap();
    let taken = join_all((0..20).map(|_| store.take_due_notices(10, SHORTLY, &[]))).await;
    let taken: Vec<_> = taken.into_iter().flat_map(Result::unwrap).collect();
    let [first] = &taken[..] else { panic!("{taken:?}") };
    assert_eq!((first.attempt, &first.event_id, &*first.body), (1, &written.event_id, "{}"));
    tokio::time::sleep(SHORTLY + SHORTLY / 5).await;
    let again = store.take_due_notices(10, LONG, &[]).await.unwrap();
    assert_eq!((again[0].attempt, &again[0].event_id), (2, &written.event_id), "the first taker is gone");
    store.retry_notice(&again[0], Duration::ZERO).await.unwrap();
    let third = store.take_due_notices(10, LONG, &[]).await.unwrap();
    assert_eq!(third[0].attempt, 3);
    store.remove_notice(&third[0]).await.unwrap();
    store.retry_notice(&third[0], Duration::ZERO).await.unwrap();
    assert_eq!(due(store).await, [""; 0]);
}

pub(super) async fn a_notice_that_was_taken_again_is_not_the_first_takers(store: &dyn Store) {
    store.finish(told(record(), "a")).await.unwrap();
    let first = store.take_due_notices(10, Duration::ZERO, &[]).await.unwrap();
    let second = store.take_due_notices(10, Duration::ZERO, &[]).await.unwrap();
    store.remove_notice(&first[0]).await.unwrap();
    store.retry_notice(&first[0], LONG).await.unwrap();
    let third = store.take_due_notices(10, LONG, &[]).await.unwrap();
    assert_eq!((second[0].attempt, third[0].attempt), (2, 3), "it is there, and due");
}

pub(super) async fn notices_of_other_webhooks_alone_are_taken(store: &dyn Store) {
    for webhook in ["a", "b", "a", "c"] {
        store.finish(told(record(), webhook)).await.unwrap();
    }
    let names = async |limit, except: &[&str]| {
        let taken = store.take_due_notices(limit, LONG, except).await.unwrap();
        taken.into_iter().map(|notice| notice.webhook).collect::<Vec<_>>()
    };
    assert_eq!(names(1, &["a", "c"]).await, ["b"], "older ones of others do not stand before it");
    assert_eq!(names(10, &["a", "b", "c"]).await, [""; 0]);
    let mut rest = names(10, &["d"]).await;
    rest.sort();
    assert_eq!(rest, ["a", "a", "c"]);
}

pub(super) async fn notices_go_with_the_erasure_of_their_owner(store: &dyn Store) {
    store.finish(told(record(), "a")).await.unwrap();
    store.finish(ResponseRecord { owner: owned_by("acme", "bob"), ..told(record(), "b") }).await.unwrap();
    let target = ErasureTarget { tenant: "acme".into(), principal: Some("ann".into()) };
    store.erase(&target).await.unwrap();
    assert_eq!(due(store).await, ["b"]);
}

pub(super) async fn a_notice_is_delivered_by_one_process(open: Open<'_>) {
    let stores = [open("one"), open("two"), open("three")];
    for _ in 0..30 {
        stores[0].finish(told(record(), "a")).await.unwrap();
    }
    let taken = join_all(stores.iter().map(async |store| {
        let mut keys = Vec::new();
        // One that finds nothing may have been late, or others have locked what there is.
        for _ in 0..10 {
            for notice in store.take_due_notices(4, LONG, &[]).await.unwrap() {
                assert_eq!(notice.attempt, 1);
                keys.push(notice.key);
                store.remove_notice(&notice).await.unwrap();
            }
        }
        keys
    }));
    let mut keys = taken.await.concat();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 30, "each by one");
    for store in &stores {
        assert_eq!(due(&**store).await, [""; 0]);
    }
}
