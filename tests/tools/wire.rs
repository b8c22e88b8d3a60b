//! What clients see: golden transcripts of a run with tools, by visibility and dialect.

use antwort::config::{ToolVisibility, UserMessages};
use serde_json::{Value, json};

use super::{ask, call, calls, gateway, gateway_with, kinds};
use antwort_test_support::upstream::{Reply, Upstream};

/// Types of the events, deltas of one item folded into one.
fn types(events: &[Value]) -> Vec<String> {
    let mut types: Vec<String> =
        events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    types.dedup();
    types
}

#[tokio::test]
async fn hidden_tools_give_the_events_of_plain_text() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    upstream.reply(Reply::Calls(vec![("echo", json!({"a": 1}))])).text("Done.");
    let streamed = gateway.stream(ask(json!({"antwort": {"stream_visibility": "hidden"}}))).await;
    assert_eq!(
        types(&streamed.events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    assert_eq!(kinds(&streamed.response), ["function_call", "message"]);
    assert_eq!(streamed.response["status"], "completed");
    upstream.text("Still there.");
    let id = &streamed.response["id"];
    gateway.create(json!({"model": "test-model", "previous_response_id": id, "input": "And?"})).await;
    let messages = upstream.last()["messages"].clone();
    assert_eq!(messages[2]["content"], "{\"a\":1}", "the model still knows the result: {messages:#}");
}

#[tokio::test]
async fn full_shows_every_step_one_item_after_the_other() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    upstream.reply(calls(&["noop", "fails"])).text("Done.");
    let streamed = gateway.stream(ask(json!({}))).await;
    let call = |end: &str| {
        [
            "response.output_item.added",
            "response.mcp_call.in_progress",
            "response.mcp_call_arguments.delta",
            "response.mcp_call_arguments.done",
            end,
            "response.output_item.done",
        ]
        .map(String::from)
    };
    let seen = types(&streamed.events);
    assert_eq!(seen[2..8], call("response.mcp_call.completed"));
    assert_eq!(seen[8..14], call("response.mcp_call.failed"));
    assert_eq!(streamed.events.iter().filter(|event| event["type"] == "error").count(), 0);
}

#[tokio::test]
async fn items_shows_beginning_and_end_only() {
    let upstream = Upstream::spawn().await;
    let change = |builder: antwort_test_support::gateway::Builder| {
        builder.set(|s| s.tools.stream_visibility = ToolVisibility::Items)
    };
    let (gateway, _) = gateway_with(&upstream, change).await;
    upstream.reply(call("noop")).text("Done.");
    let streamed = gateway.stream(ask(json!({}))).await;
    assert_eq!(types(&streamed.events)[2..4], ["response.output_item.added", "response.output_item.done"]);
    assert_eq!(kinds(&streamed.response), ["mcp_call", "message"]);
}

#[tokio::test]
async fn the_open_responses_dialect_has_an_item_of_its_own_that_comes_back() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    let gateway = gateway.with_header("antwort-dialect", "open_responses");
    upstream.reply(calls(&["noop", "fails"])).text("Done.");
    let response = gateway.stream(ask(json!({"store": false}))).await.response;
    assert_eq!(kinds(&response), ["antwort:tool_call", "antwort:tool_call", "message"]);
    assert_eq!(response["output"][0]["output"], "ok");
    assert_eq!(
        response["output"][1]["error"],
        json!({"code": "tool_execution_failed", "message": "it does not work"})
    );
    let mut input = vec![json!({"role": "user", "content": "Go."})];
    input.extend(response["output"].as_array().unwrap().clone());
    input.push(json!({"role": "user", "content": "Again?"}));
    gateway.create(json!({"model": "test-model", "input": input, "store": false})).await;
    let messages = upstream.last()["messages"].clone();
    assert_eq!(messages[2]["content"], "ok");
    assert_eq!(messages[3]["content"], "Error: it does not work");
}

#[tokio::test]
async fn an_mcp_call_that_comes_back_is_known_to_the_model() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    upstream.reply(calls(&["noop", "fails"])).text("Done.");
    let response = gateway.create(ask(json!({"store": false}))).await;
    let mut input = response["output"].as_array().unwrap().clone();
    input.push(json!({"role": "user", "content": "Again?"}));
    gateway.create(ask(json!({"input": input, "store": false}))).await;
    let messages = upstream.last()["messages"].clone();
    assert_eq!(messages[0]["tool_calls"][0]["function"]["name"], "noop");
    assert_eq!(messages[1]["content"], "ok");
    assert_eq!(messages[2]["content"], "Error: it does not work");
    assert_eq!(seen.count("noop"), 1);
}

#[tokio::test]
async fn what_a_tool_tells_the_user_is_an_item_where_that_is_wanted() {
    let upstream = Upstream::spawn().await;
    for (setting, expected) in [
        (UserMessages::Off, &["mcp_call", "message"][..]),
        (UserMessages::Item, &["mcp_call", "antwort:user_message", "message"][..]),
    ] {
        let change = |builder: antwort_test_support::gateway::Builder| {
            builder.set(|s| s.tools.user_messages = setting)
        };
        let (gateway, _) = gateway_with(&upstream, change).await;
        upstream.reply(call("tells")).text("Done.");
        let response = gateway.stream(ask(json!({}))).await.response;
        assert_eq!(kinds(&response), expected);
        assert!(!upstream.last().to_string().contains("for your eyes"), "the model never sees it");
    }
}

#[tokio::test]
async fn a_silent_result_says_nothing_to_the_user() {
    let upstream = Upstream::spawn().await;
    let change = |builder: antwort_test_support::gateway::Builder| {
        builder.set(|settings| settings.tools.user_messages = UserMessages::Item)
    };
    let (gateway, _) = gateway_with(&upstream, change).await;
    upstream.reply(calls(&["whispers", "tells"])).text("Done.");
    let response = gateway.create(ask(json!({}))).await;
    assert_eq!(kinds(&response), ["mcp_call", "mcp_call", "antwort:user_message", "message"]);
    assert_eq!(response["output"][2]["name"], "tells");
}

#[tokio::test]
async fn text_and_reasoning_beside_calls_go_back_to_the_model_in_their_order() {
    use antwort_test_support::upstream::{chunk, done, finish};
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    let calls = json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
        "function": {"name": "noop", "arguments": "{}"}}]});
    upstream
        .reply(Reply::Stream(vec![
            chunk(json!({"reasoning_content": "Let me see."})),
            chunk(json!({"content": "I look it up."})),
            chunk(calls),
            finish("tool_calls"),
            done(),
        ]))
        .text("Done.");
    let response = gateway.stream(ask(json!({}))).await.response;
    assert_eq!(kinds(&response), ["reasoning", "message", "mcp_call", "message"]);
    let messages = upstream.last()["messages"].clone();
    assert_eq!(messages[1]["content"], "I look it up.");
    assert_eq!(messages[1]["reasoning_content"], "Let me see.");
    assert_eq!(messages[1]["tool_calls"].as_array().unwrap().len(), 1);
    assert_eq!(messages[2]["role"], "tool");
}
