//! Calls that end with questions: the run waits as a row, and the calls are made again with the answers.

use serde_json::{Value, json};

use super::{accept, answered, form, reply, shows};
use crate::{call, item, told};
use antwort_test_support::gateway::{JsonBody, frames, text_of};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::mcp_server::before;
use antwort_test_support::process::Process;
use antwort_test_support::stream::Stream;
use antwort_test_support::stream_validator::{assert_valid_resumed_stream, assert_valid_stream};
use antwort_test_support::upstream::{Reply, Upstream};
use antwort_test_support::{eventually, openapi};

/// The result of `tools/call` of later versions of the protocol that asks.
fn requires(questions: Value, state: &str) -> Value {
    json!({"resultType": "input_required", "inputRequests": questions, "requestState": state})
}

fn which() -> Value {
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Which one?",
        "requestedSchema": {"type": "object", "properties": {"which": {"type": "string"}}}}})
}

/// What the last call was made with, beside name and arguments.
fn last_input(server: &McpServer) -> Value {
    let requests = server.requests();
    let call = requests.iter().rfind(|request| request.body["method"] == "tools/call").unwrap();
    json!({"responses": call.body["params"]["inputResponses"], "state": call.body["params"]["requestState"]})
}

#[tokio::test]
async fn a_call_that_ends_with_questions_is_made_again_with_the_answers() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let age = json!({"method": "elicitation/create", "params": {"message": "How old?",
        "requestedSchema": {"type": "object", "properties": {"age": {"type": "integer"}}}}});
    let url = json!({"method": "elicitation/create", "params": {"mode": "url", "message": "Sign in.",
        "url": "https://login.example/"}});
    server.returns_first("echo", requires(json!({"one": which(), "two": age, "web": url}), "opaque"));
    server.returns_first("echo", requires(json!({"more": which()}), "further"));
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let mut stream = Stream::open(&gateway, &form(&server)).await;
    let questions = stream.until("antwort:input_required", 2).await;
    let id = stream.id();
    let waits = async || {
        let text = reqwest::get(format!("{}/metrics", gateway.base)).await.unwrap().text().await.unwrap();
        text.contains("antwort_runs_active 0\n") && text.contains("antwort_runs_waiting 1\n")
    };
    assert!(eventually(waits).await, "it is a row");
    answered(&gateway, &id, &accept(&questions[0])).await;
    assert_eq!(server.count_calls("echo"), 1, "one answer is missing");
    let age =
        json!({"call_id": questions[1]["call_id"], "output": {"action": "accept", "content": {"age": 12}}});
    answered(&gateway, &id, &age).await;
    let third = stream.until("antwort:input_required", 3).await.remove(2);
    assert_eq!(
        last_input(&server),
        json!({"state": "opaque", "responses": {
            "one": {"action": "accept", "content": {"which": "the red one"}},
            "two": {"action": "accept", "content": {"age": 12}}, "web": {"action": "decline"}}})
    );
    answered(&gateway, &id, &json!({"call_id": third["call_id"], "output": {"action": "decline"}})).await;
    let response = assert_valid_stream(&frames(&stream.rest().await)).response;
    openapi::assert_response(&response);
    assert_eq!(text_of(&response), "Done.");
    assert_eq!(
        last_input(&server),
        json!({"state": "further", "responses": {"more": {"action": "decline"}}})
    );
    assert_eq!((server.count_calls("echo"), &item(&response, "mcp_call")["output"]), (3, &json!("hi")));
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.body, response);
}

#[tokio::test]
async fn a_call_that_asks_without_end_fails() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.returns("echo", requires(json!({"one": which()}), "s"));
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let mut stream = Stream::open(&gateway, &form(&server)).await;
    for round in 1..=4 {
        let question = stream.until("antwort:input_required", round).await.remove(round - 1);
        answered(&gateway, &stream.id(), &accept(&question)).await;
    }
    stream.rest().await;
    assert!(told(&upstream).contains("requests input too often"), "{}", told(&upstream));
    assert_eq!(server.count_calls("echo"), 5, "every answer reaches the server");
}

#[tokio::test]
async fn calls_of_a_turn_of_which_some_ask_end_in_their_order() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.returns_first("read", requires(json!({"one": which()}), "s"));
    server.returns_first("add", requires(json!({"one": which()}), "t"));
    let gateway = before(&upstream).spawn().await;
    let calls = vec![
        ("echo", json!({"text": "a"})),
        ("read", json!({})),
        ("echo", json!({"text": "b"})),
        ("add", json!({"a": 1, "b": 2})),
    ];
    upstream.reply(Reply::Calls(calls)).text("Done.");
    let mut stream = Stream::open(&gateway, &form(&server)).await;
    let (first, id) = (stream.question().await, stream.id());
    assert_eq!(first["name"], "read");
    assert_eq!(server.count_calls("echo"), 2);
    answered(&gateway, &id, &accept(&first)).await;
    let second = stream.until("antwort:input_required", 2).await.remove(1);
    assert_eq!(second["name"], "add");
    answered(&gateway, &id, &accept(&second)).await;
    let response = assert_valid_stream(&frames(&stream.rest().await)).response;
    let calls = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "mcp_call");
    let outputs: Vec<_> = calls.map(|item| item["output"].as_str().unwrap()).collect();
    assert_eq!(outputs, ["a", "nothing of note", "b", "3"]);
    assert_eq!(server.calls().len(), 6);
    assert_eq!(text_of(&response), "Done.");
}

/// The questions are rows: any process goes on with them.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_with_which_a_call_has_ended_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.returns_first("delete_all", requires(json!({"one": which()}), "opaque"));
    let environment = [("ANTWORT_EGRESS_ALLOW", "127.0.0.1")];
    let mut gateway = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    upstream.reply(call("delete_all", json!({}))).text("Done.");
    let http = reqwest::Client::new();
    let url = format!("{}/v1/responses", gateway.base);
    let mut stream = Stream::of(http.post(&url).json_body(&form(&server))).await;
    let (question, id) = (stream.question().await, stream.id());
    let seen = stream.text.clone();
    gateway.kill();
    gateway.restart().await;
    let url = format!("{}/v1/responses/{id}/inputs", gateway.base);
    let given = http.post(url).json_body(&accept(&question)).send().await.unwrap();
    assert_eq!(given.status(), 202);
    let whole = format!("{}/v1/responses/{id}?stream=true", gateway.base);
    let whole = Stream::of(http.get(whole)).await.rest().await;
    assert!(whole.starts_with(&seen), "{seen}\n\n{whole}");
    assert_eq!(whole.matches("event: antwort:input_required").count(), 1);
    let response = assert_valid_resumed_stream(&frames(&whole)).response;
    assert_eq!(text_of(&response), "Done.");
    assert_eq!(last_input(&server)["state"], "opaque");
    assert_eq!((server.count_calls("delete_all"), told(&upstream).as_str()), (2, "all deleted"));
}

#[tokio::test]
async fn a_call_waits_until_the_user_has_opened_the_address_that_its_error_names() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let page = json!({"mode": "url", "message": "Connect it.", "url": "https://login.example/", "elicitationId": "e1"});
    let data = json!({"elicitations": [page]});
    let gateway = before(&upstream).spawn().await;
    for (action, calls, text) in
        [("accept", 2, "hi"), ("decline", 3, "connect first"), ("", 4, "connect first")]
    {
        server.errors_first("echo", (-32042, "connect first"), data.clone());
        upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
        // A client that does not show addresses is told of the error.
        let modes = if action.is_empty() { json!(["form"]) } else { json!(["form", "url"]) };
        let mut stream = Stream::open(&gateway, &shows(modes, &server)).await;
        if !action.is_empty() {
            let (question, id) = (stream.question().await, stream.id());
            assert_eq!(question["elicitation"]["url"], "https://login.example/");
            answered(&gateway, &id, &json!({"call_id": question["call_id"], "output": {"action": action}}))
                .await;
        }
        let response = assert_valid_stream(&frames(&stream.rest().await)).response;
        assert_eq!(text_of(&response), "Done.");
        assert!(told(&upstream).contains(text), "{action}: {}", told(&upstream));
        assert_eq!(server.count_calls("echo"), calls, "{action}");
        assert_eq!(last_input(&server), json!({"responses": null, "state": null}));
    }
}

/// The question of the later call could not be shown before the run waited, and the run could not wait before it was answered:
/// the turn hung.
#[tokio::test]
async fn a_call_that_asks_behind_one_that_has_ended_with_questions_is_told_to_go_on() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.returns_first("read", requires(json!({"one": which()}), "s"));
    server.asks("echo", "elicitation/create");
    let gateway = before(&upstream).spawn().await;
    upstream.reply(Reply::Calls(vec![("read", json!({})), ("echo", json!({"text": "b"}))])).text("Done.");
    let mut stream = Stream::open(&gateway, &form(&server)).await;
    let (question, id) = (stream.question().await, stream.id());
    assert_eq!((&question["name"], reply(&server)), (&json!("read"), json!({"action": "cancel"})));
    answered(&gateway, &id, &accept(&question)).await;
    let response = assert_valid_stream(&frames(&stream.rest().await)).response;
    assert_eq!(text_of(&response), "Done.");
    let calls = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "mcp_call");
    let outputs: Vec<_> = calls.map(|item| item["output"].as_str().unwrap()).collect();
    assert_eq!(outputs, ["nothing of note", "b"]);
}

/// Whoever went on had what the tools had returned, in place of what their layers had made of it: a call that was refused
/// became one whose outcome is unknown, and rejected calls were forgotten.
#[tokio::test]
async fn other_calls_of_the_turn_have_the_same_results_before_and_behind_the_wait() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.returns_first("read", requires(json!({"one": which()}), "s"));
    server.errors("boom", -32000, "no such thing");
    let gateway = before(&upstream).spawn().await;
    let calls = vec![
        ("add", json!({"a": "x"})),
        ("boom", json!({})),
        ("read", json!({})),
        ("echo", json!({"words": 1})),
        ("nonsense", json!({})),
    ];
    upstream.reply(Reply::Calls(calls)).text("Done.");
    let mut stream = Stream::open(&gateway, &form(&server)).await;
    let (question, id) = (stream.question().await, stream.id());
    answered(&gateway, &id, &accept(&question)).await;
    let text = stream.rest().await;
    let response = assert_valid_stream(&frames(&text)).response;
    assert_eq!(text_of(&response), "Done.");
    let calls: Vec<_> =
        response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "mcp_call").collect();
    assert_eq!(calls[0]["error"]["code"], "invalid_arguments", "{:#}", calls[0]);
    assert_eq!(
        (&calls[1]["error"]["type"], &calls[1]["error"]["code"]),
        (&json!("mcp_protocol_error"), &json!(-32000))
    );
    assert_eq!(calls[2]["output"], "nothing of note");
    assert_eq!(calls[3]["error"]["code"], "invalid_arguments", "{:#}", calls[3]);
    let model = upstream.last()["messages"].to_string();
    assert!(model.contains("nonsense") && !model.contains("gateway was stopped"), "{model}");
    assert_eq!(
        (server.count_calls("add"), server.count_calls("boom"), server.count_calls("read")),
        (0, 1, 2)
    );
}
