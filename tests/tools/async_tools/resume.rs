//! Responses that wait at their end for the results of tools whose work goes on.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ask, callback, gateway, made, report};
use antwort_test_support::eventually;
use antwort_test_support::fleet::Fleet;
use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::openapi;
use antwort_test_support::upstream::{Reply, Upstream};

/// The response, once it has ended.
pub(super) async fn ended(gateway: &Gateway, id: &str) -> Value {
    let mut response = Value::Null;
    let has_ended = eventually(async || {
        response = gateway.get(&format!("/v1/responses/{id}")).await.body;
        response["status"] != "in_progress" && response["status"] != "queued"
    });
    assert!(has_ended.await, "{response:#}");
    response
}

/// Whether a run is a row that waits.
pub(super) async fn waits(gateway: &Gateway) -> bool {
    let text = reqwest::get(format!("{}/metrics", gateway.base)).await.unwrap().text().await.unwrap();
    text.lines().any(|line| line == "antwort_runs_waiting 1")
}

/// Begins a background response whose tool goes on, and waits until it waits.
async fn waiting(gateway: &Gateway, mut body: Value) -> String {
    body["background"] = json!(true);
    let id = gateway.create(body).await["id"].as_str().unwrap().to_owned();
    assert!(eventually(async || waits(gateway).await).await);
    let response = gateway.get(&format!("/v1/responses/{id}")).await.body;
    assert_eq!(response["status"], "in_progress", "{response:#}");
    id
}

#[tokio::test]
async fn a_background_response_waits_for_the_result_and_goes_on_with_it() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "resume").spawn().await;
    let id = waiting(&gateway, ask(&upstream)).await;
    upstream.text("The sum is three.");
    let path = callback(&server);
    for _ in 0..2 {
        assert_eq!(report(&gateway, &path, &json!({"output": "three"})).await.status, 200);
    }
    let response = ended(&gateway, &id).await;
    openapi::assert_response(&response);
    assert_eq!(response["status"], "completed");
    let texts: Vec<_> =
        response["output"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
    assert_eq!(texts, ["mcp_list_tools", "mcp_call", "message", "message"], "{response:#}");
    assert!(text_of(&response).ends_with("The sum is three."), "{response:#}");
    let messages = upstream.last()["messages"].clone();
    let messages = messages.as_array().unwrap();
    let before = messages[messages.len() - 2].to_string();
    assert!(before.contains("It was started."), "{messages:#?}");
    let last = messages.last().unwrap()["content"].to_string();
    assert!(last.contains("The tool add") && last.contains("three"), "{last}");
    assert!(eventually(async || made(&gateway, &id).await["output"] == "three").await);
    // Nothing follows by itself, and whoever continues sees the result as that of the call.
    upstream.text("Yes.");
    gateway.create(json!({"model": "test-model", "input": "Sure?", "previous_response_id": id})).await;
    assert_eq!(upstream.requests().len(), 4);
    let messages = upstream.last()["messages"].to_string();
    assert!(
        messages.contains(r#""content":"three""#) && messages.contains("The sum is three."),
        "{messages}"
    );
}

#[tokio::test]
async fn a_result_that_came_before_the_end_is_not_waited_for() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "resume").spawn().await;
    upstream.reply(Reply::Calls(vec![("add", json!({"a": 1, "b": 2}))]));
    upstream
        .reply(Reply::After(Duration::from_millis(700), Box::new(Reply::Text("It was started.".to_owned()))));
    upstream.text("What a pity.");
    let body = json!({"model": "test-model", "input": "Add.", "background": true,
        "tools": [{"type": "mcp", "server_label": "shop", "require_approval": "never"}]});
    let id = gateway.create(body).await["id"].as_str().unwrap().to_owned();
    assert!(eventually(async || upstream.requests().len() == 2).await);
    assert_eq!(report(&gateway, &callback(&server), &json!({"error": "no numbers"})).await.status, 200);
    let response = ended(&gateway, &id).await;
    assert!(text_of(&response).ends_with("What a pity."), "{response:#}");
    let last = upstream.last()["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    assert!(last.contains("has failed") && last.contains("no numbers"), "{last}");
}

#[tokio::test]
async fn a_result_that_does_not_come_is_a_timeout() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "resume")
        .set(|settings| settings.tools.callback_timeout = Duration::from_secs(1))
        .spawn()
        .await;
    upstream.reply(Reply::Calls(vec![("add", json!({"a": 1, "b": 2}))]));
    upstream.text("It was started.");
    upstream.text("It did not come.");
    let body = json!({"model": "test-model", "input": "Add.", "background": true,
        "tools": [{"type": "mcp", "server_label": "shop", "require_approval": "never"}]});
    let id = gateway.create(body).await["id"].as_str().unwrap().to_owned();
    let response = ended(&gateway, &id).await;
    assert!(text_of(&response).ends_with("It did not come."), "{response:#}");
    let last = upstream.last()["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    assert!(last.contains("timed out"), "{last}");
}

#[tokio::test]
async fn a_response_that_waits_for_a_result_can_be_cancelled_and_takes_no_answers() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "resume").spawn().await;
    let id = waiting(&gateway, ask(&upstream)).await;
    let answer = json!({"call_id": "async:0:0", "output": "four"});
    let answered = gateway.post(&format!("/v1/responses/{id}/inputs"), &answer).await;
    assert_eq!((answered.status, &answered.body["error"]["code"]), (409, &json!("input_not_pending")));
    gateway.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await;
    let response = ended(&gateway, &id).await;
    let kinds: Vec<_> =
        response["output"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
    assert_eq!(
        (&response["status"], kinds),
        (&json!("cancelled"), vec![json!("mcp_list_tools"), json!("mcp_call"), json!("message")])
    );
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn a_call_that_was_required_is_not_required_again_behind_the_wait() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "resume").spawn().await;
    let mut body = ask(&upstream);
    body["tool_choice"] = json!("required");
    let id = waiting(&gateway, body).await;
    upstream.text("The sum is three.");
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
    assert_eq!(ended(&gateway, &id).await["status"], "completed");
    assert_ne!(upstream.last()["tool_choice"], "required");
    assert_eq!(server.calls().len(), 1);
}

/// Two waits: the model reads each result where it was told of it.
#[tokio::test]
async fn results_stay_in_their_places_across_further_waits() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "resume").spawn().await;
    let id = waiting(&gateway, ask(&upstream)).await;
    upstream.reply(Reply::Calls(vec![("add", json!({"a": 3, "b": 4}))]));
    upstream.text("The second was started.");
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
    assert!(eventually(async || upstream.requests().len() == 4).await);
    upstream.text("Three and seven.");
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "seven"})).await.status, 200);
    let response = ended(&gateway, &id).await;
    assert!(text_of(&response).ends_with("Three and seven."), "{response:#}");
    let messages = upstream.last()["messages"].to_string();
    let places: Vec<_> = ["It was started.", "result:\\n\\nthree", "The second was", "result:\\n\\nseven"]
        .iter()
        .map(|text| messages.find(text).unwrap_or_else(|| panic!("{text} in {messages}")))
        .collect();
    assert!(places.is_sorted(), "{places:?}: {messages}");
    assert_eq!(messages.matches("three").count(), 1, "{messages}");
}

#[tokio::test]
async fn a_response_that_pauses_or_may_not_go_on_does_not_wait() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "resume").spawn().await;
    let mut body = ask(&upstream);
    body["background"] = json!(true);
    body["antwort"] = json!({"limits": {"max_turns": 2}});
    let id = gateway.create(body).await["id"].as_str().unwrap().to_owned();
    assert_eq!(ended(&gateway, &id).await["status"], "completed");
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
    let is_stored = async || super::made(&gateway, &id).await["output"] == "three";
    assert!(antwort_test_support::eventually(is_stored).await);
    assert_eq!(upstream.requests().len(), 2, "its turns are used up, also for a response that follows");
    upstream.text("The sum is three.");
    gateway.create(json!({"model": "test-model", "input": "And?", "previous_response_id": id})).await;
    let told = upstream.last()["messages"].to_string();
    assert!(told.contains("three"), "whoever continues reads the result: {told}");

    upstream.reply(Reply::Calls(vec![("add", json!({"a": 1, "b": 2}))]));
    upstream.reply(Reply::Calls(vec![("look_up", json!({}))]));
    let look_up = json!({"type": "function", "name": "look_up", "parameters": {"type": "object"}});
    let body = json!({"model": "test-model", "input": "Add.", "background": true, "antwort": {"client_action_status": "completed"},
        "tools": [{"type": "mcp", "server_label": "shop", "require_approval": "never"}, look_up]});
    let id = gateway.create(body).await["id"].as_str().unwrap().to_owned();
    assert_eq!(ended(&gateway, &id).await["status"], "completed");
}

#[tokio::test]
async fn a_response_that_cannot_wait_is_followed() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "resume").spawn().await;
    let response = gateway.create(ask(&upstream)).await;
    let id = response["id"].as_str().unwrap();
    upstream.text("The sum is three.");
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
    assert_eq!(text_of(&super::follow_up(&gateway, id).await), "The sum is three.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_was_told_of_a_result_lets_the_response_of_another_go_on() {
    let fleet = Fleet::new().await;
    let server = McpServer::spawn().await;
    server.returns("add", super::started());
    let replica =
        async || fleet.builder().set(|settings| super::allow(settings, &server, "resume")).spawn().await;
    let first = replica().await;
    let id = waiting(&first, ask(&fleet.upstream)).await;
    let second = replica().await;
    drop(first);
    fleet.upstream.text("The sum is three.");
    assert_eq!(report(&second, &callback(&server), &json!({"output": "three"})).await.status, 200);
    let response = ended(&second, &id).await;
    assert!(text_of(&response).ends_with("The sum is three."), "{response:#}");
    assert_eq!(fleet.upstream.requests().len(), 3);
}
