//! What a response shows of servers and of calls of their tools.

use std::time::Duration;

use serde_json::json;

use super::{ask, before, brought, call, item, kinds};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::Upstream;

#[tokio::test]
async fn a_server_that_a_request_brings_is_listed_and_called() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    for _ in 0..2 {
        upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    }
    for response in gateway.both(ask(json!([brought(&server)]))).await {
        assert_eq!(kinds(&response), ["mcp_list_tools", "mcp_call", "message"], "{response:#}");
        let list = item(&response, "mcp_list_tools");
        assert_eq!(list["server_label"], "s");
        assert_eq!(list["tools"].as_array().unwrap().len(), 11);
        assert_eq!(list["tools"][0]["input_schema"]["required"], json!(["text"]));
        let made = item(&response, "mcp_call");
        assert_eq!(made["server_label"], "s");
        assert_eq!((&made["name"], &made["output"]), (&json!("echo"), &json!("hi")));
        assert_eq!(made["arguments"], r#"{"text":"hi"}"#);
        assert_eq!(response["tools"][0]["headers"], json!(null));
    }
    assert_eq!(server.count("initialize"), 1, "the session is kept");
    assert_eq!(server.count("tools/list"), 1, "and its tools");
}

#[tokio::test]
async fn a_stream_tells_of_the_list_and_of_the_call_step_by_step() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let events = gateway.stream(ask(json!([brought(&server)]))).await.events;
    let names: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.output_item.done",
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
    ];
    assert_eq!(names[..expected.len()], expected);
    let rest: Vec<_> = names.iter().filter(|name| name.contains("mcp_call")).skip(2).collect();
    assert!(
        rest.ends_with(&[&"response.mcp_call_arguments.done", &"response.mcp_call.completed"]),
        "{rest:?}"
    );
    assert_eq!(events[2]["item"]["tools"], json!([]));
    assert_eq!(events[5]["item"]["tools"].as_array().unwrap().len(), 11);
}

#[tokio::test]
async fn failures_are_told_in_the_protocols_own_terms_and_to_the_model() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    server.errors("boom", -32001, "no such thing");
    for (tool, kind) in [("fail", "mcp_tool_execution_error"), ("boom", "mcp_protocol_error")] {
        upstream.reply(call(tool, json!({}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        let made = item(&response, "mcp_call");
        assert_eq!(made["error"]["type"], kind, "{made:#}");
        assert_eq!((&made["status"], &response["status"]), (&json!("failed"), &json!("completed")));
        let told = upstream.last()["messages"].as_array().unwrap().last().unwrap()["content"].clone();
        assert!(told.as_str().unwrap().starts_with("Error: "), "{told}");
    }
    server.status_of("tools/call", 1, (500, &[], "oops"));
    upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["error"]["type"], "http_error", "{response:#}");
    assert_eq!(item(&response, "mcp_call")["error"]["code"], 500);
}

#[tokio::test]
async fn an_identity_is_told_with_each_call_and_the_clients_own_never() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await.with_header("authorization", "Bearer of-the-client");
    upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
    let mut tool = brought(&server);
    tool["headers"] = json!({"x-tenant": "blue"});
    tool["authorization"] = json!("server-token");
    let response = gateway.create(ask(json!([tool]))).await;
    let made = &server.calls()[0];
    let key = made.meta["antwort/idempotency-key"].as_str().unwrap();
    assert!(key.starts_with(response["id"].as_str().unwrap()), "{key}");
    for request in server.requests() {
        let header = |name: &str| request.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header("authorization").as_deref(), Some("Bearer server-token"));
        assert_eq!(header("x-tenant").as_deref(), Some("blue"));
    }
    for request in upstream.requests() {
        assert!(!format!("{:?}", request.headers).contains("of-the-client"));
        assert!(!request.raw.contains("server-token"));
    }
    let shown = response.to_string();
    assert!(!shown.contains("server-token") && !shown.contains("blue"), "{shown}");
}

#[tokio::test]
async fn progress_is_streamed_to_those_who_ask_for_it() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.slow(3, Duration::from_millis(50));
    let gateway = before(&upstream).spawn().await;
    for (wanted, expected) in [(json!(true), 3), (json!(false), 0)] {
        upstream.reply(call("slow", json!({}))).text("Done.");
        let mut body = ask(json!([brought(&server)]));
        body["antwort"] = json!({"tool_progress": wanted});
        let streamed = gateway.stream(body).await;
        let reports: Vec<_> =
            streamed.events.iter().filter(|event| event["type"] == "antwort:tool_progress").collect();
        assert_eq!(reports.len(), expected, "{reports:#?}");
        let made = item(&streamed.response, "mcp_call");
        assert!(
            reports.iter().all(|report| report["item_id"] == made["id"] && report["message"].is_string())
        );
    }
}
