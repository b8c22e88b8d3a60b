//! Silence in the stream of a client that counts events and no comments, as Codex does.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ask, text};
use antwort_test_support::gateway::{Builder, Gateway, JsonBody, frames};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::mcp_server::before;
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::{Reply, Step, Upstream, done, finish};
use antwort_test_support::websocket::WebSocket;

const CODEX: (&str, &str) = ("originator", "codex_exec");
const SILENCE: Duration = Duration::from_millis(1200);

fn quick(gateway: Builder) -> Builder {
    gateway.set(|settings| {
        settings.sse.commit_after = Duration::from_millis(100);
        settings.sse.keepalive = Duration::from_millis(200);
    })
}

fn slow() -> Reply {
    Reply::Stream(vec![text("Hel"), Step::Wait(SILENCE), text("lo"), finish("stop"), done()])
}

fn is_keepalive(event: &&Value) -> bool {
    event["type"] == "keepalive"
}

/// The keepalive events between two pieces of text.
fn between(events: &[Value]) -> usize {
    let delta = |text: &str| events.iter().position(|event| event["delta"] == text).unwrap();
    events[delta("Hel")..delta("lo")].iter().filter(is_keepalive).count()
}

#[tokio::test]
async fn codex_gave_up_a_silent_stream_as_comments_do_not_count() {
    let upstream = Upstream::spawn().await;
    let gateway = quick(Gateway::with_upstream(&upstream)).spawn().await.with_header(CODEX.0, CODEX.1);
    // Before the model's first event, and between two.
    upstream.reply(Reply::After(SILENCE, Box::new(slow())));
    let all = gateway.open_stream(ask()).await.text().await.unwrap();
    let events = frames(&all);
    assert_valid_stream(&events);
    assert!((2..=7).contains(&between(&events)), "{all}");
    assert!((4..=14).contains(&events.iter().filter(is_keepalive).count()), "{all}");
    assert!(
        all.contains("event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":2}\n\n"),
        "{all}"
    );

    // Nobody else gets them, nor a request without a stream.
    let others = quick(Gateway::with_upstream(&upstream)).spawn().await;
    upstream.reply(slow());
    let all = others.open_stream(ask()).await.text().await.unwrap();
    assert!(
        all.contains(": keepalive\n\n") && !frames(&all).iter().any(|event| is_keepalive(&event)),
        "{all}"
    );
    upstream.reply(slow());
    assert_eq!(gateway.create(ask()).await["status"], "completed");
}

#[tokio::test]
async fn a_websocket_is_silent_no_longer_either() {
    let upstream = Upstream::spawn().await;
    let gateway = quick(Gateway::with_upstream(&upstream)).spawn().await;
    let mut socket = WebSocket::connect_with(&gateway.base, "/v1/responses", &[CODEX]).await.unwrap();
    upstream.reply(slow());
    let turn = socket.turn(json!({"input": "Hi", "store": false})).await;
    assert!((2..=7).contains(&between(&turn.messages)), "{:#?}", turn.messages);
    assert_eq!(turn.end["status"], "completed");
}

#[tokio::test]
async fn a_stream_that_is_read_again_has_the_same_bytes_and_its_readers_get_comments() {
    let upstream = Upstream::spawn().await;
    let gateway = quick(Gateway::with_upstream(&upstream)).spawn().await;
    let create = || {
        let mut body = ask();
        body["stream"] = true.into();
        let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&body);
        request.header(CODEX.0, CODEX.1).header("idempotency-key", "once")
    };
    upstream.reply(slow());
    let first = create().send().await.unwrap().text().await.unwrap();
    assert!(between(&frames(&first)) >= 2, "{first}");
    let again = create().send().await.unwrap().text().await.unwrap();
    let bare = |stream: &str| stream.replace(": keepalive\n\n", "");
    assert_eq!(bare(&again), bare(&first));
    let id = frames(&first)[0]["response"]["id"].as_str().unwrap().to_owned();
    let url = format!("{}/v1/responses/{id}?stream=true&starting_after=3", gateway.base);
    let behind = gateway.http.get(url).header(CODEX.0, CODEX.1).send().await.unwrap().text().await.unwrap();
    let numbers: Vec<_> =
        frames(&behind).iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers.first(), Some(&4));
    assert!(bare(&first).ends_with(&bare(&behind)));
}

#[tokio::test]
async fn a_tool_that_takes_its_time_is_no_silence() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = quick(before(&upstream)).spawn().await.with_header(CODEX.0, CODEX.1);
    server.slow(1, SILENCE);
    upstream.reply(Reply::Calls(vec![("slow", json!({}))])).text("Done.");
    let tool =
        json!({"type": "mcp", "server_label": "s", "server_url": server.url(), "require_approval": "never"});
    let streamed = gateway.stream(json!({"model": "test-model", "input": "Go.", "tools": [tool]})).await;
    assert!(streamed.events.iter().filter(is_keepalive).count() >= 2, "{:#?}", streamed.events);
    assert_eq!(streamed.response["status"], "completed");
}
