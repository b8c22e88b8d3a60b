//! Conversations: a small request must not bring a gateway to hold, and a provider to be sent, whatever was stored before.

use std::time::Duration;

use antwort::config::Settings;
use serde_json::{Value, json};

use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::{Reply, Upstream};

const MAX: usize = 300_000;

async fn gateway(upstream: &Upstream, change: impl FnOnce(&mut Settings)) -> Gateway {
    let small = |settings: &mut Settings| settings.engine.max_conversation_bytes = MAX;
    Gateway::with_upstream(upstream).set(small).set(change).spawn().await
}

fn ask(input: impl Into<Value>, previous: &Value) -> Value {
    json!({"model": "test-model", "input": input.into(), "previous_response_id": previous})
}

fn text(bytes: usize) -> String {
    "x".repeat(bytes)
}

/// The newest response of a chain whose input has so many parts of this size.
async fn chain(gateway: &Gateway, parts: usize, bytes: usize) -> Value {
    let mut last = Value::Null;
    for _ in 0..parts {
        last = gateway.create(ask(text(bytes), &last)).await["id"].clone();
    }
    last
}

fn assert_names_the_limit(error: &Value) {
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("300000 bytes") && message.contains("engine.max_conversation_bytes"),
        "{message}"
    );
}

#[tokio::test]
async fn a_conversation_that_is_too_large_is_refused_before_the_provider_is_asked() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |_| ()).await;
    let last = chain(&gateway, 4, 70_000).await;
    let asked = upstream.requests().len();
    for body in [ask(text(30_000), &last), ask(json!([{"role": "user", "content": text(30_000)}]), &last)] {
        let error = gateway.refuse(body.clone(), 400, "context_length_exceeded").await;
        assert_eq!(error["param"], "previous_response_id");
        assert_names_the_limit(&error);
        let compaction = gateway.post("/v1/responses/compact", &body).await;
        assert_eq!((compaction.status, &compaction.body["error"]["code"]), (400, &error["code"]));
    }
    assert_eq!(upstream.requests().len(), asked);
    gateway.create(ask("It still fits.", &last)).await;
}

#[tokio::test]
async fn an_input_that_is_larger_than_a_conversation_may_be_is_refused() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |_| ()).await;
    let body = json!({"model": "test-model", "input": text(MAX + 1)});
    let error = gateway.refuse(body, 400, "context_length_exceeded").await;
    assert_eq!(error["param"], "input");
    assert_names_the_limit(&error);
}

#[tokio::test]
async fn an_item_counts_as_often_as_it_is_referred_to() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |_| ()).await;
    let stored = json!([{"role": "user", "content": text(40_000), "id": "msg_1"}]);
    gateway.create(json!({"model": "test-model", "input": stored})).await;
    let refer = |times: usize| {
        let reference = json!({"type": "item_reference", "id": "msg_1"});
        json!({"model": "test-model", "input": vec![reference; times]})
    };
    gateway.create(refer(7)).await;
    let error = gateway.refuse(refer(8), 400, "context_length_exceeded").await;
    assert_eq!(error["param"], "input");
    assert_names_the_limit(&error);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_hold_no_more_of_stored_conversations_than_two_of_the_largest_twice() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |s| s.server.queue_timeout = Duration::from_millis(500)).await;
    let last = chain(&gateway, 4, 70_000).await;
    let asked = upstream.requests().len();
    upstream.always(Reply::Silence);
    let mut streams = Vec::new();
    for _ in 0..2 {
        streams.push(gateway.open_stream(ask("x", &last)).await);
    }
    assert!(streams.iter().all(|stream| stream.status() == 200));
    for _ in 0..2 {
        let error = gateway.refuse(ask("x", &last), 503, "server_is_overloaded").await;
        assert!(error["message"].as_str().unwrap().contains("engine.max_conversation_bytes"), "{error}");
    }
    assert_eq!(upstream.requests().len(), asked + 2);
    // Small ones need no share, and each run gives back what it held.
    drop(streams.pop());
    let (_, again) = tokio::join!(
        gateway.open_stream(json!({"model": "test-model", "input": "x"})),
        gateway.open_stream(ask("x", &last))
    );
    assert_eq!(again.status(), 200);
}
