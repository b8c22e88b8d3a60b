//! What every store does with the wish of an owner that a running response ends.

use antwort::protocol::id::Id;
use antwort::protocol::response::ResponseStatus;
use antwort::store::{CancelRequest, ResponseRecord, Store};

use super::jobs::job;
use super::{LEASE, Open, owned_by, owner, running};

fn ended(run: &ResponseRecord) -> ResponseRecord {
    ResponseRecord { status: ResponseStatus::Completed, ..run.clone() }
}

async fn cancelled(store: &dyn Store) -> Vec<Id> {
    store.cancelled_runs().await.unwrap()
}

async fn wish(store: &dyn Store, run: &ResponseRecord) -> CancelRequest {
    store.request_cancel(&run.owner, &run.lease.id).await.unwrap()
}

pub(super) async fn a_running_response_is_marked_until_it_ends(store: &dyn Store) {
    let (run, other) = (running(), running());
    store.begin(run.clone(), None).await.unwrap();
    store.begin(other.clone(), None).await.unwrap();
    assert_eq!(cancelled(store).await, []);
    for _ in 0..2 {
        assert_eq!(wish(store, &run).await, CancelRequest::Requested);
        assert_eq!(cancelled(store).await, std::slice::from_ref(&run.lease.id));
    }
    store.finish(ended(&run)).await.unwrap();
    assert_eq!(cancelled(store).await, []);
    assert_eq!(wish(store, &run).await, CancelRequest::Ended);
    store.finish(ended(&other)).await.unwrap();
}

pub(super) async fn only_its_owner_cancels_a_response(store: &dyn Store) {
    let run = running();
    store.begin(run.clone(), None).await.unwrap();
    let others = ResponseRecord { owner: owned_by("acme", "bob"), ..run.clone() };
    assert_eq!(wish(store, &others).await, CancelRequest::NotFound);
    assert_eq!(wish(store, &running()).await, CancelRequest::NotFound);
    assert_eq!(cancelled(store).await, []);
    assert!(store.delete(&owner(), run.lease.id.as_str()).await.unwrap());
    assert_eq!(wish(store, &run).await, CancelRequest::NotFound, "it is deleted");
    assert_eq!(cancelled(store).await, std::slice::from_ref(&run.lease.id), "so its run is to end");
    store.finish(ended(&run)).await.unwrap();
    assert_eq!(cancelled(store).await, []);
}

pub(super) async fn a_registered_run_without_a_row_is_told_by_its_own_process(store: &dyn Store) {
    let run = running();
    let registration = store.register_run(&run.lease.id, &run.owner);
    assert_eq!(wish(store, &run).await, CancelRequest::Requested);
    drop(registration);
    assert_eq!(wish(store, &run).await, CancelRequest::NotFound);
}

pub(super) async fn a_run_that_another_process_cancels_is_told_to_its_own(open: Open<'_>) {
    let (mine, other) = (open("mine"), open("other"));
    let run = running();
    mine.begin(run.clone(), None).await.unwrap();
    assert_eq!(wish(&*other, &run).await, CancelRequest::Requested);
    assert_eq!(cancelled(&*mine).await, std::slice::from_ref(&run.lease.id));
    assert_eq!(cancelled(&*other).await, [], "it is not the other's to end");
    mine.finish(ended(&run)).await.unwrap();
    assert_eq!(wish(&*other, &run).await, CancelRequest::Ended);
}

pub(super) async fn an_orphan_is_known_to_be_cancelled(open: Open<'_>) {
    let (gone, finder) = (open("gone"), open("finder"));
    let (wished, other) = (running(), running());
    gone.begin(wished.clone(), None).await.unwrap();
    gone.begin(other.clone(), None).await.unwrap();
    assert_eq!(wish(&*finder, &wished).await, CancelRequest::Requested);
    tokio::time::sleep(LEASE + LEASE / 4).await;
    let orphans = finder.take_orphaned(10).await.unwrap();
    assert_eq!(orphans.len(), 2);
    for orphan in orphans {
        assert_eq!(orphan.is_cancelled, orphan.lease.id == wished.lease.id);
    }
}

/// Its worker learns of it with the claim, whichever that is; once every second claim was taken for cancelled.
pub(super) async fn a_claim_tells_whether_the_run_is_to_be_cancelled(open: Open<'_>) {
    let (gateway, worker) = (open("gateway"), open("worker"));
    let (wished, other) = (job(), job());
    gateway.enqueue(wished.clone()).await.unwrap();
    gateway.enqueue(other.clone()).await.unwrap();
    assert_eq!(wish(&*gateway, &wished.run.record).await, CancelRequest::Requested);
    assert_eq!(cancelled(&*gateway).await, [], "nobody makes it");
    for attempt in 1..=2 {
        let claimed = worker.claim_jobs(10).await.unwrap();
        assert_eq!(claimed.len(), 2);
        assert_eq!(cancelled(&*worker).await, std::slice::from_ref(&wished.run.record.lease.id));
        for job in claimed {
            assert_eq!(job.attempt, attempt);
            assert_eq!(job.run.is_cancelled, job.run.lease.id == wished.run.record.lease.id);
            let again = antwort::store::Requeue { delay: std::time::Duration::ZERO, counts: true };
            worker.requeue(job.run.lease, again).await.unwrap();
        }
    }
}
