//! What every store does with calls whose results the gateway looks for, and with questions of calls.

use std::time::Duration;

use antwort::store::{
    AskedQuestions, AsyncCallKey, AsyncOutcome, AsyncResult, CallOutcome, DueTask, InputAnswer, InputOutcome,
    NewPendingCall, PendingSource, PolledTask, QuestionKey, ResponseRecord, StartedCall, Store,
};
use futures_util::future::join_all;

use super::{owned_by, owner, record, running};

const LONG: Duration = Duration::from_secs(60);

fn key(record: &ResponseRecord, index: u32) -> AsyncCallKey {
    AsyncCallKey { owner: record.owner.clone(), response: record.lease.id.clone(), turn: 0, index }
}

async fn start(store: &dyn Store, record: &ResponseRecord, index: u32, after: Option<Duration>) {
    let task = after.map(|after| PolledTask { sealed: format!("task {index}").into_bytes().into(), after });
    let call = StartedCall {
        key: key(record, index),
        item: "mcp_1".into(),
        tool: "shop__add".to_owned(),
        on_complete: "store",
        spec: None,
        timeout: LONG,
        task,
    };
    store.start_async(call).await.unwrap();
}

async fn due(store: &dyn Store) -> Vec<DueTask> {
    let mut due = store.due_tasks(10, LONG).await.unwrap();
    due.sort_by_key(|task| task.key.index);
    due
}

pub(super) async fn a_task_is_looked_at_by_one_when_it_is_time(store: &dyn Store) {
    let made = record();
    store.finish(made.clone()).await.unwrap();
    start(store, &made, 0, Some(Duration::ZERO)).await;
    start(store, &made, 1, Some(LONG)).await;
    start(store, &made, 2, None).await;
    let taken = join_all((0..10).map(|_| store.due_tasks(10, LONG))).await;
    let taken: Vec<_> = taken.into_iter().flat_map(Result::unwrap).collect();
    let [task] = &taken[..] else { panic!("{taken:?}") };
    assert_eq!((&task.key, &*task.sealed, task.is_wanted), (&key(&made, 0), &b"task 0"[..], true));
    assert!(due(store).await.is_empty(), "nobody else gets it");
    store.poll_task(key(&made, 0), Some(Duration::ZERO)).await.unwrap();
    store.poll_task(key(&made, 1), Some(Duration::ZERO)).await.unwrap();
    assert_eq!(due(store).await.len(), 2);
    for index in 0..2 {
        store.poll_task(key(&made, index), None).await.unwrap();
    }
    assert!(due(store).await.is_empty());
}

pub(super) async fn a_task_whose_result_is_there_or_whose_response_is_cancelled_is_not_wanted(
    store: &dyn Store,
) {
    let made = record();
    store.finish(made.clone()).await.unwrap();
    let cancelled =
        ResponseRecord { status: antwort::protocol::response::ResponseStatus::Cancelled, ..record() };
    store.finish(cancelled.clone()).await.unwrap();
    start(store, &made, 0, Some(Duration::ZERO)).await;
    start(store, &made, 1, Some(Duration::ZERO)).await;
    start(store, &cancelled, 2, Some(Duration::ZERO)).await;
    let result = AsyncResult { key: key(&made, 0), output: "x".to_owned(), error: None, timeout: LONG };
    assert_eq!(store.complete_async(result).await.unwrap(), AsyncOutcome::Stored);
    // What is written again, as the run is followed, has no task: the one that there is stays.
    start(store, &made, 1, None).await;
    let wanted: Vec<_> = due(store).await.iter().map(|task| (task.key.index, task.is_wanted)).collect();
    assert_eq!(wanted, [(0, false), (1, true), (2, false)]);
}

fn question(number: u32, timeout: Duration) -> NewPendingCall {
    let key = QuestionKey { turn: 0, call: 1, number };
    NewPendingCall {
        index: key.row(),
        source: PendingSource::Question,
        call_id: key.call_id(),
        tool: String::new(),
        request: "size".to_owned(),
        timeout,
    }
}

pub(super) async fn a_question_is_answered_once_and_asked_anew_until_then(store: &dyn Store) {
    let run = running();
    store.begin(run.clone(), None).await.unwrap();
    let ask = async |questions| {
        let asked = AskedQuestions { lease: run.lease.clone(), turn: 0, questions };
        store.ask_questions(asked).await.unwrap();
    };
    let answer_within = async |number, output: &str, max_response_bytes| {
        let call_id = QuestionKey { turn: 0, call: 1, number }.call_id();
        let (owner, response) = (owner(), run.lease.id.clone());
        let answer = InputAnswer {
            owner,
            response,
            call_id,
            output: output.to_owned(),
            error: None,
            max_response_bytes,
        };
        store.answer_input(answer).await.unwrap()
    };
    let answer = async |number, output: &str| answer_within(number, output, u64::MAX).await;
    ask(vec![question(0, LONG), question(1, Duration::ZERO)]).await;
    assert_eq!(answer(1, "x").await, InputOutcome::Expired, "nobody was told of it");
    ask(vec![question(1, LONG)]).await;
    assert!(matches!(answer(1, "x").await, InputOutcome::Accepted { .. }));
    assert_eq!(answer(1, "x").await, InputOutcome::Repeated);
    assert_eq!(answer_within(0, "12345", 5).await, InputOutcome::TooLarge, "with the one byte that there is");
    // Neither of these takes an answer back.
    ask(vec![question(1, Duration::ZERO)]).await;
    let withdrawn = CallOutcome {
        lease: run.lease.clone(),
        turn: 0,
        index: question(1, LONG).index,
        output: "withdrawn".to_owned(),
        error: Some("question_withdrawn"),
    };
    store.record_tool_result(withdrawn);
    assert_eq!(answer(1, "x").await, InputOutcome::Repeated);
    let given = store.given_answers(&owner(), &run.lease.id).await.unwrap();
    let given: Vec<_> =
        given.iter().map(|answer| (&*answer.call_id, &*answer.output, &answer.error)).collect();
    assert_eq!(given, [("elicit:0:1:1", "x", &None)]);
    assert!(store.given_answers(&owned_by("other", "ann"), &run.lease.id).await.unwrap().is_empty());
}
