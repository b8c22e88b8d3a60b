//! How a connection ends, and what becomes of its turn.

use std::time::Duration;

use serde_json::json;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use antwort_test_support::eventually;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish};
use antwort_test_support::websocket::WebSocket;

/// "The server is going away".
const AWAY: u16 = 1001;

#[tokio::test]
async fn a_run_is_cancelled_with_its_connection() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    upstream.reply(Reply::Stream(vec![chunk(json!({"content": "Hel"})), Step::Hang]));
    socket.create(json!({"input": "Hi"})).await;
    let id = socket.next().await.unwrap()["response"]["id"].as_str().unwrap().to_owned();
    assert!(eventually(async || upstream.open_streams() == 1).await);
    drop(socket);
    assert!(eventually(async || upstream.open_streams() == 0).await, "the provider is not asked any further");
    let row = async || gateway.get(&format!("/v1/responses/{id}")).await.body["status"].clone();
    assert!(eventually(async || row().await == "cancelled").await, "{}", row().await);
}

#[tokio::test]
async fn a_drain_ends_the_turn_in_flight_and_closes_then() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut busy = WebSocket::connect(&gateway).await;
    let mut idle = WebSocket::connect(&gateway).await;
    idle.response(json!({"input": "Hi"}), "completed").await;
    let steps = vec![
        chunk(json!({"content": "Hel"})),
        Step::Wait(Duration::from_millis(400)),
        finish("stop"),
        done(),
    ];
    upstream.reply(Reply::Stream(steps));
    busy.create(json!({"input": "Hi"})).await;
    assert_eq!(busy.next().await.unwrap()["type"], "response.created");
    gateway.begin_stop();
    assert_eq!(idle.next().await, Err(Some(AWAY)));
    let mut last = json!(null);
    let code = loop {
        match busy.next().await {
            Ok(event) => last = event,
            Err(code) => break code,
        }
    };
    assert_eq!((&last["type"], code), (&json!("response.completed"), Some(AWAY)));
    gateway.stop().await;
}

#[tokio::test]
async fn an_old_connection_is_closed_behind_its_turn() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| settings.server.websocket.max_age = Duration::from_millis(300))
        .spawn()
        .await;
    let mut socket = WebSocket::connect(&gateway).await;
    let steps =
        vec![chunk(json!({"content": "Hi"})), Step::Wait(Duration::from_millis(600)), finish("stop"), done()];
    upstream.reply(Reply::Stream(steps));
    socket.response(json!({"input": "Hi"}), "completed").await;
    let error = socket.next().await.unwrap();
    assert_eq!(error["error"]["code"], "websocket_connection_limit_reached", "{error}");
    assert_eq!(socket.next().await, Err(Some(AWAY)));
    // One that does nothing, too.
    let mut idle = WebSocket::connect(&gateway).await;
    assert_eq!(idle.next().await.unwrap()["error"]["code"], "websocket_connection_limit_reached");
    assert_eq!(idle.next().await, Err(Some(AWAY)));
}

#[tokio::test]
async fn requests_that_wait_are_not_begun_on_a_connection_that_is_too_old() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| settings.server.websocket.max_age = Duration::from_millis(300))
        .spawn()
        .await;
    let mut socket = WebSocket::connect(&gateway).await;
    let steps =
        vec![chunk(json!({"content": "Hi"})), Step::Wait(Duration::from_millis(600)), finish("stop"), done()];
    upstream.reply(Reply::Stream(steps));
    for _ in 0..3 {
        socket.create(json!({"input": "Hi"})).await;
    }
    assert_eq!(socket.read_turn().await.end["status"], "completed");
    let error = socket.next().await.unwrap();
    assert_eq!(error["error"]["code"], "websocket_connection_limit_reached", "{error}");
    assert_eq!(socket.next().await, Err(Some(AWAY)));
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_client_that_closes_is_answered() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    socket.response(json!({"input": "Hi"}), "completed").await;
    let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    socket.socket.close(Some(frame)).await.unwrap();
    assert_eq!(socket.next().await, Err(Some(1000)), "without the answer, clients report a failure");
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_disconnected_and_one_that_does_is_not() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| {
            settings.server.websocket.ping_interval = Duration::from_millis(100);
            settings.server.websocket.idle_timeout = Duration::from_millis(400);
        })
        .spawn()
        .await;
    let mut lively = WebSocket::connect(&gateway).await;
    let silent = WebSocket::connect(&gateway).await;
    let connections = async || {
        let text = gateway.get("/metrics").await.body.as_str().unwrap().to_owned();
        let line =
            text.lines().find(|line| line.starts_with("antwort_websocket_connections ")).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(connections().await, 2);
    // A client answers pings only while it reads.
    let reading = tokio::time::timeout(Duration::from_secs(4), lively.next());
    assert!(reading.await.is_err(), "nothing but pings comes");
    assert_eq!(connections().await, 1, "the silent one is gone");
    drop(silent);
    lively.response(json!({"input": "Hi"}), "completed").await;
}
