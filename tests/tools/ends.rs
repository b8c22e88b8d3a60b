//! Every way in which a run with tools ends.

use std::time::Duration;

use antwort::config::{ModelPrice, OnError, ToolOverride};
use serde_json::{Value, json};

use super::{ask, call, calls, gateway, gateway_with, kinds};
use antwort_test_support::gateway::text_of;
use antwort_test_support::transcript::transcript;
use antwort_test_support::upstream::{Reply, Upstream, chunk, done, finish};

/// What the model was told of its last calls.
fn told(upstream: &Upstream) -> Vec<String> {
    let messages = upstream.last()["messages"].as_array().unwrap().clone();
    let tools = messages.iter().rev().take_while(|message| message["role"] == "tool");
    let mut texts: Vec<String> =
        tools.map(|message| message["content"].as_str().unwrap().to_owned()).collect();
    texts.reverse();
    texts
}

#[tokio::test]
async fn a_final_answer_after_a_call() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    for streamed in [false, true] {
        upstream.reply(Reply::Calls(vec![("echo", json!({"a": 1}))])).text("Done.");
        let response = match streamed {
            false => gateway.create(ask(json!({}))).await,
            true => gateway.stream(ask(json!({}))).await.response,
        };
        assert_eq!(response["status"], "completed");
        assert_eq!(kinds(&response), ["mcp_call", "message"]);
        let call = &response["output"][0];
        assert_eq!((&call["name"], &call["server_label"]), (&json!("echo"), &json!("antwort")));
        assert_eq!((&call["status"], &call["output"]), (&json!("completed"), &json!("{\"a\":1}")));
        assert_eq!(call["arguments"], "{\"a\":1}");
        assert_eq!(text_of(&response), "Done.");
        assert_eq!(told(&upstream), ["{\"a\":1}"]);
    }
    assert_eq!(seen.count("echo"), 2);
    let requests = upstream.requests();
    assert_eq!(requests.len(), 4);
    assert_eq!(requests[0].body["tools"], requests[1].body["tools"], "the same tools in every turn");
}

#[tokio::test]
async fn usage_is_the_sum_of_all_turns() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    upstream.text("Hi.");
    let one = gateway.create(ask(json!({}))).await["usage"]["total_tokens"].as_u64().unwrap();
    upstream.reply(call("noop")).reply(call("noop")).text("Hi.");
    let three = gateway.create(ask(json!({}))).await["usage"]["total_tokens"].as_u64().unwrap();
    assert_eq!(three, 3 * one);
}

#[tokio::test]
async fn each_turn_is_an_answer_of_its_own_to_the_provider() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    upstream.reply(call("noop")).reply(calls(&["noop", "echo"])).text("Done.");
    gateway.create(ask(json!({}))).await;
    let messages = upstream.last()["messages"].as_array().unwrap().clone();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "tool", "tool"]);
}

#[tokio::test]
async fn a_clients_function_pauses_the_run() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    upstream.reply(call("ask_user"));
    let response = gateway.create(ask(json!({}))).await;
    assert_eq!(response["status"], "requires_action");
    assert_eq!(kinds(&response), ["function_call"]);
}

#[tokio::test]
async fn in_a_mixed_turn_the_gateway_runs_its_calls_and_the_client_its_own() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    for order in [["ask_user", "noop"], ["noop", "ask_user"]] {
        upstream.reply(calls(&order));
        let first = gateway.stream(ask(json!({}))).await.response;
        assert_eq!(first["status"], "requires_action");
        let function =
            first["output"].as_array().unwrap().iter().find(|item| item["type"] == "function_call");
        let call_id = &function.unwrap()["call_id"];
        let again = |input: Value| json!({"model": "test-model", "previous_response_id": first["id"], "input": input});
        gateway.refuse(again(json!("And?")), 400, "tool_output_not_found").await;
        upstream.text("Thanks.");
        let output = json!([{"type": "function_call_output", "call_id": call_id, "output": "yes"}]);
        let second = gateway.create(again(output)).await;
        assert_eq!(second["status"], "completed");
        let mut told = told(&upstream);
        told.sort();
        assert_eq!(told, ["ok", "yes"], "both calls of the turn are answered");
    }
    assert_eq!(seen.count("noop"), 2, "a resume runs nothing again");
}

#[tokio::test]
async fn what_goes_wrong_with_a_call_is_for_the_model() {
    let upstream = Upstream::spawn().await;
    let change = |builder: antwort_test_support::gateway::Builder| {
        builder.set(|settings| {
            let timeout =
                ToolOverride { timeout: Some(Duration::from_millis(50)), ..ToolOverride::default() };
            settings.tools.overrides.insert("hang".into(), timeout);
            settings.tools.retry.max = 0;
        })
    };
    let (gateway, _) = gateway_with(&upstream, change).await;
    for (tool, code, words) in [
        ("fails", "tool_execution_failed", "it does not work"),
        ("says_error", "tool_execution_failed", "no such thing"),
        ("panics", "tool_panicked", "crashed"),
        ("hang", "tool_timeout", "timed out after 50ms"),
        ("unavailable", "tool_unavailable", "not there"),
        ("needs", "invalid_arguments", "n"),
    ] {
        upstream.reply(call(tool)).text("Sorry.");
        let response = gateway.stream(ask(json!({}))).await.response;
        assert_eq!(response["status"], "completed", "{tool}");
        let item = &response["output"][0];
        assert_eq!((&item["status"], &item["error"]["code"]), (&json!("failed"), &json!(code)), "{tool}");
        let text = item["error"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(words), "{tool}: {text}");
        assert_eq!(told(&upstream), [format!("Error: {text}")], "{tool}");
        assert!(!response.to_string().contains("secret cause"));
        assert!(!text.contains("a bug in the tool"));
    }
}

#[tokio::test]
async fn malformed_arguments_are_for_the_model() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    let begin = json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
        "function": {"name": "noop", "arguments": "{\"a\": "}}]});
    upstream.reply(Reply::Stream(vec![chunk(begin), finish("tool_calls"), done()])).text("Once more.");
    let response = gateway.stream(ask(json!({}))).await.response;
    assert_eq!(response["output"][0]["error"]["code"], "invalid_arguments");
    assert_eq!(response["output"][0]["arguments"], "{\"a\": ", "as the model wrote them");
    assert_eq!((response["status"].as_str(), seen.count("noop")), (Some("completed"), 0));
}

#[tokio::test]
async fn unknown_and_disallowed_tools_are_told_to_the_model_and_never_run() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    upstream.reply(call("no_such_tool")).text("Then not.");
    assert_eq!(kinds(&gateway.create(ask(json!({}))).await), ["message"]);
    assert!(told(&upstream)[0].contains("no_such_tool"));
    upstream.reply(calls(&["noop", "echo"])).text("Well.");
    let allowed = json!({"tool_choice": {"type": "allowed_tools", "mode": "auto",
        "tools": [{"type": "mcp", "server_label": "antwort", "name": "echo"}]}});
    let response = gateway.create(ask(allowed)).await;
    assert_eq!(kinds(&response), ["mcp_call", "message"]);
    assert_eq!((seen.count("noop"), seen.count("echo")), (0, 1));
    assert!(told(&upstream).iter().any(|text| text.contains("not among the allowed tools")));
}

#[tokio::test]
async fn calls_of_a_turn_keep_their_order() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    upstream.reply(calls(&["slow", "noop", "fails"])).text("Done.");
    let response = gateway.stream(ask(json!({}))).await.response;
    let names: Vec<_> = response["output"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
    assert_eq!(names[..3], ["slow", "noop", "fails"]);
    assert_eq!(told(&upstream), ["slow", "ok", "Error: it does not work"]);
}

#[tokio::test]
async fn each_limit_ends_the_run_and_is_named() {
    let upstream = Upstream::spawn().await;
    let price = ModelPrice { input: 1e6, cached_input: None, output: 1e6 };
    let change = |builder: antwort_test_support::gateway::Builder| {
        builder.provider(|provider| {
            provider.prices.insert("*".into(), price);
        })
    };
    let (gateway, seen) = gateway_with(&upstream, change).await;
    for (limits, reason) in [
        (json!({"max_turns": 2}), "max_turns"),
        (json!({"max_total_tokens": 1}), "max_total_tokens"),
        (json!({"max_cost_usd": 0.5}), "max_cost_usd"),
        (json!({"max_identical_calls": 1}), "max_identical_calls"),
    ] {
        upstream.reply(call("noop")).reply(call("noop"));
        let response = gateway.stream(ask(json!({"antwort": {"limits": limits}}))).await.response;
        assert_eq!(response["status"], "incomplete", "{reason}");
        assert_eq!(response["incomplete_details"]["reason"], reason);
        assert!(response["antwort"]["limits"]["max_turns"].is_number(), "the limits as they hold are shown");
        // What was not used must not answer the next request.
        while upstream.requests().len() % 2 == 1 {
            gateway.create(json!({"model": "test-model", "input": "drain"})).await;
        }
    }
    upstream.reply(call("hang"));
    let response = gateway.stream(ask(json!({"antwort": {"limits": {"max_seconds": 0.2}}}))).await.response;
    assert_eq!(response["incomplete_details"]["reason"], "max_seconds");
    assert_eq!(response["output"][0]["status"], "incomplete");
    assert_eq!((seen.count("hang"), seen.cancelled()), (1, 1), "the tool was given up");
}

#[tokio::test]
async fn calls_beyond_the_limit_are_no_items_and_leave_one_last_inference() {
    let upstream = Upstream::spawn().await;
    for dialect in ["openai", "open_responses"] {
        let (gateway, seen) = gateway(&upstream).await;
        let gateway = gateway.with_header("antwort-dialect", dialect);
        for visibility in ["full", "items", "hidden"] {
            let limited = json!({"max_tool_calls": 2, "antwort": {"stream_visibility": visibility}});
            upstream.reply(calls(&["noop", "noop", "echo"])).text("That is all I know.");
            let streamed = gateway.stream(ask(limited.clone())).await;
            upstream.reply(calls(&["noop", "noop", "echo"])).text("That is all I know.");
            let response = gateway.create(ask(limited)).await;
            for response in [&response, &streamed.response] {
                assert_eq!(response["status"], "completed");
                assert_eq!(kinds(response).len(), 3, "{dialect} {visibility}: {response:#}");
                assert!(!response["output"].to_string().contains("echo"));
                assert_eq!(text_of(response), "That is all I know.");
            }
            assert!(streamed.events.iter().all(|event| event["item"]["name"] != "echo"));
            assert_eq!(upstream.last()["tool_choice"], "none");
            assert_eq!(told(&upstream)[..2], ["ok", "ok"]);
            assert_eq!(told(&upstream)[2], "Error: skipped: the limit of tool calls is reached");
            // Whoever continues shows the model its turn as it was.
            let again =
                json!({"model": "test-model", "previous_response_id": response["id"], "input": "And?"});
            gateway.create(again).await;
            let messages = upstream.last()["messages"].as_array().unwrap().clone();
            assert_eq!(messages.iter().filter(|message| message["role"] == "tool").count(), 3);
        }
        assert_eq!((seen.count("noop"), seen.count("echo")), (12, 0));
    }
}

#[tokio::test]
async fn a_call_beyond_the_limit_leaves_no_event_in_a_stream() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    upstream.reply(calls(&["noop", "echo"])).text("Done.");
    let streamed = gateway.stream(ask(json!({"max_tool_calls": 1}))).await;
    insta::assert_snapshot!("call_beyond_limit", transcript(&streamed.events));
}

#[tokio::test]
async fn calls_that_were_never_made_leave_the_limit_to_others() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    // Bad arguments, and a tool that there is not.
    upstream.reply(call("needs")).reply(call("no_such_tool")).reply(call("noop")).reply(call("noop"));
    upstream.text("Done.");
    let response = gateway.stream(ask(json!({"max_tool_calls": 1}))).await.response;
    assert_eq!((response["status"].as_str(), seen.count("noop")), (Some("completed"), 1));
    assert_eq!(kinds(&response), ["mcp_call", "mcp_call", "message"]);
    assert_eq!(response["antwort"]["turns"], 5);
    assert_eq!(upstream.last()["tool_choice"], "none");
}

#[tokio::test]
async fn the_clients_calls_pass_beyond_the_limit() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    upstream.reply(calls(&["noop", "noop", "ask_user"]));
    let first = gateway.stream(ask(json!({"max_tool_calls": 1}))).await.response;
    assert_eq!((first["status"].as_str(), seen.count("noop")), (Some("requires_action"), 1));
    assert_eq!(kinds(&first), ["mcp_call", "function_call"]);
    let output =
        json!([{"type": "function_call_output", "call_id": first["output"][1]["call_id"], "output": "yes"}]);
    let again = json!({"model": "test-model", "previous_response_id": first["id"], "input": output});
    assert_eq!(gateway.create(again).await["status"], "completed");
}

#[tokio::test]
async fn a_model_that_repeats_itself_is_stopped_by_default() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    upstream.always(Reply::Calls(vec![("echo", json!({"b": 1, "a": 2}))]));
    let response = gateway.create(ask(json!({}))).await;
    assert_eq!(response["incomplete_details"]["reason"], "max_identical_calls");
    assert_eq!(seen.count("echo"), 6);
}

#[tokio::test]
async fn failures_in_a_row_end_the_run() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    upstream.always(call("fails"));
    let response = gateway.stream(ask(json!({}))).await.response;
    assert_eq!(
        (&response["status"], &response["error"]["code"]),
        (&json!("failed"), &json!("tool_failures_exceeded"))
    );
    assert_eq!(seen.count("fails"), 3);
    upstream.reply(call("fails")).reply(call("fails")).reply(call("noop")).reply(call("fails"));
    upstream.reply(calls(&["fails", "noop"])).text("Phew.");
    upstream.always(Reply::Text("Phew.".into()));
    assert_eq!(
        gateway.create(ask(json!({}))).await["status"],
        "completed",
        "a success begins the count anew"
    );
}

#[tokio::test]
async fn a_fatal_error_fails_the_response() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    upstream.reply(call("fatal"));
    let response = gateway.stream(ask(json!({}))).await.response;
    assert_eq!(
        (&response["status"], &response["error"]["code"]),
        (&json!("failed"), &json!("storage_error"))
    );
    assert_eq!(response["output"][0]["status"], "incomplete");
}

#[tokio::test]
async fn what_becomes_of_a_failure_is_a_setting() {
    let upstream = Upstream::spawn().await;
    for (on_error, status, output) in [
        (OnError::Fail, "failed", json!("incomplete")),
        (OnError::Skip, "completed", json!("incomplete")),
        (OnError::Fallback("noop".into()), "completed", json!("completed")),
    ] {
        let change = |builder: antwort_test_support::gateway::Builder| {
            let on_error = on_error.clone();
            builder.set(|settings| {
                let own = ToolOverride { on_error: Some(on_error), ..ToolOverride::default() };
                settings.tools.overrides.insert("fails".into(), own);
            })
        };
        let (gateway, _) = gateway_with(&upstream, change).await;
        upstream.reply(call("fails"));
        if status == "completed" {
            upstream.text("On we go.");
        }
        let response = gateway.stream(ask(json!({}))).await.response;
        assert_eq!(response["status"], status, "{on_error:?}");
        assert_eq!(response["output"][0]["status"], output, "{on_error:?}");
        if status == "failed" {
            assert_eq!(response["error"]["code"], "tool_execution_failed");
        }
        if on_error == OnError::Skip {
            assert!(told(&upstream)[0].contains("Answer without it"));
        }
    }
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_tools_along() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    upstream.reply(call("hang"));
    let mut stream = gateway.open_stream(ask(json!({}))).await;
    let mut text = String::new();
    while !text.contains("mcp_call_arguments.done") {
        text.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    let id = text.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    while seen.count("hang") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(stream);
    while seen.cancelled() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stored = loop {
        let answer = gateway.get(&format!("/v1/responses/{id}")).await;
        if answer.status == 200 && answer.body["status"] != "in_progress" {
            break answer.body;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(stored["status"], "cancelled");
    assert_eq!(stored["output"][0]["status"], "incomplete");
}

#[tokio::test]
async fn single_shot_leaves_the_calls_to_the_client() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    upstream.reply(call("noop"));
    let response = gateway.create(ask(json!({"antwort": {"execute_tools": false}}))).await;
    assert_eq!(response["status"], "completed");
    assert_eq!(kinds(&response), ["function_call"]);
    assert_eq!((response["output"][0]["name"].as_str(), seen.count("noop")), (Some("noop"), 0));
}

#[tokio::test]
async fn a_forced_choice_binds_the_first_turn_only() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    upstream.reply(call("noop")).text("Done.");
    let forced = json!({"tool_choice": {"type": "mcp", "server_label": "antwort", "name": "noop"}});
    assert_eq!(gateway.create(ask(forced)).await["status"], "completed");
    let requests = upstream.requests();
    assert_eq!(requests[0].body["tool_choice"]["function"]["name"], "noop");
    assert_eq!(requests[1].body.get("tool_choice"), None);
}

#[tokio::test]
async fn a_call_without_a_result_is_unknown_to_a_continuation_and_not_forgotten() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    for visibility in ["full", "hidden"] {
        upstream.reply(calls(&["hang", "writes"]));
        let options = json!({"limits": {"max_seconds": 0.2}, "stream_visibility": visibility});
        let cut = gateway.stream(ask(json!({"antwort": options}))).await.response;
        assert_eq!(cut["incomplete_details"]["reason"], "max_seconds", "{visibility}");
        upstream.text("I see.");
        let again = json!({"model": "test-model", "previous_response_id": cut["id"], "input": "And?"});
        gateway.create(again).await;
        let messages = upstream.last()["messages"].as_array().unwrap().clone();
        let told: Vec<_> = messages.iter().filter(|message| message["role"] == "tool").collect();
        assert_eq!(told.len(), 2, "{visibility}: {messages:#?}");
        assert!(told.iter().all(|m| m["content"].as_str().unwrap().contains("may have been executed")));
    }
    assert_eq!(seen.count("writes"), 2);
}

#[tokio::test]
async fn denied_turns_end_a_run_only_one_after_the_other() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    for _ in 0..3 {
        upstream.reply(call("nope")).reply(call("nope")).reply(call("noop"));
    }
    upstream.text("Done.");
    let response = gateway.create(ask(json!({}))).await;
    assert_eq!(response["status"], "completed");
    upstream.always(call("nope"));
    let error = gateway.post("/v1/responses", &ask(json!({}))).await;
    assert_eq!(error.body["error"]["code"], "tool_not_allowed", "{}", error.body);
}
