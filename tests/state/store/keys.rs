//! Keys that are made from ids, and the tables that lead from items' ids to their responses.

use antwort::protocol::id::{Id, IdGenerator};
use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    CallOutcome, Direction, JournaledCall, Lease, ModelView, Owner, PageRequest, ReadLimit, ResponseFilter,
    ResponseRecord, ResponseStore, RunLog, StateKey, Store, StoreError, StoredItem, StoredState, TurnRecord,
};

use serde_json::{Value, json};

use super::{Folder, message_json, owned_by, owner, record, running, text, texts, turn};
use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::Upstream;

/// A response whose id was made at the same moment as those of other numbers, so that their keys collide.
fn colliding(number: u32, previous: Option<&ResponseRecord>) -> ResponseRecord {
    let id = format!("resp_{:012x}700080000000{number:08x}", 1_795_435_200_000_i64);
    let lease = Lease::first(id.into());
    ResponseRecord { lease, ..turn(previous, &format!("q{number}"), &format!("a{number}")) }
}

fn item(id: Id, direction: Direction, text: &str) -> StoredItem {
    let wire = message_json(&id, direction, text);
    StoredItem { id, direction, wire, model_view: ModelView::Same, state: None }
}

/// A response all of whose items have ids that the gateway made.
fn named(text: &str) -> ResponseRecord {
    let mut ids = IdGenerator::new();
    let lease = Lease::first(ids.response());
    let items = vec![
        item(ids.next("msg"), Direction::Input, &format!("{text}?")),
        item(ids.next("msg"), Direction::Output, text),
    ];
    ResponseRecord { lease, items, ..record() }
}

async fn found(store: &dyn Store, id: &Id) -> Option<String> {
    let found = store.items(&owner(), std::slice::from_ref(id), ReadLimit::UNLIMITED).await.unwrap();
    found[0].as_ref().map(text)
}

async fn listed(store: &dyn Store, ascending: bool, after: Option<&ResponseRecord>) -> Vec<Id> {
    let after = after.map(|record| record.lease.id.to_string());
    let page = PageRequest { limit: 100, ascending, after, before: None, max_bytes: u64::MAX };
    store
        .responses(&owner(), &page, &ResponseFilter::default())
        .await
        .unwrap()
        .data
        .into_iter()
        .map(|(id, _)| id)
        .collect()
}

#[tokio::test]
async fn responses_whose_keys_collide_are_told_apart_and_deleted_one_by_one() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let mut all: Vec<ResponseRecord> = Vec::new();
    for number in 0..8 {
        let next = colliding(number, all.last());
        store.finish(next.clone()).await.unwrap();
        all.push(next);
    }
    assert_eq!(texts(&store, &all[7]).await.unwrap().len(), 16);
    let one_more = colliding(8, None);
    let refused = store.finish(one_more.clone()).await.unwrap_err();
    assert!(refused.to_string().contains("are taken"), "{refused}");
    assert!(!store.is_impaired(), "only this one is refused");
    assert!(store.delete(&owner(), all[0].lease.id.as_str()).await.unwrap());
    assert!(store.delete(&owner(), all[3].lease.id.as_str()).await.unwrap());
    for (number, record) in all.iter().enumerate() {
        let body = store.response(&owner(), record.lease.id.as_str(), u64::MAX).await.unwrap();
        assert_eq!(body.is_some(), number != 0 && number != 3, "{number}");
    }
    assert!(matches!(
        store.lineage(&owner(), all[7].lease.id.as_str(), ReadLimit::UNLIMITED).await,
        Err(StoreError::BrokenChain { missing }) if missing == all[3].lease.id
    ));
    store.finish(one_more.clone()).await.unwrap();
    assert_eq!(texts(&store, &one_more).await.unwrap(), ["q8", "a8"]);
    assert!(
        matches!(store.finish(all[1].clone()).await, Err(StoreError::Superseded)),
        "it is found behind a gap"
    );
    assert_eq!(folder.number("SELECT count(*) FROM responses"), 7);
}

#[tokio::test]
async fn a_list_goes_on_behind_a_deleted_response_whose_key_collides() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let all: Vec<_> = (0..4).map(|number| colliding(number, None)).collect();
    for record in &all {
        store.finish(record.clone()).await.unwrap();
    }
    let ids =
        |numbers: &[usize]| numbers.iter().map(|number| all[*number].lease.id.clone()).collect::<Vec<_>>();
    assert_eq!(listed(&store, true, Some(&all[1])).await, ids(&[2, 3]));
    assert_eq!(listed(&store, false, Some(&all[2])).await, ids(&[1, 0]));
    store.delete(&owner(), all[2].lease.id.as_str()).await.unwrap();
    for ascending in [true, false] {
        let listed = listed(&store, ascending, Some(&all[2])).await;
        for number in [0, 1, 3] {
            assert!(listed.contains(&all[number].lease.id), "none is left out, {ascending}: {listed:?}");
        }
    }
}

#[tokio::test]
async fn running_responses_whose_keys_collide_are_written_by_their_own_runs() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let runs: Vec<_> = (0..3)
        .map(|number| ResponseRecord { status: ResponseStatus::InProgress, ..colliding(number, None) })
        .collect();
    let call = JournaledCall { server_label: "antwort".into(), tool: "noop".into(), arguments: "{}".into() };
    for (number, run) in runs.iter().enumerate() {
        store.begin(run.clone(), None).await.unwrap();
        let turn = TurnRecord {
            lease: run.lease.clone(),
            begin: None,
            items: Vec::new(),
            first_position: 2,
            turn: 0,
            calls: vec![call.clone()],
            pending: Vec::new(),
            awaited: Vec::new(),
            state: None,
        };
        store.commit_turn(turn).await.unwrap();
        let output = number.to_string();
        store.record_tool_result(CallOutcome {
            lease: run.lease.clone(),
            turn: 0,
            index: 0,
            output,
            error: None,
        });
    }
    assert!(store.delete(&owner(), runs[0].lease.id.as_str()).await.unwrap());
    for run in &runs {
        store.finish(ResponseRecord { status: ResponseStatus::Completed, ..run.clone() }).await.unwrap();
    }
    assert_eq!(texts(&store, &runs[0]).await, None);
    assert_eq!(texts(&store, &runs[2]).await.unwrap(), ["q2", "a2"]);
    let outputs = "SELECT group_concat(output) FROM (SELECT output FROM tool_calls ORDER BY response)";
    let outputs: String = folder.sql().query_row(outputs, [], |row| row.get(0)).unwrap();
    assert_eq!(outputs, "1,2");
}

#[tokio::test]
async fn items_whose_ids_name_their_response_need_no_row_of_their_own() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let first = named("first");
    store.finish(first.clone()).await.unwrap();
    assert_eq!(folder.number("SELECT count(*) FROM item_ids"), 0);
    let (asked, answered) = (&first.items[0].id, &first.items[1].id);
    assert_eq!(found(&store, asked).await.as_deref(), Some("first?"));
    assert_eq!(found(&store, answered).await.as_deref(), Some("first"));
    let theirs = store
        .items(&owned_by("acme", "bob"), std::slice::from_ref(answered), ReadLimit::UNLIMITED)
        .await
        .unwrap();
    assert_eq!(theirs, [None]);
    let other = Id::from(format!("{answered}0").as_str());
    assert_eq!(found(&store, &other).await, None, "no item of its response has it");

    // A client replays it: of two with one id the newest is found.
    let mut replay = named("second");
    replay.items[0] = item(answered.clone(), Direction::Input, "replayed");
    store.finish(replay.clone()).await.unwrap();
    assert_eq!(folder.number("SELECT count(*) FROM item_ids"), 1);
    assert_eq!(found(&store, answered).await.as_deref(), Some("replayed"));
    assert!(store.delete(&owner(), first.lease.id.as_str()).await.unwrap());
    assert_eq!(found(&store, answered).await.as_deref(), Some("replayed"), "though its own response is gone");
    assert!(store.delete(&owner(), replay.lease.id.as_str()).await.unwrap());
    assert_eq!(found(&store, answered).await, None);
    assert_eq!(folder.number("SELECT count(*) FROM item_ids"), 0);
}

#[tokio::test]
async fn an_input_item_without_an_id_is_found_by_the_one_that_its_response_gave_it() {
    let folder = Folder::new();
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).database(folder.path()).spawn().await;
    let ask = |input: Value| json!({"model": "test-model", "input": input});
    let response = gateway.create(ask(json!([{"role": "user", "content": "Remember this."}]))).await;
    let id = response["id"].as_str().unwrap();
    let items = gateway.get(&format!("/v1/responses/{id}/input_items")).await.body;
    let item = items["data"][0]["id"].as_str().unwrap();
    assert!(item.contains(id.trim_start_matches("resp_")), "{item} names {id}");
    assert_eq!(folder.number("SELECT count(*) FROM item_ids"), 0);
    gateway.create(ask(json!([{"type": "item_reference", "id": item}]))).await;
    assert!(upstream.last()["messages"].to_string().contains("Remember this."));
}

#[tokio::test]
async fn states_of_items_whose_ids_name_their_response_need_no_row_of_their_own() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let mut first = named("first");
    let key = StateKey::new(&owner(), first.items[1].id.as_str());
    first.items[1].state = Some(StoredState { key: key.clone(), blob: "sealed".into() });
    store.finish(first.clone()).await.unwrap();
    assert_eq!(folder.number("SELECT count(*) FROM item_states"), 0);
    let blobs = async |owner: Owner| {
        let read = store.provider_states(&owner, std::slice::from_ref(&key), ReadLimit::UNLIMITED).await;
        read.unwrap().remove(0).into_iter().map(|found| found.blob.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(blobs(owner()).await, ["sealed"]);
    assert!(blobs(owned_by("acme", "bob")).await.is_empty());
    // A copy that another response has needs one, and is the newest.
    let mut second = named("second");
    second.items[0] = StoredItem { direction: Direction::Input, ..first.items[1].clone() };
    second.items[0].state = Some(StoredState { key: key.clone(), blob: "copied".into() });
    store.finish(second.clone()).await.unwrap();
    assert_eq!(folder.number("SELECT count(*) FROM item_states"), 1);
    assert_eq!(blobs(owner()).await, ["copied", "sealed"]);
    assert!(store.delete(&owner(), first.lease.id.as_str()).await.unwrap());
    assert_eq!(blobs(owner()).await, ["copied"]);
    assert!(store.delete(&owner(), second.lease.id.as_str()).await.unwrap());
    assert_eq!(folder.number("SELECT count(*) FROM item_states"), 0);
}

#[tokio::test]
async fn ids_and_states_of_a_response_go_with_it() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let key = StateKey::new(&owner(), "call_0");
    let mut run = running();
    run.items =
        vec![item("asked".into(), Direction::Input, "asked"), item("gone".into(), Direction::Input, "gone")];
    store.begin(run.clone(), None).await.unwrap();
    assert_eq!(found(&store, &"gone".into()).await.as_deref(), Some("gone"));
    let mut ended = ResponseRecord { status: ResponseStatus::Completed, ..run.clone() };
    ended.items[1] = item("fc_0".into(), Direction::Output, "called");
    ended.items[1].state = Some(StoredState { key: key.clone(), blob: "sealed".into() });
    store.finish(ended.clone()).await.unwrap();
    assert_eq!(found(&store, &"asked".into()).await.as_deref(), Some("asked"));
    assert_eq!(found(&store, &"gone".into()).await, None, "its end has it no more");
    let states =
        store.provider_states(&owner(), std::slice::from_ref(&key), ReadLimit::UNLIMITED).await.unwrap();
    assert_eq!((states[0].len(), &*states[0][0].blob), (1, "sealed"));
    let theirs = store.provider_states(&owned_by("acme", "bob"), &[key], ReadLimit::UNLIMITED).await.unwrap();
    assert!(theirs[0].is_empty());
    assert!(store.delete(&owner(), run.lease.id.as_str()).await.unwrap());
    let left = "SELECT (SELECT count(*) FROM item_ids) + (SELECT count(*) FROM item_states)";
    assert_eq!(folder.number(left), 0);
}

#[tokio::test]
async fn a_run_keeps_one_state_and_leaves_its_journal_alone() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let run = running();
    store.begin(run.clone(), Some(b"begun"[..].into())).await.unwrap();
    let call = JournaledCall { server_label: "antwort".into(), tool: "noop".into(), arguments: "{}".into() };
    for number in 0..4 {
        let turn = TurnRecord {
            lease: run.lease.clone(),
            begin: None,
            items: vec![item(format!("msg_{number}").into(), Direction::Output, &number.to_string())],
            first_position: number as usize,
            turn: number,
            calls: vec![call.clone()],
            pending: Vec::new(),
            awaited: Vec::new(),
            state: Some(vec![7; 20_000].into()),
        };
        store.commit_turn(turn).await.unwrap();
        assert_eq!(folder.number("SELECT sum(length(state)) FROM runs"), 20_000);
    }
    assert_eq!(texts(&store, &run).await.unwrap(), ["0", "1", "2", "3"], "what is committed of it is seen");
    store.finish(ResponseRecord { status: ResponseStatus::Completed, ..run }).await.unwrap();
    assert_eq!(folder.number("SELECT (SELECT count(*) FROM turns) + (SELECT count(*) FROM runs)"), 0);
    assert_eq!(folder.number("SELECT count(*) FROM tool_calls"), 4);
}
