//! Rows of requests that failed before their first output.

use antwort::protocol::response::ResponseStatus;
use antwort::store::{ErasureTarget, ResponseRecord, Store};

use super::{owned_by, owner, record};
use antwort_test_support::eventually;

fn failed() -> ResponseRecord {
    ResponseRecord { status: ResponseStatus::Failed, trace: Some("trace".into()), ..record() }
}

async fn exists(store: &dyn Store, record: &ResponseRecord) -> bool {
    store.response(&record.owner, record.lease.id.as_str(), u64::MAX).await.unwrap().is_some()
}

pub async fn a_failed_request_is_read_with_its_trace_by_its_owner(store: &dyn Store) {
    let record = failed();
    store.record_failed_request(record.clone());
    assert!(eventually(async || exists(store, &record).await).await);
    let id = record.lease.id.clone();
    let body = store.response(&owner(), id.as_str(), u64::MAX).await.unwrap();
    assert_eq!(body, Some(record.body.clone()));
    assert_eq!(store.traces(&owner(), std::slice::from_ref(&id)).await.unwrap(), [Some("trace".into())]);
    assert!(!store.delete(&owned_by("acme", "bob"), id.as_str()).await.unwrap());
    assert!(store.delete(&owner(), id.as_str()).await.unwrap());
    assert!(!exists(store, &record).await);
}

pub async fn a_request_that_began_before_an_erasure_and_fails_after_it_is_not_stored(store: &dyn Store) {
    let (before, others) = (failed(), ResponseRecord { owner: owned_by("other", "ann"), ..failed() });
    let target = ErasureTarget { tenant: "acme".into(), principal: None };
    store.erase(&target).await.unwrap();
    store.record_failed_request(before.clone());
    store.record_failed_request(others.clone());
    assert!(eventually(async || exists(store, &others).await).await);
    // Behind all writes that are queued.
    store.ready().await.unwrap();
    assert!(!exists(store, &before).await);
}

/// A run that its owner had deleted came back as a failed request.
pub async fn a_withdrawn_run_tells_whether_it_was_deleted(store: &dyn Store) {
    for is_deleted in [false, true] {
        let run =
            antwort::store::LoggedRun { key: None, record: super::running(), state: None, events: None };
        store.begin_logged(run.clone()).await.unwrap();
        let lease = run.record.lease.clone();
        if is_deleted {
            assert!(store.delete(&run.record.owner, lease.id.as_str()).await.unwrap());
        }
        assert_eq!(store.withdraw(lease).await.unwrap(), !is_deleted);
    }
}
