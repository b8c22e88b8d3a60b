//! What every store does with runs that wait for the results of their calls.

use std::time::Duration;

use antwort::protocol::id::Id;
use antwort::store::{
    AsyncCallKey, AsyncOutcome, AsyncResult, ClaimedJob, InputAnswer, InputOutcome, NewPendingCall,
    PendingCall, PendingSource, StartedCall, Store, TurnRecord,
};

use super::jobs::{claimed, enqueued};
use super::leases::calling;
use super::owner;

const LONG: Duration = Duration::from_secs(60);

fn client_call(call_id: &str, timeout: Duration) -> NewPendingCall {
    NewPendingCall {
        index: 0,
        source: PendingSource::Client,
        call_id: call_id.to_owned(),
        tool: "weather".to_owned(),
        request: r#"{"city":"Rome"}"#.to_owned(),
        timeout,
    }
}

async fn start_async(store: &dyn Store, response: &Id, index: u32) {
    let call = StartedCall {
        key: AsyncCallKey { owner: owner(), response: response.clone(), turn: 0, index },
        item: Id::from(format!("mcp_{index}")),
        tool: "shop__add".to_owned(),
        on_complete: "resume",
        spec: None,
        timeout: LONG,
        task: None,
    };
    store.start_async(call).await.unwrap();
}

async fn complete_async(store: &dyn Store, response: &Id, index: u32, output: &str) {
    let key = AsyncCallKey { owner: owner(), response: response.clone(), turn: 0, index };
    let result = AsyncResult { key, output: output.to_owned(), error: None, timeout: LONG };
    assert_eq!(store.complete_async(result).await.unwrap(), AsyncOutcome::Stored);
}

async fn answer(store: &dyn Store, response: &Id, call_id: &str) -> InputOutcome {
    let answer = InputAnswer {
        owner: owner(),
        response: response.clone(),
        call_id: call_id.to_owned(),
        output: "sunny".to_owned(),
        error: None,
        max_response_bytes: u64::MAX,
    };
    store.answer_input(answer).await.unwrap()
}

/// A claimed run whose first turn has two calls whose work goes on.
async fn with_async_calls(store: &dyn Store) -> (Id, ClaimedJob) {
    let id = enqueued(store).await.run.record.lease.id;
    let first = claimed(store).await;
    store.commit_turn(calling(&first.run.lease, 0)).await.unwrap();
    start_async(store, &id, 0).await;
    start_async(store, &id, 1).await;
    (id, first)
}

async fn is_claimed_by_none(store: &dyn Store) -> bool {
    store.claim_jobs(10).await.unwrap().is_empty()
}

fn outcomes(pending: &[PendingCall]) -> Vec<(PendingSource, u32, Option<&str>)> {
    let outcome = |call: &PendingCall| call.outcome.is_some();
    assert!(pending.iter().filter(|call| !outcome(call)).all(|call| call.left.is_some()), "{pending:?}");
    pending
        .iter()
        .map(|call| (call.source, call.turn, call.outcome.as_ref().map(|(text, _)| &**text)))
        .collect()
}

pub(super) async fn a_run_waits_for_the_calls_that_it_awaits_and_for_no_others(store: &dyn Store) {
    use PendingSource::{Async, Client};
    let (id, first) = with_async_calls(store).await;
    let asks = TurnRecord {
        calls: Vec::new(),
        pending: vec![client_call("call_1", LONG)],
        ..calling(&first.run.lease, 1)
    };
    store.commit_turn(asks).await.unwrap();
    assert!(store.wait_for_inputs(first.run.lease).await.unwrap() > Duration::ZERO);
    assert!(is_claimed_by_none(store).await, "it waits for its client");
    complete_async(store, &id, 0, "early").await;
    assert!(is_claimed_by_none(store).await, "and for nothing else");
    assert_eq!(answer(store, &id, "call_1").await, InputOutcome::Accepted { is_last: true });
    let second = claimed(store).await;
    let found = [(Async, 0, Some("early")), (Async, 0, None), (Client, 1, Some("sunny"))];
    assert_eq!(outcomes(&second.run.pending), found);

    let awaits =
        TurnRecord { calls: Vec::new(), awaited: vec![(0, 0), (0, 1)], ..calling(&second.run.lease, 2) };
    store.commit_turn(awaits).await.unwrap();
    assert!(store.wait_for_inputs(second.run.lease).await.unwrap() > Duration::ZERO);
    assert!(is_claimed_by_none(store).await, "one result is missing");
    complete_async(store, &id, 1, "late").await;
    let found = [(Async, 0, Some("early")), (Async, 0, Some("late")), (Client, 1, Some("sunny"))];
    assert_eq!(outcomes(&claimed(store).await.run.pending), found);
}

pub(super) async fn a_run_does_not_wait_for_what_is_late(store: &dyn Store) {
    let (id, first) = with_async_calls(store).await;
    let asks = TurnRecord {
        calls: Vec::new(),
        pending: vec![client_call("call_1", Duration::ZERO)],
        ..calling(&first.run.lease, 1)
    };
    store.commit_turn(asks).await.unwrap();
    assert_eq!(store.wait_for_inputs(first.run.lease).await.unwrap(), Duration::ZERO);
    let second = claimed(store).await;
    let call = second.run.pending.iter().find(|call| call.source == PendingSource::Client).unwrap();
    assert_eq!((&call.outcome, call.left), (&None, None));
    assert_eq!(answer(store, &id, "call_1").await, InputOutcome::Expired);
}

/// A call whose work goes on has no name by which a client could answer it.
pub(super) async fn what_a_client_answers_is_no_result_of_a_call_whose_work_goes_on(store: &dyn Store) {
    let (id, _) = with_async_calls(store).await;
    for name in ["", "mcp_0", "async:0:0"] {
        assert_eq!(answer(store, &id, name).await, InputOutcome::NotPending, "{name}");
    }
}
