//! What a connection holds while nothing happens on it.

use std::time::Duration;

use serde_json::{Value, json};

use antwort_test_support::gateway::Gateway;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::Upstream;
use antwort_test_support::websocket::WebSocket;

const MIB: usize = 1 << 20;

#[tokio::test]
async fn a_connection_keeps_no_buffer_of_a_large_message() {
    let upstream = Upstream::spawn().await;
    let folder = tempfile::tempdir().unwrap();
    let gateway = Process::start_with_environment(folder.path(), &upstream, &[]).await;
    let before = gateway.peak_memory();
    let mut sockets = Vec::new();
    for _ in 0..12 {
        let mut socket =
            WebSocket::connect_with(&gateway.base, "/v1/responses", &[]).await.expect("a connection");
        // Refused at once: it is no JSON.
        socket.send(&"x".repeat(24 * MIB)).await;
        socket.read_turn().await.assert_refused(400, "invalid_json");
        sockets.push(socket);
    }
    let growth = gateway.peak_memory() - before;
    assert!(growth < 120 * MIB, "{} MiB for 12 idle connections", growth / MIB);
    for socket in &mut sockets {
        socket.response(json!({"input": "Hi"}), "completed").await;
    }
}

#[tokio::test]
async fn messages_behind_a_large_one_are_not_lost() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    for size in [10, 100_000, 300_000, 10, 70_000] {
        socket.create(json!({"input": "x".repeat(size)})).await;
        socket.send("{").await;
    }
    for _ in 0..5 {
        assert_eq!(socket.read_turn().await.end["status"], "completed");
        socket.read_turn().await.assert_refused(400, "invalid_json");
    }
}

#[tokio::test]
async fn what_idle_connections_keep_is_bounded_and_takes_nothing_from_runs() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| {
            settings.engine.max_conversation_bytes = 400 << 10;
            settings.server.queue_timeout = Duration::from_secs(30);
        })
        .spawn()
        .await;
    let large = "x".repeat(250 << 10);
    let mut kept = Vec::new();
    for _ in 0..6 {
        let mut socket = WebSocket::connect(&gateway).await;
        let response = socket.response(json!({"input": large, "store": false}), "completed").await;
        kept.push((socket, response["id"].clone()));
    }
    // Twice the largest conversation: of three.
    let mut found = Vec::new();
    for (socket, id) in &mut kept {
        let turn = socket.turn(json!({"input": "Hi", "store": false, "previous_response_id": id})).await;
        found.push(turn.end["status"] == "completed");
        if turn.end["status"] != "completed" {
            turn.assert_refused(400, "previous_response_not_found");
        }
    }
    assert_eq!(found, [true, true, true, false, false, false]);
    // Runs have their own memory.
    let mut stored = gateway.create(json!({"model": "test-model", "input": large})).await;
    for _ in 0..3 {
        let next = json!({"model": "test-model", "input": "Hi", "previous_response_id": stored["id"]});
        stored = gateway.create(next).await;
    }
}

#[tokio::test]
async fn a_chain_of_responses_without_items_ends_without_harm() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut socket = WebSocket::connect(&gateway).await;
    let mut previous = Value::Null;
    for _ in 0..300 {
        let body = json!({"generate": false, "store": false, "previous_response_id": previous});
        previous = socket.response(body, "completed").await["id"].clone();
    }
    socket
        .response(json!({"input": "Hi", "store": false, "previous_response_id": previous}), "completed")
        .await;
    assert_eq!(upstream.last()["messages"].as_array().unwrap().len(), 1);
}
