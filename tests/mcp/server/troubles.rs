//! How it fails when it is told to.

use std::time::{Duration, Instant};

use serde_json::json;

use super::opened;
use antwort_test_support::eventually;
use antwort_test_support::mcp_client::{Events, McpClient};
use antwort_test_support::mcp_server::{Answers, McpServer};

#[tokio::test]
async fn after_a_restart_sessions_are_unknown() {
    let (server, mut client) = opened().await;
    server.restart();
    assert_eq!(client.status("tools/list").await, 404);
    assert_eq!((server.open_sessions(), server.sessions_deleted()), (0, 0));
    client = McpClient::new(server.url());
    client.initialize().await;
    assert_eq!(client.names().await.len(), 11);
}

#[tokio::test]
async fn a_status_is_answered_so_often_and_to_those_requests() {
    let (server, mut client) = opened().await;
    server.status(503, 2);
    for expected in [503, 503, 200] {
        assert_eq!(client.status("ping").await, expected);
    }
    server.status_of("tools/call", 1, (500, &[("x-why", "because")], "broken")).too_many(1, "7");
    let busy = client.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    assert_eq!((busy.status().as_u16(), busy.headers()["retry-after"].as_bytes()), (429, b"7".as_slice()));
    assert_eq!(client.status("ping").await, 200);
    let broken = client.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call"})).await;
    assert_eq!(broken.headers()["x-why"], "because");
    assert_eq!(broken.text().await.unwrap(), "broken");
    assert_eq!(server.count("ping"), 2, "what was refused was not worked on");
}

#[tokio::test]
async fn a_method_may_hang_or_take_its_time() {
    let (server, mut client) = opened().await;
    server.hang("tools/list").hang("initialize");
    let mut other = McpClient::new(server.url());
    for waiting in [client.status("tools/list"), other.status("initialize")] {
        assert!(tokio::time::timeout(Duration::from_millis(100), waiting).await.is_err());
    }
    assert_eq!(server.open_sessions(), 1);
    assert!(eventually(async || server.in_flight() == 0).await, "who goes away is not worked for");
    server.resume("tools/list").delay("tools/list", Duration::from_millis(50));
    let start = Instant::now();
    assert_eq!(client.status("tools/list").await, 200);
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[tokio::test]
async fn a_cancelled_call_ends_without_an_answer() {
    let (server, mut client) = opened().await;
    server.slow(1, Duration::from_secs(60));
    let message = client.message("tools/call", json!({"name": "slow"}));
    let mut stream = Events::new(client.post(&message).await);
    assert!(eventually(async || server.in_flight() == 1).await);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": message["id"]}});
    assert_eq!(client.post(&cancel).await.status(), 202);
    assert_eq!(stream.message().await, None);
    assert_eq!((server.cancelled(), server.in_flight()), (vec![message["id"].clone()], 0));
}

#[tokio::test]
async fn a_call_may_be_worked_on_and_never_answered() {
    let (server, mut client) = opened().await;
    server.withholds("echo");
    assert!(client.ask("tools/call", json!({"name": "echo"})).await.is_empty());
    server.answers(Answers::Json);
    assert_eq!(client.status("ping").await, 200);
    let message = client.message("tools/call", json!({"name": "echo"}));
    assert_eq!(client.post(&message).await.status(), 204);
    assert_eq!(server.count_calls("echo"), 2);
}

#[tokio::test]
async fn after_a_crash_it_comes_back_where_it_was() {
    let (server, mut client) = opened().await;
    server.kill().await;
    let address = server.base.strip_prefix("http://").unwrap().to_owned();
    let again = McpServer::spawn_on(&address).await;
    assert_eq!(client.status("tools/list").await, 404);
    assert_eq!(again.requests().len(), 1);
}
