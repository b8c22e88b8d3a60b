//! Who reads the result of a tool whose work has gone on, and where: each history that has the call tells of it once.

use serde_json::{Value, json};

use super::{answer, ask, ask_both, callback, callbacks, follow_up, gateway, made, report};
use antwort_test_support::eventually;
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::{Reply, Upstream};

fn all_of(response: &Value, more: &Value) -> Vec<Value> {
    let mut items = response["output"].as_array().unwrap().clone();
    items.push(more.clone());
    items
}

fn told(upstream: &Upstream) -> String {
    upstream.last()["messages"].to_string()
}

#[tokio::test]
async fn a_response_whose_calls_are_hidden_is_followed() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    let mut body = ask(&upstream);
    body["antwort"] = json!({"stream_visibility": "hidden"});
    let response = gateway.create(body).await;
    assert_eq!(response["output"][0]["type"], "function_call", "{response:#}");
    upstream.text("The sum is three.");
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
    follow_up(&gateway, response["id"].as_str().unwrap()).await;
    assert!(told(&upstream).contains("The tool add"), "{}", told(&upstream));
    // Its client may replay what it was given.
    upstream.text("Yes.");
    let again = all_of(&response, &json!({"role": "user", "content": "Sure?"}));
    let body = json!({"model": "test-model", "input": again, "previous_response_id": response["id"]});
    gateway.create(body).await;
    assert_eq!(told(&upstream).matches(r#""name":"shop__add""#).count(), 1, "{}", told(&upstream));
}

#[tokio::test]
async fn items_are_replayed_as_they_were_given_before_and_behind_the_result() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    let response = gateway.create(ask_both(&upstream)).await;
    let answer = answer(&response)[0].clone();
    let id = response["id"].as_str().unwrap();
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
    for is_settled in [false, true] {
        if is_settled {
            assert!(eventually(async || made(&gateway, id).await["output"] == "three").await);
        }
        let newest = gateway.get(&format!("/v1/responses/{id}")).await.body;
        for given in [&response, &newest] {
            upstream.text("Three.");
            let beside =
                json!({"model": "test-model", "input": all_of(given, &answer), "previous_response_id": id});
            gateway.create(beside).await;
            assert!(told(&upstream).contains(r#""content":"three""#), "{}", told(&upstream));
            // Without what is stored, too.
            upstream.text("Three.");
            let mut items = vec![json!({"role": "user", "content": "Add."})];
            items.extend(all_of(given, &answer));
            gateway.create(json!({"model": "test-model", "input": items})).await;
            let told = told(&upstream);
            assert!(told.contains(r#""content":"three""#) && !told.contains("Started."), "{told}");
        }
    }
    let call = &made(&gateway, id).await["id"];
    upstream.text("Three.");
    let input = json!([{"role": "user", "content": "Add."}, {"type": "item_reference", "id": call},
        {"role": "user", "content": "And?"}]);
    gateway.create(json!({"model": "test-model", "input": input})).await;
    assert!(told(&upstream).contains(r#""content":"three""#), "{}", told(&upstream));
}

#[tokio::test]
async fn a_response_that_follows_one_result_is_continued_with_the_other() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    upstream.reply(Reply::Calls(vec![("add", json!({"a": 1, "b": 2})), ("add", json!({"a": 3, "b": 4}))]));
    upstream.text("Both were started.");
    let tools = json!([{"type": "mcp", "server_label": "shop", "require_approval": "never"}]);
    let first = gateway.create(json!({"model": "test-model", "input": "Add.", "tools": tools})).await;
    let urls = callbacks(&server);
    let id = first["id"].as_str().unwrap();
    upstream.text("The first is three.");
    assert_eq!(report(&gateway, &urls[0], &json!({"output": "three"})).await.status, 200);
    let second = follow_up(&gateway, id).await;
    upstream.text("The second is seven.");
    assert_eq!(report(&gateway, &urls[1], &json!({"output": "seven"})).await.status, 200);
    let is_settled = async || {
        let output = gateway.get(&format!("/v1/responses/{id}")).await.body["output"].clone();
        output.as_array().unwrap().iter().filter(|item| item["status"] == "completed").count() == 3
    };
    assert!(eventually(is_settled).await, "{:#}", gateway.get(&format!("/v1/responses/{id}")).await.body);
    upstream.text("Ten.");
    let on = json!({"model": "test-model", "input": "Together?", "previous_response_id": second["id"]});
    gateway.create(on).await;
    // The other result may be followed meanwhile.
    let requests = upstream.requests().into_iter().map(|request| request.body["messages"].to_string());
    let told = requests.rev().find(|told| told.contains("Together?")).unwrap();
    assert!(told.contains("three") && told.contains(r#""content":"seven""#), "{told}");
    assert_eq!(told.matches("Started.").count(), 1, "that of which a message tells: {told}");
}

#[tokio::test]
async fn a_result_of_a_response_that_a_limit_has_ended_is_read_at_once() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    let mut body = ask(&upstream);
    body["antwort"] = json!({"limits": {"max_turns": 1}});
    let response = gateway.create(body).await;
    assert_eq!(response["status"], "incomplete", "{response:#}");
    let id = response["id"].as_str().unwrap();
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
    gateway.create(json!({"model": "test-model", "input": "And?", "previous_response_id": id})).await;
    assert!(told(&upstream).contains(r#""content":"three""#), "{}", told(&upstream));
    let trace = async || gateway.get(&format!("/v1/responses/{id}/trace")).await.body.to_string();
    assert!(eventually(async || trace().await.contains("response_not_completed")).await, "{}", trace().await);
}
