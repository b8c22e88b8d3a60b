//! A response that follows the result of a tool is made of the request as it was sent, and what a chain of them uses counts
//! together.

use std::time::Duration;

use antwort::config::Settings;
use serde_json::{Value, json};

use super::{ask, callback, callbacks, follow_up, gateway, made, report};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::openapi;
use antwort_test_support::upstream::{Reply, Upstream};

/// The names of the tools that the server was asked to call.
fn called(server: &McpServer) -> Vec<String> {
    server.calls().into_iter().map(|call| call.tool).collect()
}

fn asking() -> Value {
    json!({"model": "test-model", "input": "Add.", "metadata": {"k": "v"},
        "tools": [{"type": "mcp", "server_label": "shop", "require_approval": "never"}]})
}

fn add(number: u32) -> Reply {
    Reply::Calls(vec![("add", json!({"a": number, "b": 2}))])
}

/// Reports the last call's result, after which the model calls the tool again, and says something. Returns the response that
/// follows.
async fn next(
    gateway: &Gateway,
    upstream: &Upstream,
    server: &McpServer,
    (id, number): (&str, u32),
) -> Value {
    upstream.reply(add(number)).text("Started again.");
    assert_eq!(report(gateway, &callback(server), &json!({"output": "a sum"})).await.status, 200);
    follow_up(gateway, id).await
}

/// Reports the last call's result, which is only stored, as this code of the account says.
async fn ends(gateway: &Gateway, upstream: &Upstream, server: &McpServer, (id, code): (&str, &str)) {
    let asked = upstream.requests().len();
    assert_eq!(report(gateway, &callback(server), &json!({"output": "the last sum"})).await.status, 200);
    assert!(eventually(async || made(gateway, id).await["output"] == "the last sum").await);
    let trace = gateway.get(&format!("/v1/responses/{id}/trace")).await.body;
    openapi::assert_is("ResponseTrace", &trace);
    assert_eq!(trace["turns"][0]["calls"][0]["follow_up_error"], code, "{trace:#}");
    let metrics =
        gateway.http.get(format!("{}/metrics", gateway.base)).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("antwort_follow_ups_total{outcome=\"refused\"} 1\n"), "{metrics}");
    assert_eq!(upstream.requests().len(), asked, "nothing follows by itself");
    upstream.text("So be it.");
    gateway.create(json!({"model": "test-model", "input": "And?", "previous_response_id": id})).await;
    let told = upstream.last()["messages"].to_string();
    assert!(told.contains("the last sum"), "whoever continues reads the result: {told}");
}

#[tokio::test]
async fn a_tool_that_the_request_excludes_is_not_called_by_the_response_that_follows() {
    let only = json!({"type": "mcp", "server_label": "shop", "name": "add"});
    for (field, value) in [
        ("allowed_tools", json!(["add"])),
        ("tool_choice", json!({"type": "allowed_tools", "mode": "required", "tools": [only]})),
        ("tool_choice", only),
    ] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
        let mut body = ask(&upstream);
        body[field] = value;
        let id = gateway.create(body.clone()).await["id"].as_str().unwrap().to_owned();
        upstream.reply(Reply::Calls(vec![("echo", json!({"text": "hello"}))])).text("Then not.");
        assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
        let next = follow_up(&gateway, &id).await;
        assert_eq!(text_of(&next), "Then not.", "{body}");
        assert_eq!(called(&server), ["add"], "{body}");
    }
}

#[tokio::test]
async fn a_call_that_the_request_demands_is_not_demanded_of_the_response_that_follows() {
    for choice in [json!("required"), json!({"type": "mcp", "server_label": "shop", "name": "add"})] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
        let mut body = ask(&upstream);
        body["tool_choice"] = choice.clone();
        let id = gateway.create(body).await["id"].as_str().unwrap().to_owned();
        assert_ne!(upstream.requests()[0].body["tool_choice"], Value::Null, "it is demanded once");
        upstream.text("The sum is three.");
        assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
        // Nothing else would be completed without a call.
        let next = follow_up(&gateway, &id).await;
        assert_eq!(text_of(&next), "The sum is three.", "{choice}");
        assert_eq!((called(&server).len(), upstream.requests().len()), (1, 3), "{choice}");
    }
}

#[tokio::test]
async fn the_response_that_follows_has_all_options_of_its_request() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    upstream.reply(add(1)).text("{}");
    let mut body = asking();
    let options = json!({"temperature": 0.5, "top_p": 0.25, "max_output_tokens": 50, "max_tool_calls": 7,
        "reasoning": {"effort": "low"}, "text": {"format": {"type": "json_object"}}, "truncation": "auto",
        "instructions": "Be short.", "user": "u", "parallel_tool_calls": false, "prompt_cache_key": "p",
        "antwort": {"tool_cache": "bypass", "on_disconnect": "cancel", "limits": {"max_turns": 5, "max_total_tokens": 1000}}});
    body.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let first = gateway.create(body).await;
    let (id, asked) = (first["id"].as_str().unwrap(), upstream.requests()[0].body.clone());
    upstream.text("{}");
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
    let next = follow_up(&gateway, id).await;
    let list = gateway.get(&format!("/v1/responses/{}", next["id"].as_str().unwrap())).await.body;
    openapi::assert_response(&list);
    for (name, value) in first.as_object().unwrap() {
        let is_own = [
            "id",
            "created_at",
            "completed_at",
            "output",
            "usage",
            "previous_response_id",
            "background",
            "antwort",
        ]
        .contains(&name.as_str());
        assert!(is_own || list[name] == *value, "{name}: {} was {value}", list[name]);
    }
    let limits = &list["antwort"]["limits"];
    assert_eq!((&limits["max_turns"], &limits["max_total_tokens"]), (&json!(3), &json!(984)), "what is left");
    assert_eq!(list["antwort"]["tool_cache"], "bypass");
    let again = upstream.last();
    for (name, value) in asked.as_object().unwrap() {
        let is_own = ["messages", "stream", "stream_options"].contains(&name.as_str());
        assert!(is_own || again[name] == *value, "{name}: {} was {value}", again[name]);
    }
}

#[tokio::test]
async fn a_chain_of_responses_ends_at_its_limit() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let set = |settings: &mut Settings| {
        settings.engine.limits.max_follow_ups = 5;
        settings.engine.limits.max_turns = 100;
    };
    let gateway = gateway(&upstream, &server, "follow_up").set(set).spawn().await;
    let mut body = ask(&upstream);
    // A higher one than the configuration's is none.
    body["antwort"] = json!({"limits": {"max_follow_ups": 2}});
    let mut id = gateway.create(body).await["id"].as_str().unwrap().to_owned();
    for number in 1..=2 {
        id = next(&gateway, &upstream, &server, (&id, number)).await["id"].as_str().unwrap().to_owned();
    }
    ends(&gateway, &upstream, &server, (&id, "max_follow_ups")).await;
    assert_eq!(called(&server).len(), 3);
}

#[tokio::test]
async fn no_response_follows_where_none_may() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let set = |settings: &mut Settings| settings.engine.limits.max_follow_ups = 0;
    let gateway = gateway(&upstream, &server, "follow_up").set(set).spawn().await;
    let mut body = ask(&upstream);
    body["antwort"] = json!({"limits": {"max_follow_ups": 9}});
    let response = gateway.create(body).await;
    assert_eq!(response["antwort"]["limits"]["max_follow_ups"], 0, "a request raises nothing");
    ends(&gateway, &upstream, &server, (response["id"].as_str().unwrap(), "max_follow_ups")).await;
}

#[tokio::test]
async fn turns_and_tokens_of_a_request_add_up_over_its_chain() {
    // Each response has two turns of 8 tokens.
    for (limit, most) in [("max_turns", 4), ("max_total_tokens", 32)] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
        let mut body = ask(&upstream);
        body["antwort"] = json!({"limits": {limit: most}});
        let first = gateway.create(body).await["id"].as_str().unwrap().to_owned();
        let second = next(&gateway, &upstream, &server, (&first, 1)).await["id"].as_str().unwrap().to_owned();
        ends(&gateway, &upstream, &server, (&second, limit)).await;
    }
}

#[tokio::test]
async fn calls_of_a_request_add_up_over_its_chain() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    let mut body = ask(&upstream);
    body["max_tool_calls"] = json!(1);
    let id = gateway.create(body).await["id"].as_str().unwrap().to_owned();
    upstream.reply(add(1)).text("No more calls.");
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
    let next = follow_up(&gateway, &id).await;
    assert_eq!(text_of(&next), "No more calls.", "the result is answered all the same");
    assert_eq!(called(&server), ["add"]);
}

/// Together they use what one would: else each would lead to as many as the limit says.
#[tokio::test]
async fn responses_that_follow_results_of_one_response_divide_what_is_left() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let set = |settings: &mut Settings| settings.engine.limits.max_follow_ups = 1;
    let gateway = gateway(&upstream, &server, "follow_up").set(set).spawn().await;
    let two = vec![("add", json!({"a": 1, "b": 2})), ("add", json!({"a": 3, "b": 4}))];
    upstream.reply(Reply::Calls(two)).text("Both were started.");
    let id = gateway.create(asking()).await["id"].as_str().unwrap().to_owned();
    let asked = upstream.requests().len();
    upstream.always(Reply::Text("Thanks.".into()));
    for path in callbacks(&server) {
        assert_eq!(report(&gateway, &path, &json!({"output": "a sum"})).await.status, 200);
    }
    follow_up(&gateway, &id).await;
    let is_told = async || {
        let trace = gateway.get(&format!("/v1/responses/{id}/trace")).await.body;
        trace["turns"][0]["calls"][1]["follow_up_error"] == "max_follow_ups"
    };
    assert!(eventually(is_told).await, "the second is only stored");
    assert_eq!(upstream.requests().len(), asked + 1);
}

/// The tool was not there when the run began, and its result was followed by nothing, without a word.
#[tokio::test]
async fn the_result_of_a_tool_that_a_server_offers_during_the_run_is_followed() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    let all = server.tools();
    server.set_tools(all.iter().filter(|tool| tool["name"] != "add").cloned().collect());
    upstream.reply(Reply::After(
        Duration::from_secs(1),
        Box::new(Reply::Calls(vec![("echo", json!({"text": "hello"}))])),
    ));
    upstream.reply(add(1)).text("It was started.");
    let body = asking();
    let first = gateway.post("/v1/responses", &body);
    let change = async {
        assert!(eventually(async || upstream.requests().len() == 1).await);
        server.change_tools(all);
    };
    let (first, ()) = tokio::join!(first, change);
    assert_eq!(called(&server), ["echo", "add"], "{:#}", first.body);
    let id = first.body["id"].as_str().unwrap();
    upstream.text("Three.");
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
    assert_eq!(text_of(&follow_up(&gateway, id).await), "Three.");
}
