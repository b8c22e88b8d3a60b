//! Callbacks: single use, for one call, known by nothing but their token.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ask, callback, follow_up, gateway, made, report};
use antwort_test_support::eventually;
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::{Reply, Upstream};

fn code(answer: &antwort_test_support::gateway::HttpAnswer) -> (u16, Value) {
    (answer.status, answer.body["error"]["code"].clone())
}

#[tokio::test]
async fn a_callback_counts_once_and_a_forged_one_never() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    let id = gateway.create(ask(&upstream)).await["id"].as_str().unwrap().to_owned();
    let path = callback(&server);
    for (body, expected) in [
        (json!({}), (400, json!("missing_required_parameter"))),
        (json!({"output": "a", "error": "b"}), (400, json!("mutually_exclusive_parameters"))),
        (json!({"error": 5}), (400, json!("invalid_type"))),
        (json!({"output": "a", "call_id": "b"}), (400, json!("unknown_parameter"))),
    ] {
        assert_eq!(code(&report(&gateway, &path, &body).await), expected, "{body}");
    }
    let (before, token) = path.rsplit_once('/').unwrap();
    let flipped = if token.starts_with('A') { "B" } else { "A" };
    for forged in ["x", "", &format!("{flipped}{}", &token[1..]), &token[..token.len() - 4]] {
        let refused = report(&gateway, &format!("{before}/{forged}"), &json!({"output": "forged"})).await;
        assert_eq!(refused.status, 404, "{forged}: {}", refused.body);
    }
    upstream.text("Three.");
    for output in ["three", "three", "four"] {
        assert_eq!(report(&gateway, &path, &json!({"output": output})).await.status, 200);
    }
    follow_up(&gateway, &id).await;
    assert!(eventually(async || made(&gateway, &id).await["output"] == "three").await);
    assert_eq!(report(&gateway, &path, &json!({"output": "four"})).await.status, 200);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(made(&gateway, &id).await["output"], "three");
    assert_eq!(upstream.requests().len(), 3, "one response follows");
    gateway.delete(&format!("/v1/responses/{id}")).await;
    assert_eq!(report(&gateway, &path, &json!({"output": "five"})).await.status, 404);
}

#[tokio::test]
async fn a_callback_has_an_end_and_so_has_the_call() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.returns("add", super::started());
    let gateway = gateway(&upstream, &server, "follow_up")
        .set(|settings| settings.tools.callback_timeout = Duration::from_millis(900))
        .spawn()
        .await;
    let id = gateway.create(ask(&upstream)).await["id"].as_str().unwrap().to_owned();
    let calls = server.calls();
    let url = calls.last().unwrap().meta["antwort/callback"]["url"].as_str().unwrap();
    let path = url.strip_prefix("https://gateway.example.com").unwrap().to_owned();
    assert!(eventually(async || made(&gateway, &id).await["status"] == "failed").await);
    let call = made(&gateway, &id).await;
    assert!(call["error"].to_string().contains("timed out"), "{call}");
    let late = report(&gateway, &path, &json!({"output": "late"})).await;
    assert_eq!(code(&late), (410, json!("callback_expired")));
    assert_eq!(upstream.requests().len(), 2, "nothing follows");
}

/// The tool reports before its call has returned, and before the response has ended.
#[tokio::test]
async fn a_result_that_overtakes_its_call_waits_for_the_end_of_the_response() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.delay("tools/call", Duration::from_millis(400));
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    let body = ask(&upstream);
    upstream.text("Three.");
    let early = async {
        assert!(eventually(async || !server.calls().is_empty()).await);
        report(&gateway, &callback(&server), &json!({"output": "three"})).await.status
    };
    let (response, status) = tokio::join!(gateway.create(body), early);
    assert_eq!(status, 200);
    let id = response["id"].as_str().unwrap();
    follow_up(&gateway, id).await;
    assert_eq!(made(&gateway, id).await["output"], "three");
}

#[tokio::test]
async fn a_result_behind_a_cancellation_is_shown_and_nothing_follows() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    upstream.reply(Reply::Calls(vec![("add", json!({"a": 1, "b": 2}))]));
    upstream.reply(Reply::Silence);
    let body = json!({"model": "test-model", "input": "Add.", "background": true,
        "tools": [{"type": "mcp", "server_label": "shop", "require_approval": "never"}]});
    let id = gateway.create(body).await["id"].as_str().unwrap().to_owned();
    assert!(eventually(async || upstream.requests().len() == 2).await);
    let cancelled = gateway.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.body);
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
    assert!(eventually(async || made(&gateway, &id).await["output"] == "three").await);
    let response = gateway.get(&format!("/v1/responses/{id}")).await.body;
    assert_eq!(response["status"], "cancelled", "{response:#}");
    assert_eq!(upstream.requests().len(), 2, "nothing follows");
}

#[tokio::test]
async fn a_result_is_shortened_as_any_other_and_a_huge_one_refused() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "store").spawn().await;
    let id = gateway.create(ask(&upstream)).await["id"].as_str().unwrap().to_owned();
    let path = callback(&server);
    let huge = report(&gateway, &path, &json!({"output": "x".repeat(40 << 20)})).await;
    assert_eq!(huge.status, 413, "{}", huge.body);
    assert_eq!(report(&gateway, &path, &json!({"output": "x".repeat(1 << 20)})).await.status, 200);
    assert!(eventually(async || made(&gateway, &id).await["status"] == "completed").await);
    let output = made(&gateway, &id).await["output"].as_str().unwrap().to_owned();
    assert!(output.len() <= 64 << 10 && output.contains("left out"), "{}", output.len());
}
