//! Functions that are declared once for a conversation or a connection, and answers over WebSocket.

use serde_json::json;

use super::{Stream, answer, ask, calls_weather, function, output};
use antwort_test_support::gateway::{Gateway, frames, text_of};
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::{Reply, Upstream};
use antwort_test_support::websocket::WebSocket;

#[tokio::test]
async fn functions_of_a_conversation_hold_for_all_its_responses() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let body = json!({"antwort": {"tools": [function("weather")]}, "metadata": {"a": "b"}});
    let created = gateway.post("/v1/conversations", &body).await;
    assert_eq!(created.status, 200, "{}", created.body);
    for _ in 0..2 {
        calls_weather(&upstream);
        let mut body = ask();
        body["tools"] = json!([]);
        body["conversation"] = created.body["id"].clone();
        let mut stream = Stream::open(&gateway, &body).await;
        let question = stream.question().await;
        assert_eq!(answer(&gateway, &stream.id(), &output(&question, "22")).await.status, 202);
        let response = assert_valid_stream(&frames(&stream.rest().await)).response;
        assert_eq!(text_of(&response), "Sunny.");
        assert_eq!(upstream.last()["tools"][0]["function"]["name"], "weather");
    }
    for (tools, param) in [
        (json!([{"type": "web_search"}]), "antwort.tools[0].type"),
        (json!("weather"), "antwort.tools"),
        (json!([{"type": "function"}]), "antwort.tools[0].name"),
    ] {
        let refused = gateway.post("/v1/conversations", &json!({"antwort": {"tools": tools}})).await;
        assert_eq!((refused.status, &refused.body["error"]["param"]), (400, &json!(param)));
    }
    let refused = gateway.post("/v1/conversations", &json!({"antwort": {"tool": []}})).await;
    assert_eq!((refused.status, &refused.body["error"]["param"]), (400, &json!("antwort.tool")));
}

#[tokio::test]
async fn a_connection_declares_functions_and_answers_their_calls() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    upstream.text("Hello.");
    let first = socket.turn(json!({"input": "Hi", "antwort": {"tools": [function("weather")]}})).await;
    assert_eq!(first.end["tools"][0]["name"], "weather");
    assert_eq!(first.end["antwort"].get("tools"), None);

    calls_weather(&upstream);
    socket
        .create(json!({"input": "Weather?", "antwort": {"client_tools": "inline"}, "stream_id": "a"}))
        .await;
    let mut messages = Vec::new();
    let question = loop {
        messages.push(socket.next().await.unwrap());
        if messages.last().unwrap()["type"] == "antwort:input_required" {
            break messages.last().unwrap().clone();
        }
    };
    assert_eq!(question["stream_id"], "a");
    for (call_id, kind, status) in [
        (json!("call_other"), "antwort:input_refused", 409),
        (question["call_id"].clone(), "antwort:input_accepted", 202),
    ] {
        let given = json!({"type": "antwort:input", "call_id": call_id, "output": "22 degrees"});
        socket.send(&given.to_string()).await;
        let answered = loop {
            let message = socket.next().await.unwrap();
            if message["type"].as_str().unwrap().starts_with("antwort:input_") {
                break message;
            }
            messages.push(message);
        };
        assert_eq!((&answered["type"], &answered["status"]), (&json!(kind), &json!(status)), "{answered}");
    }
    while messages.last().unwrap()["type"] != "response.completed" {
        messages.push(socket.next().await.unwrap());
    }
    for message in &mut messages {
        message.as_object_mut().unwrap().remove("stream_id");
    }
    let response = assert_valid_stream(&messages).response;
    assert_eq!(text_of(&response), "Sunny.");
    assert_eq!(response["output"][1]["output"], "22 degrees");

    // The turn behind it is one like any other, and a failure of the provider one message.
    upstream.text("Bye.");
    assert_eq!(text_of(&socket.turn(json!({"input": "Bye"})).await.end), "Bye.");
    upstream.reply(Reply::Status(400, vec![], r#"{"error":{"message":"no"}}"#.into()));
    let failed = socket.turn(json!({"input": "Hi", "antwort": {"client_tools": "inline"}})).await;
    assert_eq!(failed.end["status"], "failed", "{:#}", failed.end);
}

#[tokio::test]
async fn an_answer_without_a_question_ends_nothing() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    for (given, status, code) in [
        (json!({"type": "antwort:input", "call_id": "call_1", "output": ""}), 409, "input_not_pending"),
        (json!({"type": "antwort:input", "call_id": "call_1"}), 400, "missing_required_parameter"),
        (
            json!({"type": "antwort:input", "call_id": "call_1", "output": "", "x": 1}),
            400,
            "unknown_parameter",
        ),
    ] {
        socket.send(&given.to_string()).await;
        let refused = socket.next().await.unwrap();
        assert_eq!((&refused["type"], &refused["status"]), (&json!("antwort:input_refused"), &json!(status)));
        assert_eq!(refused["error"]["code"], code, "{refused}");
    }
    upstream.text("Hello.");
    let turn = socket.turn(json!({"input": "What is an antwort:input?"})).await;
    assert_eq!(text_of(&turn.end), "Hello.", "a text that speaks of answers is none");
}
