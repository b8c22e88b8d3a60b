//! Responses over WebSocket: turns, continuations, the end of a connection.

mod hostile;
mod lifetime;
mod memory;

use std::time::Duration;

use serde_json::json;
use tokio_tungstenite::tungstenite::Error;

use antwort_test_support::configured;
use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::transcript::transcript;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish};
use antwort_test_support::websocket::WebSocket;

#[tokio::test]
async fn a_turn_is_the_stream_of_the_same_request() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let calls = Reply::Calls(vec![("f", json!({"a": 1})), ("g", json!({}))]);
    upstream.reply(calls.clone()).reply(calls);
    let body = json!({"model": "test-model", "input": "Hi",
        "tools": [{"type": "function", "name": "f"}, {"type": "function", "name": "g"}]});
    let streamed = gateway.stream(body.clone()).await;
    let mut socket = WebSocket::connect(&gateway).await;
    let turn = socket.turn(body).await;
    assert_eq!(transcript(&turn.messages), transcript(&streamed.events));
    let requests = upstream.requests();
    assert_eq!(requests[0].body, requests[1].body, "the model is asked alike");
}

#[tokio::test]
async fn two_turns_and_a_continuation_that_fails_as_a_transcript() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    upstream.reply(Reply::Calls(vec![("weather", json!({"city": "Oslo"}))])).text("Rain.");
    let tools = json!([{"type": "function", "name": "weather"}]);
    let ask = json!({"input": "The weather in Oslo?", "tools": tools, "store": false, "stream_id": "a"});
    let first = socket.turn(ask).await;
    let call = &first.end["output"][0]["call_id"];
    let output = json!([{"type": "function_call_output", "call_id": call, "output": "rain"}]);
    let tell =
        json!({"input": output, "tools": tools, "store": false, "previous_response_id": first.end["id"]});
    let second = socket.turn(tell).await;
    let output = json!([{"type": "function_call_output", "call_id": "call_none", "output": "x"}]);
    let next = json!({"input": output, "store": false, "previous_response_id": second.end["id"]});
    let failed = socket.turn(next.clone()).await;
    let evicted =
        socket.turn(json!({"input": "Hi", "store": false, "previous_response_id": second.end["id"]})).await;
    let turns = [first, second, failed, evicted];
    let text: Vec<_> = turns.iter().map(|turn| transcript(&turn.messages)).collect();
    insta::assert_snapshot!("websocket_turns", text.join("\n"));
}

#[tokio::test]
async fn fields_of_http_alone_are_ignored_and_background_is_refused() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    for fields in [
        json!({"stream": true}),
        json!({"stream": false, "stream_options": {"include_obfuscation": true}}),
        json!({"background": false, "stream_options": null}),
    ] {
        let mut body = json!({"input": "Hi"});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let turn = socket.turn(body).await;
        assert_eq!(turn.end["status"], "completed");
        assert!(turn.messages.iter().all(|event| event.get("obfuscation").is_none()));
    }
    let error = socket.refuse(json!({"input": "Hi", "background": true}), 400, "unsupported_parameter").await;
    assert_eq!(error["param"], "background");
}

#[tokio::test]
async fn a_response_that_is_not_stored_is_continued_on_its_own_connection_only() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    upstream.text("One").text("Two");
    let first = socket.response(json!({"input": "A", "store": false}), "completed").await;
    let id = first["id"].as_str().unwrap();
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.status, 404, "nothing is stored");
    let next = json!({"input": "B", "store": false, "previous_response_id": id});
    let mut other = WebSocket::connect(&gateway).await;
    let error = other.refuse(next.clone(), 400, "previous_response_not_found").await;
    assert_eq!(error["param"], "previous_response_id");
    let second = socket.response(next.clone(), "completed").await;
    assert_eq!(text_of(&second), "Two");
    assert_eq!(second["previous_response_id"], id);
    let turns = json!([{"role": "user", "content": "A"}, {"role": "assistant", "content": "One"},
        {"role": "user", "content": "B"}]);
    assert_eq!(upstream.last()["messages"], turns);
    let third = json!({"input": "C", "store": false, "previous_response_id": second["id"]});
    socket.response(third, "completed").await;
    assert_eq!(upstream.last()["messages"].as_array().unwrap().len(), 5, "the whole chain");
    // Only the newest is kept.
    socket.refuse(next, 400, "previous_response_not_found").await;
}

#[tokio::test]
async fn a_stored_response_is_continued_on_any_connection_and_with_what_is_not_stored() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let stored = gateway.create(json!({"model": "test-model", "input": "A"})).await;
    let mut socket = WebSocket::connect(&gateway).await;
    let body = json!({"input": "B", "store": false, "previous_response_id": stored["id"]});
    let second = socket.response(body, "completed").await;
    let body = json!({"input": "C", "store": false, "previous_response_id": second["id"]});
    socket.response(body, "completed").await;
    assert_eq!(upstream.last()["messages"].as_array().unwrap().len(), 5);
    // A stored response whose beginning is nowhere could never be continued.
    let third = socket.response(json!({"input": "D", "store": false}), "completed").await;
    let body = json!({"input": "E", "previous_response_id": third["id"]});
    socket.refuse(body, 400, "previous_response_not_stored").await;
}

#[tokio::test]
async fn a_continuation_that_fails_evicts_what_it_continued() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    let first = socket.response(json!({"input": "A", "store": false}), "completed").await;
    let output = json!([{"type": "function_call_output", "call_id": "call_none", "output": "x"}]);
    let wrong = json!({"input": output, "store": false, "previous_response_id": first["id"]});
    let turn = socket.turn(wrong).await;
    assert_eq!((turn.messages.len(), &turn.end["status"]), (1, &json!(400)), "{turn:#?}");
    let again = json!({"input": "B", "store": false, "previous_response_id": first["id"]});
    socket.refuse(again.clone(), 400, "previous_response_not_found").await;
    // A message that cannot be read is a continuation that fails, too.
    let second = socket.response(json!({"input": "A", "store": false}), "completed").await;
    let wrong = json!({"input": 5, "store": false, "previous_response_id": second["id"]});
    assert_eq!(socket.turn(wrong).await.end["status"], 400);
    let again = json!({"input": "B", "store": false, "previous_response_id": second["id"]});
    socket.refuse(again, 400, "previous_response_not_found").await;
    // Stored ones are found again.
    let stored = socket.response(json!({"input": "A"}), "completed").await;
    upstream.reply(Reply::Status(400, vec![], r#"{"error":{"message":"no"}}"#.into()));
    let next = json!({"input": "B", "previous_response_id": stored["id"]});
    assert_eq!(socket.turn(next.clone()).await.messages.len(), 1);
    socket.response(next, "completed").await;
}

#[tokio::test]
async fn a_response_that_is_not_generated_is_empty_and_can_be_continued() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    for store in [false, true] {
        let asked = upstream.requests().len();
        let warm = json!({"generate": false, "store": store, "instructions": "Be brief.",
            "input": [{"role": "user", "content": "A"}]});
        let warm = socket.response(warm, "completed").await;
        assert_eq!(warm["output"], json!([]));
        assert_eq!(upstream.requests().len(), asked, "the model is not asked");
        let next = json!({"input": "B", "store": store, "previous_response_id": warm["id"]});
        socket.response(next, "completed").await;
        let messages = json!([{"role": "user", "content": "A"}, {"role": "user", "content": "B"}]);
        assert_eq!(upstream.last()["messages"], messages);
        // Without any input, too: the tools are resolved, and the model is not asked.
        socket.response(json!({"generate": false, "store": store}), "completed").await;
    }
}

#[tokio::test]
async fn messages_of_a_turn_carry_its_stream_id() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    let turn = socket.turn(json!({"input": "Hi", "stream_id": "a-1"})).await;
    assert!(turn.messages.iter().all(|event| event["stream_id"] == "a-1"), "{turn:#?}");
    let turn = socket.turn(json!({"input": [], "stream_id": "b.2"})).await;
    turn.assert_refused(400, "missing_required_parameter");
    assert_eq!(turn.end["stream_id"], "b.2");
    let turn = socket.turn(json!({"input": "Hi"})).await;
    assert!(turn.messages.iter().all(|event| event.get("stream_id").is_none()));
}

#[tokio::test]
async fn requests_of_a_connection_run_one_after_the_other() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    for word in ["one", "two", "three"] {
        let steps = vec![
            chunk(json!({"content": word})),
            Step::Wait(Duration::from_millis(80)),
            finish("stop"),
            done(),
        ];
        upstream.reply(Reply::Stream(steps));
        socket.create(json!({"input": word})).await;
    }
    // What a client reports of a response it has read needs no answer.
    socket.send(r#"{"type":"response.processed","response_id":"resp_1"}"#).await;
    for (number, word) in ["one", "two", "three"].into_iter().enumerate() {
        let turn = socket.read_turn().await;
        assert_eq!(text_of(&turn.end), word);
        assert!(upstream.requests().len() <= number + 2, "the next is not begun before");
    }
    assert_eq!(socket.response(json!({"input": "Hi"}), "completed").await["status"], "completed");
}

#[tokio::test]
async fn a_run_that_fails_after_its_beginning_ends_with_one_message() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    upstream.reply(Reply::Stream(vec![
        chunk(json!({"content": "Hel"})),
        Step::Wait(Duration::from_millis(50)),
        Step::Cut,
    ]));
    let turn = socket.turn(json!({"input": "Hi"})).await;
    let kinds: Vec<_> = turn.messages.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[0], "response.created");
    assert_eq!(kinds[kinds.len() - 1], "response.failed");
    assert!(!kinds.contains(&"error"), "{kinds:?}");
    // The next turn is not mixed up with it.
    socket.response(json!({"input": "Hi"}), "completed").await;
}

#[tokio::test]
async fn what_no_turn_can_be_made_of_is_answered_and_the_connection_stays() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    for (text, code, param) in [
        ("{", "invalid_json", None),
        ("[]", "invalid_json", None),
        ("", "invalid_json", None),
        (r#"{"input":"Hi","model":"m"}"#, "missing_required_parameter", Some("type")),
        (r#"{"type":"session.update"}"#, "invalid_value", Some("type")),
        (r#"{"type":"response.create","model":"test-model"}"#, "missing_required_parameter", Some("input")),
        (
            r#"{"type":"response.create","model":"test-model","input":"Hi","foo":1}"#,
            "unknown_parameter",
            Some("foo"),
        ),
    ] {
        socket.send(text).await;
        let turn = socket.read_turn().await;
        turn.assert_refused(400, code);
        assert_eq!(turn.end["error"]["param"].as_str(), param, "{text}");
    }
    socket.response(json!({"input": "Hi"}), "completed").await;
}

#[tokio::test]
async fn a_handshake_is_authorized_as_a_creation_is() {
    let upstream = Upstream::spawn().await;
    let keys = "auth: {keys: {writer: {key: secret, scopes: ['responses:create']}, reader: {key: other, scopes: ['responses:read']}}}";
    let gateway = Gateway::with(configured::settings(&upstream, &[], keys)).spawn().await;
    let status = async |headers: &[(&'static str, &str)], path: &str| match WebSocket::connect_with(
        &gateway.base,
        path,
        headers,
    )
    .await
    {
        Ok(_) => 101,
        Err(Error::Http(response)) => response.status().as_u16(),
        Err(other) => panic!("{other}"),
    };
    let writer = ("authorization", "Bearer secret");
    for path in ["/v1/responses", "/responses", "/openai/v1/responses", "/v1/responses?api-version=1"] {
        assert_eq!(status(&[writer], path).await, 101, "{path}");
    }
    assert_eq!(status(&[], "/v1/responses").await, 401);
    assert_eq!(status(&[("authorization", "Bearer wrong")], "/v1/responses").await, 401);
    assert_eq!(status(&[("authorization", "Bearer other")], "/v1/responses").await, 403);
    assert_eq!(status(&[writer, ("origin", "https://evil.example")], "/v1/responses").await, 403);
    assert_eq!(
        status(&[writer, ("openai-beta", "responses_websockets=2026-02-06")], "/v1/responses").await,
        101
    );
    let mut socket = WebSocket::connect_with(&gateway.base, "/v1/responses", &[writer]).await.unwrap();
    socket.response(json!({"input": "Hi"}), "completed").await;
}

#[tokio::test]
async fn a_handshake_that_is_wrong_is_answered_in_http() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let key = ("sec-websocket-key", "cepz6rc6krwKQpL4uvli4g==");
    let version = ("sec-websocket-version", "13");
    let upgrade = ("connection", "Upgrade");
    for (headers, status, code) in [
        (vec![upgrade, key], 426, "websocket_not_served"),
        (vec![upgrade, key, ("sec-websocket-version", "8")], 426, "websocket_not_served"),
        (vec![upgrade, version], 400, "invalid_value"),
        (vec![upgrade, version, ("sec-websocket-key", "short")], 400, "invalid_value"),
        (vec![version, key], 400, "invalid_value"),
    ] {
        let request =
            gateway.http.get(format!("{}/v1/responses", gateway.base)).header("upgrade", "websocket");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let answer = gateway.send(request).await;
        assert_eq!(
            (answer.status, answer.body["error"]["code"].as_str()),
            (status, Some(code)),
            "{headers:?}"
        );
        if status == 426 {
            assert_eq!(answer.headers["sec-websocket-version"], "13");
        }
    }
    let old = gateway.http.get(format!("{}/v1/responses", gateway.base)).version(reqwest::Version::HTTP_10);
    let old = [("upgrade", "websocket"), upgrade, version, key]
        .into_iter()
        .fold(old, |request, (name, value)| request.header(name, value));
    assert_eq!(gateway.send(old).await.status, 426, "HTTP/1.0 has no upgrades");
    let other = gateway.http.get(format!("{}/v1/models", gateway.base)).header("upgrade", "websocket");
    assert_eq!(other.send().await.unwrap().status(), 200, "only responses are asked for in this way");
}
