//! How it is spoken to: sessions, streams, and the older ways.

use serde_json::{Value, json};

use super::opened;
use antwort_test_support::eventually;
use antwort_test_support::mcp_client::{Events, McpClient};
use antwort_test_support::mcp_server::{Answers, McpServer};

#[tokio::test]
async fn a_session_is_made_used_and_ended() {
    let server = McpServer::spawn().await;
    let mut client = McpClient::new(server.url());
    let info = client.initialize().await;
    assert_eq!(info["protocolVersion"], "2025-06-18");
    assert_eq!((server.sessions_made(), server.open_sessions()), (1, 1));
    assert_eq!(client.ask("ping", json!({})).await[0]["result"], json!({}));
    let answer = client.call("echo", json!({"text": "hi"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "hi");
    assert_eq!(client.delete().await, 204);
    assert_eq!((server.sessions_deleted(), server.open_sessions()), (1, 0));
    assert_eq!(client.status("tools/list").await, 404);
    assert_eq!(server.count("initialize"), 1);
    let call = &server.calls()[0];
    assert_eq!((call.tool.as_str(), &call.arguments), ("echo", &json!({"text": "hi"})));
    assert_eq!((call.id.clone(), call.meta.clone(), call.token.clone()), (json!(3), Value::Null, None));
    assert_eq!(Some(&call.session), client.session.as_ref());
    let requests = server.requests();
    let seen: Vec<_> = requests.iter().map(|request| request.method.as_str()).collect();
    assert_eq!(seen, ["POST", "POST", "POST", "POST", "DELETE", "POST"]);
    assert!(requests.iter().all(|request| request.path == "/mcp"));
    assert_eq!(requests[1].headers["mcp-protocol-version"], "2025-06-18");
    assert_eq!(requests[3].raw, requests[3].body.to_string());
}

#[tokio::test]
async fn what_the_protocol_forbids_is_refused_and_remembered() {
    let (server, client) = opened().await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let without = |change: fn(&mut McpClient)| {
        let mut other = client.clone();
        change(&mut other);
        other
    };
    let bare = without(|client| client.session = None);
    assert_eq!(bare.post(&list).await.status(), 400);
    let other = without(|client| client.protocol = Some("2025-03-26".to_owned()));
    assert_eq!(other.post(&list).await.status(), 400);
    let silent = without(|client| client.protocol = None);
    assert_eq!(silent.post(&list).await.status(), 400);
    assert_eq!(client.post(&json!([list])).await.status(), 400);
    assert_eq!(client.post(&json!({"jsonrpc": "2.0", "id": 9, "result": {}})).await.status(), 202);
    let http = reqwest::Client::new();
    let wanting = http.post(server.url()).header("content-type", "application/json");
    let wanting = wanting.header("accept", "application/json").body(list.to_string());
    assert_eq!(wanting.send().await.unwrap().status(), 406);
    assert_eq!(http.post(server.url()).body("{}").send().await.unwrap().status(), 415);
    assert_eq!(http.get(server.url()).send().await.unwrap().status(), 406);
    let faults = server.take_faults();
    assert_eq!(faults.len(), 8, "{faults:#?}");
    let discover = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover"});
    assert_eq!(bare.post(&discover).await.status(), 400);
    assert!(server.take_faults().is_empty(), "clients may try that");
}

#[tokio::test]
async fn an_older_version_is_agreed_on_and_needs_no_header() {
    let server = McpServer::spawn().await;
    server.protocol("2025-03-26");
    let mut client = McpClient::new(server.url());
    assert_eq!(client.initialize().await["protocolVersion"], "2025-03-26");
    client.protocol = None;
    assert!(client.names().await.contains(&"echo".to_owned()));
}

#[tokio::test]
async fn answers_come_as_they_are_wanted() {
    let (server, mut client) = opened().await;
    for (answers, count) in [(Answers::Mixed, 4), (Answers::Stream, 4), (Answers::Json, 1)] {
        server.answers(answers);
        let call = json!({"name": "slow", "arguments": {}, "_meta": {"progressToken": "p"}});
        let said = client.ask("tools/call", call).await;
        assert_eq!(said.len(), count, "{answers:?}");
        assert_eq!(said.last().unwrap()["result"]["content"][0]["text"], "done");
    }
    server.answers(Answers::Stream);
    McpClient::new(server.url()).initialize().await;
}

#[tokio::test]
async fn an_answer_may_come_on_the_other_stream_alone() {
    let (server, mut client) = opened().await;
    server.answers(Answers::SessionStream);
    let message = client.message("tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 2}}));
    assert_eq!(client.post(&message).await.status(), 202);
    let mut stream = client.listen().await;
    assert_eq!(server.open_streams(), 1);
    let answer = stream.message().await.unwrap();
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&message["id"], &json!("3")));
    server.restart();
    assert_eq!(stream.message().await, None);
}

#[tokio::test]
async fn a_server_without_sessions_asks_for_none() {
    let server = McpServer::spawn().await;
    server.sessionless();
    let mut client = McpClient::new(server.url());
    client.initialize().await;
    assert_eq!(client.session, None);
    assert_eq!(client.names().await.len(), 11);
    let mut stream = client.listen().await;
    server.notify(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}));
    assert_eq!(stream.message().await.unwrap()["method"], "notifications/message");
    assert_eq!((server.open_sessions(), client.delete().await.as_u16()), (0, 204));
}

#[tokio::test]
async fn http_with_sse_is_spoken_as_well() {
    let server = McpServer::spawn().await;
    server.only_sse();
    assert_eq!(McpClient::new(server.url()).status("initialize").await, 405);
    let response = reqwest::get(server.sse_url()).await.unwrap();
    let mut stream = Events::new(response);
    let (event, endpoint) = stream.next().await.unwrap();
    assert_eq!(event, "endpoint");
    let mut client = McpClient::new(format!("{}{endpoint}", server.base));
    for (method, params) in [("initialize", json!({})), ("tools/call", json!({"name": "read"}))] {
        let message = client.message(method, params);
        assert_eq!(client.post(&message).await.status(), 202);
        assert_eq!(stream.message().await.unwrap()["id"], message["id"]);
    }
    assert_eq!((server.open_sessions(), server.count_calls("read")), (1, 1));
    drop(stream);
    assert!(eventually(async || server.open_sessions() == 0).await, "a session ends with its stream");
}

#[tokio::test]
async fn single_requests_need_no_handshake() {
    let server = McpServer::spawn().await;
    let mut client = McpClient::new(format!("{}/rpc", server.base));
    assert_eq!(client.names().await.len(), 11);
    let answer = client.call("add", json!({"a": 1, "b": 0.5})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "1.5");
    assert_eq!(client.ask("nonsense", json!({})).await[0]["error"]["code"], -32601);
    assert_eq!(server.sessions_made(), 0);
}
