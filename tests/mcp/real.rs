//! Servers that others wrote. Run by `scripts/test-mcp`, which installs them.

mod gateway;

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

use antwort_test_support::mcp_client::{Events, McpClient};
use antwort_test_support::real_servers::{self, Everything, Program};

#[tokio::test]
#[ignore = "needs the servers that scripts/test-mcp installs"]
async fn the_everything_server_answers_over_streamable_http() {
    let server = Everything::streamable().await;
    let mut client = McpClient::new(&server.url);
    client.initialize().await;
    assert!(client.session.is_some());
    assert!(client.names().await.contains(&"echo".to_owned()));
    let answer = client.call("echo", json!({"message": "hi"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "Echo: hi");
    assert_eq!(client.delete().await, 200);
    assert!(TcpStream::connect(("127.0.0.1", server.port)).await.is_ok());
    assert!(TcpStream::connect(("127.0.0.2", server.port)).await.is_err(), "it listens on all interfaces");
}

#[tokio::test]
#[ignore = "needs the servers that scripts/test-mcp installs"]
async fn the_everything_server_answers_over_http_with_sse() {
    let server = Everything::sse().await;
    let mut stream = Events::new(reqwest::get(&server.url).await.unwrap());
    let (event, endpoint) = stream.next().await.unwrap();
    assert_eq!(event, "endpoint");
    let base = server.url.strip_suffix("/sse").unwrap();
    let mut client = McpClient::new(format!("{base}{endpoint}"));
    for (method, params) in handshake() {
        if method.starts_with("notifications/") {
            client.post(&json!({"jsonrpc": "2.0", "method": method})).await;
            continue;
        }
        let message = client.message(method, params);
        assert_eq!(client.post(&message).await.status(), 202);
        let answer = answer_to(&message["id"], async || stream.message().await.unwrap()).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    assert!(TcpStream::connect(("127.0.0.2", server.port)).await.is_err(), "it listens on all interfaces");
}

#[tokio::test]
#[ignore = "needs the servers that scripts/test-mcp installs"]
async fn every_program_shakes_hands_and_lists_its_tools() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (program, tool) in [
        (real_servers::everything(), "echo"),
        (real_servers::filesystem(path), "read_text_file"),
        (real_servers::memory(&path.join("memory.json")), "create_entities"),
        (real_servers::time(), "get_current_time"),
        (real_servers::git(&path.join("repository")), "git_log"),
    ] {
        let tools = list(&program).await;
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert!(names.contains(&tool), "{}: {names:?}", program.command);
    }
}

/// The tools of a program.
async fn list(program: &Program) -> Vec<Value> {
    let mut child = Command::new(&program.command)
        .args(&program.args)
        .envs(program.env.iter().cloned())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = Value::Null;
    for (id, (method, params)) in handshake().into_iter().enumerate() {
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let is_request = !method.starts_with("notifications/");
        if is_request {
            message["id"] = json!(id);
        }
        input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        if is_request {
            let next = async || serde_json::from_str(&output.next_line().await.unwrap().unwrap()).unwrap();
            last = answer_to(&json!(id), next).await;
        }
    }
    last["result"]["tools"].as_array().unwrap().clone()
}

/// What is said to a server first.
fn handshake() -> [(&'static str, Value); 3] {
    let client = json!({"name": "tests", "version": "0"});
    [
        ("initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})),
        ("notifications/initialized", json!({})),
        ("tools/list", json!({})),
    ]
}

/// The answer to a request among all that is said meanwhile.
async fn answer_to(id: &Value, mut next: impl AsyncFnMut() -> Value) -> Value {
    loop {
        let message = tokio::time::timeout(Duration::from_secs(30), next()).await.expect("no answer");
        if message["id"] == *id && message.get("method").is_none() {
            return message;
        }
    }
}
