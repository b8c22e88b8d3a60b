//! The same servers through the gateway.

use std::time::Duration;

use antwort::config::{McpServerSettings, McpTransport};
use serde_json::{Value, json};

use super::super::{ask, before, item, kinds};
use antwort_test_support::gateway::{Builder, Gateway};
use antwort_test_support::real_servers::{self, Everything, Program, Sessions};
use antwort_test_support::upstream::{Reply, Upstream};

/// A program as the configuration names it.
fn program(program: Program) -> McpServerSettings {
    let Program { command, args, env } = program;
    let env = env.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    McpServerSettings { command: Some(command), args, env, ..McpServerSettings::default() }
}

fn at(url: &str, transport: Option<McpTransport>) -> McpServerSettings {
    McpServerSettings { url: Some(url.to_owned()), transport, ..McpServerSettings::default() }
}

fn with(builder: Builder, servers: Vec<(&str, McpServerSettings)>) -> Builder {
    builder.set(|settings| {
        // Interpreters take their time on a busy machine.
        settings.mcp.list_timeout = Duration::from_secs(60);
        settings.mcp.servers =
            servers.into_iter().map(|(label, server)| (label.to_owned(), server)).collect();
    })
}

fn named(labels: &[&str]) -> Value {
    labels.iter().map(|label| json!({"type": "mcp", "server_label": label})).collect()
}

/// The output of the call of a tool.
async fn called(
    gateway: &Gateway,
    upstream: &Upstream,
    label: &str,
    tool: &'static str,
    arguments: Value,
) -> Value {
    upstream.reply(Reply::Calls(vec![(tool, arguments)])).text("Done.");
    let response = gateway.create(ask(named(&[label]))).await;
    assert_eq!(kinds(&response), ["mcp_list_tools", "mcp_call", "message"], "{response:#}");
    let made = item(&response, "mcp_call").clone();
    assert_eq!(made["status"], "completed", "{made:#}");
    made["output"].clone()
}

#[tokio::test]
#[ignore = "needs the servers that scripts/test-mcp installs"]
async fn one_response_uses_three_servers_streamed_and_not() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("note.txt"), "Buy milk.").unwrap();
    let note = folder.path().join("note.txt");
    let upstream = Upstream::spawn().await;
    let servers = vec![
        ("files", program(real_servers::filesystem(folder.path()))),
        ("clock", program(real_servers::time())),
        ("memory", program(real_servers::memory(&folder.path().join("memory.json")))),
    ];
    let gateway = with(before(&upstream), servers).spawn().await;
    let entity = json!({"name": "milk", "entityType": "thing", "observations": ["is to be bought"]});
    for _ in 0..2 {
        upstream
            .reply(Reply::Calls(vec![
                ("read_text_file", json!({"path": note})),
                ("get_current_time", json!({"timezone": "Asia/Tokyo"})),
                ("create_entities", json!({"entities": [entity]})),
            ]))
            .reply(Reply::Calls(vec![("search_nodes", json!({"query": "milk"}))]))
            .text("Done.");
    }
    for response in gateway.both(ask(named(&["files", "clock", "memory"]))).await {
        let kinds = kinds(&response);
        assert_eq!(kinds[..3], ["mcp_list_tools"; 3], "{response:#}");
        assert_eq!(kinds[3..], ["mcp_call", "mcp_call", "mcp_call", "mcp_call", "message"], "{response:#}");
        let output = |place: usize| response["output"][place]["output"].as_str().unwrap().to_owned();
        assert!(output(3).contains("Buy milk."), "{}", output(3));
        assert!(output(4).contains("Asia/Tokyo"), "{}", output(4));
        assert!(output(6).contains("is to be bought"), "{}", output(6));
        assert_eq!(response["status"], "completed");
    }
    gateway.stop().await;
}

#[tokio::test]
#[ignore = "needs the servers that scripts/test-mcp installs"]
async fn the_everything_server_is_called_over_each_of_its_transports() {
    let upstream = Upstream::spawn().await;
    let (streamable, sse) = (Everything::streamable().await, Everything::sse().await);
    let servers = vec![
        ("stdio", program(real_servers::everything())),
        ("http", at(&streamable.url, Some(McpTransport::StreamableHttp))),
        ("auto", at(&streamable.url, None)),
        ("sse", at(&sse.url, Some(McpTransport::Sse))),
        ("old", at(&sse.url, None)),
    ];
    let gateway = with(before(&upstream), servers).spawn().await;
    for label in ["stdio", "http", "auto", "sse", "old"] {
        let echo = called(&gateway, &upstream, label, "echo", json!({"message": label})).await;
        assert_eq!(echo, format!("Echo: {label}"));
        let image = called(&gateway, &upstream, label, "get-tiny-image", json!({})).await;
        assert!(image.as_str().unwrap().contains("image/png"), "{label}: {image}");
        let sum = called(&gateway, &upstream, label, "get-sum", json!({"a": 2, "b": 3})).await;
        assert!(sum.as_str().unwrap().contains('5'), "{label}: {sum}");
    }
    // As a request brings them.
    for url in [&streamable.url, &sse.url] {
        let tool =
            json!({"type": "mcp", "server_label": "mine", "server_url": url, "require_approval": "never"});
        upstream.reply(Reply::Calls(vec![("echo", json!({"message": "hi"}))])).text("Done.");
        let response = gateway.create(ask(json!([tool]))).await;
        assert_eq!(item(&response, "mcp_call")["output"], "Echo: hi", "{response:#}");
    }
    gateway.stop().await;
}

#[tokio::test]
#[ignore = "needs the servers that scripts/test-mcp installs"]
async fn a_repository_is_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let servers = vec![("git", program(real_servers::git(folder.path())))];
    let gateway = with(before(&upstream), servers).spawn().await;
    let status = called(&gateway, &upstream, "git", "git_status", json!({"repo_path": folder.path()})).await;
    assert!(status.as_str().unwrap().contains("On branch"), "{status}");
    gateway.stop().await;
}

#[tokio::test]
#[ignore = "needs the servers that scripts/test-mcp installs"]
async fn a_server_of_an_sdk_that_was_restarted_answers_the_next_call() {
    for (sdk, mode) in [("typescript", ""), ("typescript", "strict"), ("python", ""), ("python-1.12", "")] {
        let mut server = Sessions::start(sdk, mode);
        let upstream = Upstream::spawn().await;
        let servers = vec![("s", at(&server.url(), Some(McpTransport::StreamableHttp)))];
        let gateway = with(before(&upstream), servers).spawn().await;
        for text in ["one", "two", "three"] {
            upstream.reply(Reply::Calls(vec![("echo", json!({"text": text}))])).text("Done.");
            let response = gateway.create(ask(named(&["s"]))).await;
            let made = item(&response, "mcp_call");
            assert_eq!(made["output"], text, "{sdk} {mode}: {made:#}");
            server.restart();
        }
    }
}
