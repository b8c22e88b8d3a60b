//! What every store does with leases: who may write a run.

use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    CallOutcome, Direction, JournaledCall, Lease, ReadLimit, ResponseRecord, Store, StoreError, TurnRecord,
};

use super::{Open, message, owner, record, running, texts, turn};

/// The end of a running response.
fn ended(run: &ResponseRecord) -> ResponseRecord {
    ResponseRecord { lease: run.lease.clone(), ..turn(None, "question", "answer") }
}

/// The lease of a run that was taken over once more.
fn taken_over(lease: &Lease) -> Lease {
    Lease { epoch: lease.epoch + 1, ..lease.clone() }
}

/// A turn that calls a tool.
pub(super) fn calling(lease: &Lease, number: u32) -> TurnRecord {
    let call = JournaledCall {
        server_label: "antwort".to_owned(),
        tool: "noop".to_owned(),
        arguments: "{}".to_owned(),
    };
    TurnRecord {
        lease: lease.clone(),
        begin: None,
        items: vec![message(Direction::Output, "said")],
        first_position: number as usize,
        turn: number,
        calls: vec![call],
        pending: Vec::new(),
        awaited: Vec::new(),
        state: None,
    }
}

async fn exists(store: &dyn Store, run: &ResponseRecord) -> bool {
    store.response(&owner(), run.lease.id.as_str(), u64::MAX).await.unwrap().is_some()
}

pub(super) async fn a_write_with_the_epoch_of_another_lease_is_refused(store: &dyn Store) {
    let run = running();
    store.begin(run.clone(), None).await.unwrap();
    let other = taken_over(&run.lease);
    let refused = [
        store.begin(ResponseRecord { lease: other.clone(), ..run.clone() }, None).await,
        store.commit_turn(calling(&other, 0)).await,
        store.finish(ResponseRecord { lease: other.clone(), ..ended(&run) }).await,
    ];
    for refused in refused {
        assert!(matches!(refused, Err(StoreError::Superseded)), "{refused:?}");
    }
    store.commit_turn(calling(&run.lease, 0)).await.unwrap();
    store.record_tool_result(CallOutcome {
        lease: run.lease.clone(),
        turn: 0,
        index: 0,
        output: "done".to_owned(),
        error: None,
    });
    store.finish(ended(&run)).await.unwrap();
    assert_eq!(texts(store, &run).await.unwrap(), ["question", "answer"]);
}

pub(super) async fn a_lease_that_was_taken_over_begins_nothing(store: &dyn Store) {
    let run = running();
    let later = taken_over(&run.lease);
    let begun = store.begin(ResponseRecord { lease: later.clone(), ..run.clone() }, None).await;
    assert!(matches!(begun, Err(StoreError::Superseded)), "{begun:?}");
    assert!(matches!(store.commit_turn(calling(&later, 0)).await, Err(StoreError::Superseded)));
    // Its row was deleted: what remains of the run is dropped.
    store.finish(ResponseRecord { lease: later, ..ended(&run) }).await.unwrap();
    assert!(!exists(store, &run).await);
}

pub(super) async fn a_turn_of_a_deleted_run_is_dropped_without_an_error(store: &dyn Store) {
    let run = running();
    store.begin(run.clone(), None).await.unwrap();
    store.commit_turn(calling(&run.lease, 0)).await.unwrap();
    assert!(store.delete(&owner(), run.lease.id.as_str()).await.unwrap());
    store.commit_turn(calling(&run.lease, 1)).await.unwrap();
    store.begin(run.clone(), None).await.unwrap();
    assert!(!exists(store, &run).await);
    assert!(store.lineage(&owner(), run.lease.id.as_str(), ReadLimit::UNLIMITED).await.unwrap().is_none());
    assert!(!store.delete(&owner(), run.lease.id.as_str()).await.unwrap(), "it is deleted once");
    store.finish(ended(&run)).await.unwrap();
    assert!(!exists(store, &run).await);
}

pub(super) async fn a_run_is_written_by_the_process_that_began_it_alone(open: Open<'_>) {
    let (mine, other) = (open("mine"), open("other"));
    let run = running();
    mine.begin(run.clone(), None).await.unwrap();
    assert!(matches!(other.begin(run.clone(), None).await, Err(StoreError::Superseded)));
    assert!(matches!(other.commit_turn(calling(&run.lease, 0)).await, Err(StoreError::Superseded)));
    assert!(matches!(other.finish(ended(&run)).await, Err(StoreError::Superseded)));
    mine.commit_turn(calling(&run.lease, 0)).await.unwrap();
    mine.finish(ended(&run)).await.unwrap();
    assert_eq!(texts(&*other, &run).await.unwrap(), ["question", "answer"]);
}

pub(super) async fn a_response_that_another_process_deletes_while_it_runs_stays_deleted(open: Open<'_>) {
    let (mine, other) = (open("mine"), open("other"));
    for turns in 0..2 {
        let run = running();
        mine.begin(run.clone(), None).await.unwrap();
        assert!(other.delete(&owner(), run.lease.id.as_str()).await.unwrap());
        other.maintain().await.unwrap();
        for number in 0..turns {
            mine.commit_turn(calling(&run.lease, number)).await.unwrap();
        }
        let end = ResponseRecord { status: ResponseStatus::Completed, ..ended(&run) };
        mine.finish(end).await.unwrap();
        assert!(!exists(&*mine, &run).await);
        mine.finish(record()).await.unwrap();
        assert!(!exists(&*other, &run).await);
    }
}
