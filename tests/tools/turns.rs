//! What goes from one turn to the next: to the provider, to the journal, and to those who continue.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ask, call, calls, gateway, gateway_with, kinds};
use antwort_test_support::gateway::Builder;
use antwort_test_support::upstream::{Reply, Upstream};

fn messages(upstream: &Upstream, request: usize) -> Vec<Value> {
    upstream.requests()[request].body["messages"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_later_turn_does_not_rewrite_what_the_provider_has_seen() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    upstream.reply(calls(&["noop", "fails"])).reply(call("noop")).text("Done.");
    gateway.create(ask(json!({}))).await;
    let (second, third) = (messages(&upstream, 1), messages(&upstream, 2));
    assert_eq!(third[..second.len()], second, "the calls of two turns are two messages");
    let roles: Vec<_> = third.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant", "tool"]);
}

#[tokio::test]
async fn required_among_allowed_tools_binds_the_first_inference_only() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    upstream.reply(call("noop")).text("Done.");
    let choice = json!({"type": "allowed_tools", "mode": "required",
        "tools": [{"type": "mcp", "server_label": "antwort"}]});
    gateway.create(ask(json!({"tool_choice": choice}))).await;
    let choices: Vec<_> =
        upstream.requests().iter().map(|request| request.body["tool_choice"].clone()).collect();
    assert_eq!(choices, [json!("required"), Value::Null]);
}

#[tokio::test]
async fn turns_that_called_only_what_they_must_not_are_counted_in_a_row() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    for _ in 0..4 {
        upstream.reply(call("nobody_has_it")).reply(call("noop"));
    }
    upstream.text("Done.");
    assert_eq!(gateway.create(ask(json!({}))).await["status"], "completed");
}

#[tokio::test]
async fn a_call_that_is_replayed_to_its_own_continuation_is_shown_once() {
    let upstream = Upstream::spawn().await;
    for dialect in ["openai", "open_responses"] {
        let (gateway, _) = gateway(&upstream).await;
        let gateway = gateway.with_header("antwort-dialect", dialect);
        upstream.reply(call("noop")).text("Done.");
        let first = gateway.create(ask(json!({}))).await;
        upstream.text("Again.");
        let input = json!([first["output"][0], {"role": "user", "content": "And?"}]);
        let again = json!({"model": "test-model", "previous_response_id": first["id"], "input": input});
        gateway.create(again).await;
        let messages = upstream.last()["messages"].as_array().unwrap().clone();
        let made = messages.iter().filter(|message| message["role"] == "tool").count();
        assert_eq!(made, 1, "{dialect}: {messages:#?}");
    }
}

#[tokio::test]
async fn an_overflow_in_a_later_turn_is_met_too() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    let error = json!({"error": {"message": "This model's maximum context length is 10 tokens.",
        "type": "invalid_request_error", "code": "context_length_exceeded"}});
    let overflow = Reply::Status(400, vec![("content-type", "application/json")], error.to_string());
    upstream.reply(call("noop")).reply(overflow).text("Done.");
    let input = json!([{"role": "user", "content": "one ".repeat(50)}, {"role": "user", "content": "two"}]);
    let response = gateway.stream(ask(json!({"input": input, "truncation": "auto"}))).await.response;
    assert_eq!(response["status"], "completed", "{response:#}");
    assert_eq!(seen.count("noop"), 1);
}

#[tokio::test]
async fn a_hidden_call_is_not_stored_before_its_result_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("antwort.db");
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway_with(&upstream, |builder: Builder| builder.database(path.clone())).await;
    upstream.reply(call("noop")).reply(call("hang"));
    let hidden = json!({"antwort": {"stream_visibility": "hidden"}});
    let stream = gateway.open_stream(ask(hidden)).await;
    while seen.count("hang") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let database = rusqlite::Connection::open(&path).unwrap();
    let mut statement = database.prepare("SELECT CAST(items AS TEXT) FROM turns ORDER BY turn").unwrap();
    let stored: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    // After a crash the last turn's calls are taken from the journal.
    let stored = stored.concat();
    assert_eq!(stored.matches("function_call").count(), 1, "{stored}");
    assert!(stored.contains("mcp_call") && stored.contains("\"ok\""), "{stored}");
    drop(stream);
}

#[tokio::test]
async fn the_model_is_told_of_calls_that_a_cancelled_run_left_half_way() {
    for visibility in ["full", "items", "hidden"] {
        let upstream = Upstream::spawn().await;
        let (gateway, seen) = gateway(&upstream).await;
        upstream.reply(calls(&["hang", "writes"]));
        let asked = ask(json!({"antwort": {"stream_visibility": visibility, "limits": {"max_seconds": 1}}}));
        let first = gateway.stream(asked).await.response;
        assert_eq!(first["incomplete_details"]["reason"], "max_seconds");
        assert_eq!(seen.count("writes"), 1);
        upstream.text("Again.");
        let again = json!({"model": "test-model", "previous_response_id": first["id"], "input": "And?"});
        gateway.create(again).await;
        let messages = upstream.last()["messages"].as_array().unwrap().clone();
        let told = messages.iter().filter(|message| message["role"] == "tool");
        let told: Vec<_> = told.map(|message| message["content"].as_str().unwrap()).collect();
        assert_eq!(told.len(), 2, "{visibility}: {messages:#?}");
        assert!(told.iter().all(|text| text.contains("may have been executed")), "{told:?}");
    }
}

#[tokio::test]
async fn without_parallel_calls_only_the_first_call_of_a_turn_is_made() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    upstream.reply(calls(&["noop", "echo"])).text("Done.");
    let response = gateway.create(ask(json!({"parallel_tool_calls": false}))).await;
    assert_eq!(kinds(&response), ["mcp_call", "message"]);
    assert_eq!(response["output"][0]["name"], "noop");
    let asked = upstream.last();
    assert_eq!(asked["parallel_tool_calls"], false);
    let results = asked["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool");
    assert_eq!(results.count(), 1, "the other one is not spoken of: the model may make it in its next turn");
}
