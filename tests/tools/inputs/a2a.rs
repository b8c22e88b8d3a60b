//! `client_tools: a2a`: a client of the A2A protocol is asked with its own event, and answers in its own words.

use antwort::config::AgentSettings;
use serde_json::{Value, json};

use super::{Stream, answer, ask, calls_weather, function, output};
use antwort_test_support::fleet::Fleet;
use antwort_test_support::gateway::{Gateway, frames, text_of};
use antwort_test_support::stream_validator::{assert_valid_resumed_stream, assert_valid_stream};
use antwort_test_support::upstream::{Reply, Upstream, chunk, done, finish};
use antwort_test_support::websocket::WebSocket;

fn ask_a2a() -> Value {
    let mut body = ask();
    body["antwort"] = json!({"client_tools": "a2a"});
    body
}

/// What a client that knows the event sends for it.
fn handled(event: &Value, result: &str) -> Value {
    json!({"taskId": event["taskId"], "inputId": event["inputId"], "success": true, "result": result})
}

/// The lines of the frames of this event.
fn lines_of<'a>(text: &'a str, event: &str) -> Vec<Vec<&'a str>> {
    let frames = text.split("\n\n").map(|frame| frame.lines().collect::<Vec<_>>());
    frames.filter(|lines| lines.first() == Some(&format!("event: {event}").as_str())).collect()
}

#[tokio::test]
async fn an_a2a_client_is_asked_and_answers_word_for_word() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    calls_weather(&upstream);
    let mut stream = Stream::open(&gateway, &ask_a2a()).await;
    let question = stream.until("tool-call", 1).await.remove(0);
    let (id, number) = (stream.id(), question["sequence_number"].as_u64().unwrap());
    let call_id = question["inputId"].as_str().unwrap().to_owned();
    let data = format!(
        r#"data: {{"taskId":"{id}","inputId":"{call_id}","type":"tool-call","toolCall":{{"name":"weather","arguments":{{"city":"Berlin"}}}},"timeout":30000}}"#
    );
    let id_line = format!("id: {number}");
    assert_eq!(lines_of(&stream.text, "input-required"), [["event: input-required", &id_line, &data]]);
    assert!(!stream.text.contains("antwort:input_required"), "one event for a question");

    let accepted = gateway.post("/api/a2a/input", &handled(&question, "22")).await;
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    let text = stream.rest().await;
    let response = assert_valid_stream(&frames(&text)).response;
    assert_eq!(
        (response["output"][0]["call_id"].as_str(), &response["output"][1]["output"]),
        (Some(&*call_id), &json!("22"))
    );
    assert_eq!(text_of(&response), "Sunny.");
    assert_eq!(response["antwort"]["client_tools"], "a2a");
    let resumed = Stream::resume(&gateway, &id, number - 1).await.rest().await;
    assert!(resumed.starts_with("event: input-required\n") && text.ends_with(&resumed), "{resumed}");
}

#[tokio::test]
async fn arguments_are_an_object_whatever_the_model_wrote() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let custom = json!({"type": "custom", "name": "run"});
    let space =
        json!({"type": "namespace", "name": "home", "description": "Rooms.", "tools": [function("weather")]});
    for (tool, name, written, shown_name, shown) in [
        (
            function("weather"),
            "weather",
            "{\n  \"n\": 12345678901234567890123\n}",
            "weather",
            r#"{   "n": 12345678901234567890123 }"#,
        ),
        (function("weather"), "weather", "", "weather", "{}"),
        (custom, "run", r#"{"input": "ls"}"#, "run", r#"{"input":"ls"}"#),
        (space, "home__weather", "{}", "home__weather", "{}"),
    ] {
        let call = json!({"index": 0, "id": "c", "function": {"name": name, "arguments": written}});
        let call = chunk(json!({"tool_calls": [call]}));
        upstream.reply(Reply::Stream(vec![call, finish("tool_calls"), done()]));
        upstream.text("Done.");
        let mut body = ask_a2a();
        body["tools"] = json!([tool]);
        let mut stream = Stream::open(&gateway, &body).await;
        let question = stream.until("tool-call", 1).await.remove(0);
        let tool_call = format!(r#""toolCall":{{"name":"{shown_name}","arguments":{shown}}}"#);
        assert!(stream.text.contains(&tool_call), "{tool_call}: {}", stream.text);
        assert_eq!(gateway.post("/api/a2a/input", &handled(&question, "x")).await.status, 202);
        assert_eq!(assert_valid_stream(&frames(&stream.rest().await)).response["status"], "completed");
    }
}

#[tokio::test]
async fn an_agent_asks_its_clients_in_the_words_of_a2a() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| {
            let a2a = json!({"client_tools": "a2a", "client_tool_timeout": "5m"});
            let agent: AgentSettings = serde_json::from_value(a2a).unwrap();
            settings.agents.insert("helper".to_owned(), agent);
        })
        .spawn()
        .await;
    let mut body = ask();
    body["agent"] = json!("helper");
    body["antwort"] = Value::Null;
    calls_weather(&upstream);
    let mut stream = Stream::open(&gateway, &body).await;
    let question = stream.until("tool-call", 1).await.remove(0);
    assert_eq!(question["timeout"], 300_000);
    // The gateway's own route is as good.
    let own = json!({"call_id": question["inputId"], "output": "22"});
    assert_eq!(answer(&gateway, &stream.id(), &own).await.status, 202);
    assert_eq!(text_of(&assert_valid_stream(&frames(&stream.rest().await)).response), "Sunny.");

    // A client that asks for the other event gets it.
    calls_weather(&upstream);
    body["antwort"] = json!({"client_tools": "inline"});
    let mut stream = Stream::open(&gateway, &body).await;
    let question = stream.question().await;
    assert_eq!(answer(&gateway, &stream.id(), &output(&question, "x")).await.status, 202);
    assert!(!stream.rest().await.contains("tool-call"));
}

/// The replica that asked is gone: its event is read from the log, although its data has no number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_a2a_question_outlives_its_replica() {
    let fleet = Fleet::new().await;
    let [first, second] = fleet.two().await;
    calls_weather(&fleet.upstream);
    let mut stream = Stream::open(&first, &ask_a2a()).await;
    let question = stream.until("tool-call", 1).await.remove(0);
    let (id, seen) = (stream.id(), stream.text.clone());
    drop(stream);
    first.stop().await;
    assert_eq!(second.post("/api/a2a/input", &handled(&question, "sunny")).await.status, 202);
    let url = format!("{}/v1/responses/{id}?stream=true", second.base);
    let whole = Stream::of(reqwest::Client::new().get(url)).await.rest().await;
    assert!(whole.starts_with(&seen), "{seen}\n\n{whole}");
    assert_eq!(lines_of(&whole, "input-required").len(), 1, "asked once: {whole}");
    assert_eq!(text_of(&assert_valid_resumed_stream(&frames(&whole)).response), "Sunny.");
}

#[tokio::test]
async fn a_websocket_has_the_data_of_the_event_as_a_message() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    calls_weather(&upstream);
    let (tools, options) = (json!([function("weather")]), json!({"client_tools": "a2a"}));
    socket.create(json!({"input": "Weather?", "tools": tools, "antwort": options})).await;
    let mut messages = vec![socket.next().await.unwrap()];
    while messages.last().unwrap()["type"] != "tool-call" {
        messages.push(socket.next().await.unwrap());
    }
    let question = messages.pop().unwrap();
    assert_eq!(question["toolCall"], json!({"name": "weather", "arguments": {"city": "Berlin"}}));
    assert_eq!(gateway.post("/api/a2a/input", &handled(&question, "22")).await.status, 202);
    let next = socket.next().await.unwrap();
    assert_eq!(next["sequence_number"], json!(messages.len() + 1), "the question has a number: {next}");
    while messages.last().unwrap()["type"] != "response.completed" {
        messages.push(socket.next().await.unwrap());
    }
}

#[tokio::test]
async fn a2a_is_refused_where_a_response_cannot_wait() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for field in ["store", "stream"] {
        let mut body = ask_a2a();
        body[field] = json!(false);
        let refused = gateway.refuse(body, 400, "unsupported_value").await;
        assert_eq!(refused["param"], "antwort.client_tools", "{field}");
    }
}
