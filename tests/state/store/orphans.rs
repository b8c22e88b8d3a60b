//! What every store does with runs that nobody makes any more.

use std::collections::HashSet;
use std::sync::Arc;

use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    CallOutcome, Direction, JournaledCall, ModelView, OrphanCause, OrphanedRun, ResponseRecord, StateKey,
    Store, StoreError, StoredState, TurnRecord,
};

use super::{LEASE, Open, message, owner, running, texts, turn};

/// The end of a run that was taken over.
fn ended(orphan: &OrphanedRun) -> ResponseRecord {
    let record = turn(None, "question", "answer");
    ResponseRecord { lease: orphan.lease.clone(), status: ResponseStatus::Failed, ..record }
}

fn call(tool: &str) -> JournaledCall {
    let (server_label, arguments) = ("antwort".to_owned(), "{}".to_owned());
    JournaledCall { server_label, tool: tool.to_owned(), arguments }
}

/// The first turn of a run, with its row, state and a call.
fn first_turn(run: &ResponseRecord, state: &[u8]) -> TurnRecord {
    TurnRecord {
        lease: run.lease.clone(),
        begin: Some(run.clone()),
        items: vec![message(Direction::Output, "said")],
        first_position: run.items.len(),
        turn: 0,
        calls: vec![call("first")],
        pending: Vec::new(),
        awaited: Vec::new(),
        state: Some(state.into()),
    }
}

async fn exists(store: &dyn Store, orphan: &OrphanedRun) -> bool {
    store.response(&owner(), orphan.lease.id.as_str(), u64::MAX).await.unwrap().is_some()
}

/// The store of a process that has begun these runs and is gone, and the runs.
async fn left(open: Open<'_>, count: usize) -> Vec<ResponseRecord> {
    let gone = open("gone");
    let runs: Vec<_> = (0..count).map(|_| running()).collect();
    for run in &runs {
        gone.commit_turn(first_turn(run, b"state")).await.unwrap();
    }
    gone.close().await;
    runs
}

pub(super) async fn a_store_without_orphans_gives_none(store: &dyn Store) {
    let run = running();
    store.begin(run.clone(), None).await.unwrap();
    store.finish(turn(None, "q", "a")).await.unwrap();
    assert!(store.take_orphaned(10).await.unwrap().is_empty());
    store.finish(ResponseRecord { status: ResponseStatus::Completed, ..run }).await.unwrap();
}

pub(super) async fn an_orphan_is_given_with_all_that_was_committed_of_it(open: Open<'_>) {
    let gone = open("gone");
    let mut run = running();
    run.previous = Some("resp_before".into());
    let mut sealed = message(Direction::Input, "question");
    sealed.state = Some(StoredState { key: StateKey::new(&owner(), "key"), blob: "sealed".into() });
    run.items = vec![sealed];
    let mut hidden = message(Direction::Output, "cut");
    hidden.model_view = ModelView::Hidden;
    let mut other = message(Direction::Output, "shown");
    other.model_view = ModelView::Override("{\"type\":\"message\"}".into());
    let mut first = first_turn(&run, b"one");
    first.items = vec![hidden.clone()];
    first.calls = vec![call("done"), call("failed"), call("unknown")];
    gone.commit_turn(first).await.unwrap();
    for (index, error) in [(0, None), (1, Some("tool_timeout"))] {
        let output = format!("output {index}");
        gone.record_tool_result(CallOutcome { lease: run.lease.clone(), turn: 0, index, output, error });
    }
    let second = TurnRecord {
        lease: run.lease.clone(),
        begin: None,
        items: vec![other.clone()],
        first_position: 2,
        turn: 1,
        calls: vec![call("last")],
        pending: Vec::new(),
        awaited: Vec::new(),
        state: Some(b"two"[..].into()),
    };
    gone.commit_turn(second).await.unwrap();
    gone.close().await;

    let found = open("finder").take_orphaned(10).await.unwrap();
    let [orphan] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&orphan.lease.id, orphan.lease.epoch), (&run.lease.id, run.lease.epoch + 1));
    assert_eq!((&orphan.owner, &orphan.model, orphan.created_at), (&run.owner, &run.model, run.created_at));
    assert_eq!((&orphan.previous, &orphan.body), (&run.previous, &run.body));
    assert_eq!((orphan.cause, orphan.state.as_deref()), (OrphanCause::ProcessGone, Some(&b"two"[..])));
    for (found, stored) in orphan.items.iter().zip([&run.items[0], &hidden, &other]) {
        assert_eq!((&found.id, found.direction, &found.wire), (&stored.id, stored.direction, &stored.wire));
        assert_eq!(found.model_view, stored.model_view);
        let state = |state: &Option<StoredState>| {
            state.as_ref().map(|state| (state.key.clone(), Arc::clone(&state.blob)))
        };
        assert_eq!(state(&found.state), state(&stored.state));
    }
    assert_eq!(orphan.items.len(), 3);
    let calls: Vec<_> = orphan
        .calls
        .iter()
        .map(|call| {
            (
                call.turn,
                call.index,
                &*call.tool,
                call.outcome.as_ref().map(|(text, code)| (&**text, code.as_deref())),
            )
        })
        .collect();
    assert_eq!(
        calls,
        [
            (0, 0, "done", Some(("output 0", None))),
            (0, 1, "failed", Some(("output 1", Some("tool_timeout")))),
            (0, 2, "unknown", None),
            (1, 0, "last", None),
        ]
    );
}

pub(super) async fn of_two_processes_one_gets_each_orphan(open: Open<'_>) {
    let runs = left(open, 20).await;
    let (one, two) = (open("one"), open("two"));
    let take = async |store: Arc<dyn Store>| {
        let mut taken = Vec::new();
        loop {
            match store.take_orphaned(3).await.unwrap() {
                none if none.is_empty() => break taken,
                some => {
                    assert!(some.len() <= 3);
                    taken.extend(some);
                }
            }
        }
    };
    let (first, second) = tokio::join!(take(Arc::clone(&one)), take(Arc::clone(&two)));
    let ids: HashSet<_> = first.iter().chain(&second).map(|orphan| orphan.lease.id.clone()).collect();
    assert_eq!((first.len() + second.len(), ids.len()), (runs.len(), runs.len()));
    for (store, other, taken) in [(&one, &two, &first), (&two, &one, &second)] {
        for orphan in taken {
            assert!(matches!(other.finish(ended(orphan)).await, Err(StoreError::Superseded)));
            store.finish(ended(orphan)).await.unwrap();
            assert_eq!(
                texts(&**other, &ended(orphan)).await.unwrap(),
                ["question", "answer"],
                "what was committed of its turns is replaced by its end"
            );
        }
    }
    assert!(one.take_orphaned(10).await.unwrap().is_empty());
}

pub(super) async fn the_lease_from_before_a_run_was_taken_over_is_refused(open: Open<'_>) {
    let (stalled, finder) = (open("stalled"), open("finder"));
    let run = running();
    stalled.commit_turn(first_turn(&run, b"state")).await.unwrap();
    assert!(finder.take_orphaned(10).await.unwrap().is_empty(), "its lease has not expired");
    tokio::time::sleep(LEASE + LEASE / 5).await;
    let found = finder.take_orphaned(10).await.unwrap();
    assert_eq!(found.len(), 1);
    let again = TurnRecord { begin: None, turn: 1, first_position: 1, ..first_turn(&run, b"late") };
    assert!(matches!(stalled.commit_turn(again).await, Err(StoreError::Superseded)));
    stalled.record_tool_result(CallOutcome {
        lease: run.lease.clone(),
        turn: 0,
        index: 0,
        output: "late".to_owned(),
        error: None,
    });
    let late = ResponseRecord { status: ResponseStatus::Completed, ..run.clone() };
    assert!(matches!(stalled.finish(late).await, Err(StoreError::Superseded)));
    stalled.maintain().await.unwrap();
    let second = TurnRecord {
        lease: found[0].lease.clone(),
        begin: None,
        turn: 1,
        first_position: 1,
        ..first_turn(&run, b"by the finder")
    };
    finder.commit_turn(second).await.unwrap();
    finder.finish(ended(&found[0])).await.unwrap();
    assert_eq!(texts(&*stalled, &run).await.unwrap(), ["question", "answer"]);
}

pub(super) async fn an_orphan_that_is_taken_and_not_finished_is_one_again_when_its_lease_expires(
    open: Open<'_>,
) {
    let runs = left(open, 1).await;
    let (first, second) = (open("first"), open("second"));
    let taken = first.take_orphaned(10).await.unwrap();
    assert_eq!(taken.len(), 1);
    for store in [&first, &second] {
        assert!(store.take_orphaned(10).await.unwrap().is_empty(), "it is leased");
    }
    // It is not renewed by those who are alive, the taker included.
    for _ in 0..4 {
        tokio::time::sleep(LEASE / 3).await;
        first.maintain().await.unwrap();
    }
    let again = first.take_orphaned(10).await.unwrap();
    assert_eq!((again.len(), again[0].lease.epoch), (1, runs[0].lease.epoch + 2));
    assert!(matches!(first.finish(ended(&taken[0])).await, Err(StoreError::Superseded)));
    first.finish(ended(&again[0])).await.unwrap();
}

pub(super) async fn the_state_of_a_run_is_that_of_its_last_commit(open: Open<'_>) {
    let gone = open("gone");
    let (with, without) = (running(), running());
    gone.begin(with.clone(), Some(b"begun"[..].into())).await.unwrap();
    let commit = TurnRecord { begin: None, ..first_turn(&with, b"turn") };
    gone.commit_turn(commit.clone()).await.unwrap();
    gone.commit_turn(TurnRecord { turn: 1, first_position: 1, state: None, ..commit }).await.unwrap();
    gone.begin(without.clone(), None).await.unwrap();
    gone.close().await;
    let finder = open("finder");
    let found = finder.take_orphaned(10).await.unwrap();
    let state = |run: &ResponseRecord| {
        found.iter().find(|orphan| orphan.lease.id == run.lease.id).unwrap().state.as_deref()
    };
    assert_eq!((state(&with), state(&without)), (Some(&b"turn"[..]), None));
}

pub(super) async fn a_restarted_process_finds_its_own_runs_as_orphans(open: Open<'_>) {
    let before = open("same");
    let run = running();
    before.begin(run.clone(), None).await.unwrap();
    drop(before);
    let after = open("same");
    let mine = running();
    after.begin(mine.clone(), None).await.unwrap();
    let found = after.take_orphaned(10).await.unwrap();
    let ids: Vec<_> = found.iter().map(|orphan| &orphan.lease.id).collect();
    assert_eq!(ids, [&run.lease.id], "what it has begun itself is none");
    after.finish(ended(&found[0])).await.unwrap();
    after.finish(ResponseRecord { status: ResponseStatus::Completed, ..mine }).await.unwrap();
    assert!(after.take_orphaned(10).await.unwrap().is_empty());
}

pub(super) async fn a_deleted_run_is_no_orphan(open: Open<'_>) {
    let runs = left(open, 3).await;
    let finder = open("finder");
    assert!(finder.delete(&owner(), runs[1].lease.id.as_str()).await.unwrap());
    let found: HashSet<_> =
        finder.take_orphaned(10).await.unwrap().into_iter().map(|orphan| orphan.lease.id).collect();
    assert_eq!(found, [&runs[0], &runs[2]].map(|run| run.lease.id.clone()).into());
}

pub(super) async fn an_orphan_that_is_deleted_after_it_was_taken_stays_deleted(open: Open<'_>) {
    left(open, 1).await;
    let finder = open("finder");
    let found = finder.take_orphaned(10).await.unwrap();
    assert!(finder.delete(&owner(), found[0].lease.id.as_str()).await.unwrap());
    finder.finish(ended(&found[0])).await.unwrap();
    assert!(!exists(&*finder, &found[0]).await);
}
