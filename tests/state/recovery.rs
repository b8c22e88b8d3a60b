//! Runs whose process is gone, at each point where it may be: what the next process makes of them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use antwort::store::Store;
use antwort_engine::Recovery;
use antwort_response::seal::SealKeys;
use antwort_store_sqlite::{Location, SqliteOptions, SqliteStore};
use secrecy::SecretBox;
use serde_json::{Value, json};

use antwort_test_support::eventually;
use antwort_test_support::gateway::{Builder, Gateway, frames_so_far};
use antwort_test_support::halting_store::{Halt, HaltingStore};
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish, usage};

/// The key with which both processes seal.
const KEY: [u8; 32] = [7; 32];

fn gateway(upstream: &Upstream) -> Builder {
    Gateway::with_upstream(upstream).set(|settings| {
        settings.seal.keys = vec![Arc::new(SecretBox::new(Box::new(KEY)))];
        settings.store.lease = Duration::from_millis(1);
    })
}

fn request() -> Value {
    json!({"model": "test-model", "input": "Go.", "tools": [{"type": "mcp", "server_label": "antwort"}]})
}

/// The store of the process after the crash.
fn reopened(file: &Path) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(SqliteOptions::new(Location::File(file.to_owned()), "halting")).unwrap())
}

/// Receives of a stream until nothing more comes for a while.
async fn receive(stream: &mut reqwest::Response, text: &mut String) {
    while let Ok(Ok(Some(piece))) = tokio::time::timeout(Duration::from_millis(300), stream.chunk()).await {
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
}

/// Starts a gateway on a runtime of its own, lets a client stream until `halted`, and then stops the runtime, so that
/// nothing of the gateway is polled again. Returns the events that the client was sent.
async fn crash(builder: Builder, halted: impl Future<Output = ()>) -> Vec<Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let gateway = runtime.spawn(builder.spawn()).await.unwrap();
    let mut text = String::new();
    let mut stream = gateway.open_stream(request()).await;
    tokio::join!(receive(&mut stream, &mut text), halted);
    receive(&mut stream, &mut text).await;
    runtime.shutdown_background();
    frames_so_far(&text)
}

fn sequence_numbers(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect()
}

fn ids(response: &Value) -> Vec<&str> {
    response["output"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_dies_between_a_call_and_its_outcome_is_ended_by_the_next_process_through_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("antwort.db");
    let upstream = Upstream::spawn().await;
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "one"})), ("noop", json!({}))]));
    upstream.reply(Reply::Calls(vec![("noop", json!({})), ("hang", json!({})), ("noop", json!({"n": 2}))]));
    let (builder, seen) = gateway(&upstream).database(file.clone()).probe();
    let hangs = async { assert!(eventually(async || seen.count("hang") == 1).await) };
    let sent = crash(builder, hangs).await;

    let store = reopened(&file);
    let keys = SealKeys::new(&[KEY.to_vec()]).unwrap();
    let recovered = Recovery::new(Arc::clone(&store) as Arc<dyn Store>, keys).run().await.unwrap();
    let [run] = &recovered[..] else { panic!("{recovered:?}") };
    assert_eq!(run.id.as_str(), sent[0]["response"]["id"]);
    let ends: Vec<Value> = run
        .events
        .iter()
        .map(|event| {
            let mut bytes = Vec::new();
            antwort_protocol::event::EventEncoder::default().write_sse(event, &mut bytes);
            frames_so_far(std::str::from_utf8(&bytes).unwrap()).remove(0)
        })
        .collect();
    // The second process goes on from the commit of the turn: what the client was sent since, it makes again alike.
    let committed = usize::try_from(ends[0]["sequence_number"].as_u64().unwrap()).unwrap();
    let (before, since) = sent.split_at(committed);
    assert_eq!(ends[..since.len()], *since);
    // Both together are one legal stream.
    let whole = [before, &ends].concat();
    let expected: Vec<u64> = (0..whole.len() as u64).collect();
    assert_eq!(sequence_numbers(&whole), expected);
    let response = antwort_test_support::stream_validator::assert_valid_stream(&whole).response;
    assert_eq!(response["status"], "failed");
    assert_eq!(response["error"]["code"], "server_restarted");
    let calls: Vec<_> =
        response["output"].as_array().unwrap().iter().map(|item| (&item["name"], &item["status"])).collect();
    let expected = [
        ("echo", "completed"),
        ("noop", "completed"),
        ("noop", "completed"),
        ("hang", "failed"),
        ("noop", "completed"),
    ];
    assert_eq!(calls.len(), expected.len(), "{response:#}");
    for ((name, status), (expected_name, expected_status)) in calls.into_iter().zip(expected) {
        assert_eq!((name, status), (&json!(expected_name), &json!(expected_status)), "{response:#}");
    }
    let mut unique = ids(&response);
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), 5, "{response:#}");
    store.close().await;
    drop(store);

    let second = gateway(&upstream).database(file).probe().0.spawn().await;
    let stored = second.get(&format!("/v1/responses/{}", run.id)).await.body;
    assert_eq!(stored, response, "the row is what the events say");
    upstream.text("So be it.");
    let on = json!({"model": "test-model", "input": "And?", "previous_response_id": run.id.as_str()});
    assert_eq!(second.create(on).await["status"], "completed");
    assert_eq!(seen.count("hang"), 1, "no call is made again");
}

/// A stream of some words, for long enough to have a row.
fn long_answer() -> Reply {
    let mut steps = vec![chunk(json!({"content": "Hel"})), Step::Wait(Duration::from_millis(700))];
    steps.extend([chunk(json!({"content": "lo"})), finish("stop"), usage(1, 2), done()]);
    Reply::Stream(steps)
}

#[tokio::test(flavor = "multi_thread")]
async fn wherever_a_process_dies_the_next_one_ends_the_response_once() {
    for (halt, status, items) in [
        (Halt::AfterCreation, "failed", 0),
        (Halt::AfterTurn, "failed", 1),
        (Halt::BeforeFinish, "failed", 1),
        (Halt::AfterFinish, "completed", 2),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("antwort.db");
        let upstream = Upstream::spawn().await;
        if halt != Halt::AfterCreation {
            upstream.reply(Reply::Calls(vec![("noop", json!({}))]));
        }
        upstream.reply(long_answer());
        let store = HaltingStore::open(&file, halt);
        let (builder, _) = gateway(&upstream).store(store.store()).probe();
        let sent = crash(builder, store.reached()).await;
        assert_eq!(sequence_numbers(&sent), (0..sent.len() as u64).collect::<Vec<_>>(), "{halt:?}");
        let ends = |event: &&Value| {
            event["type"].as_str().unwrap().ends_with("ed")
                && event["response"]["status"] != "in_progress"
                && event["response"].is_object()
        };
        assert_eq!(sent.iter().find(ends), None, "{halt:?}: no terminal event was sent");
        let id = sent[0]["response"]["id"].as_str().unwrap().to_owned();
        assert!(eventually(async || store.is_released()).await, "the first process holds nothing");
        drop(store);

        for restart in 0..2 {
            let next = gateway(&upstream).database(file.clone()).probe().0.spawn().await;
            let response = next.get(&format!("/v1/responses/{id}")).await.body;
            assert_eq!(response["status"], status, "{halt:?}, start {restart}: {response:#}");
            assert_eq!(response["output"].as_array().unwrap().len(), items, "{halt:?}: {response:#}");
            let listed = next.get("/v1/responses").await.body;
            assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{halt:?}: {listed:#}");
            next.stop().await;
        }
    }
}

/// Orphans whose ending took long once kept a process from renewing the leases of its own runs, and from stopping.
#[tokio::test]
async fn leases_are_renewed_and_a_stop_is_seen_while_orphans_are_ended() {
    let folder = tempfile::tempdir().unwrap();
    let store = HaltingStore::open(&folder.path().join("antwort.db"), Halt::InRecovery);
    let upstream = Upstream::spawn().await;
    let often = |settings: &mut antwort::config::Settings| {
        settings.store.maintenance_interval = Duration::from_millis(10);
    };
    let gateway = gateway(&upstream).set(often).store(store.store()).spawn().await;
    store.reached().await;
    let before = store.maintained();
    assert!(eventually(async || store.maintained() > before + 2).await);
    gateway.stop().await;
}
