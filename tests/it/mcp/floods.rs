//! Servers that say more than anybody asked for, as clients and operators see it.

use antwort::config::McpServerSettings;
use serde_json::{Value, json};

use super::{ask, before, brought, call, item};
use crate::support::eventually;
use crate::support::gateway::JsonBody;
use crate::support::mcp_server::McpServer;
use crate::support::process::Process;
use crate::support::upstream::Upstream;

fn ping(id: usize) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

fn logged(text: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": text}})
}

/// Answers to what it was made to ask by `notify`, which it does not know to be questions of its own.
fn answers_to_notified(server: &McpServer) -> usize {
    let faults = server.take_faults();
    assert!(faults.iter().all(|fault| fault.starts_with("an answer to no question")), "{faults:#?}");
    faults.len()
}

#[tokio::test]
async fn a_server_that_asks_without_end_fails_its_calls_and_is_left_alone() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let known = McpServerSettings { url: Some(server.url()), ..McpServerSettings::default() };
    let gateway = before(&upstream)
        .set(|settings| _ = settings.mcp.servers.insert("known".into(), known))
        .spawn()
        .await;
    let tool = json!([{"type": "mcp", "server_label": "known"}]);
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    gateway.create(ask(tool.clone())).await;
    assert!(eventually(async || server.open_streams() == 1).await);

    // It asks while it works on a call.
    server.hang("tools/call");
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let asks = async {
        assert!(eventually(async || server.in_flight() == 1).await);
        (0..2_000).for_each(|id| _ = server.notify(ping(id)));
    };
    let (response, ()) = tokio::join!(gateway.create(ask(tool.clone())), asks);
    let error = item(&response, "mcp_call")["error"].to_string();
    assert!(error.contains("asks too much"), "{response:#}");
    assert_eq!(response["status"], "completed", "the model was told");
    let mut answers = answers_to_notified(&server);
    assert!(answers <= 256, "{answers}");

    // However many clients want it, it is not connected to time and again.
    server.go_on("tools/call");
    for _ in 0..20 {
        assert!(eventually(async || server.open_streams() <= 1).await);
        (0..2_000).for_each(|id| _ = server.notify(ping(id)));
        upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
        gateway.create(ask(tool.clone())).await;
    }
    assert!(server.sessions_made() <= 8, "{}", server.sessions_made());
    answers += answers_to_notified(&server);
    assert!(answers <= 8 * 256, "{answers}");
}

#[tokio::test]
async fn what_servers_log_is_logged_so_often_and_of_strangers_only_for_those_who_look() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, known, stranger) =
        (Upstream::spawn().await, McpServer::spawn().await, McpServer::spawn().await);
    let settings = json!({"mcp": {"servers": {"known": {"url": known.url()}}}});
    std::fs::write(folder.path().join("antwort.yaml"), settings.to_string()).unwrap();
    let environment = [("ANTWORT_LOG", "info"), ("ANTWORT_EGRESS_ALLOW", "127.0.0.1")];
    let mut gateway = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    let url = format!("{}/v1/responses", gateway.base);
    let create = async |tool: Value| {
        upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
        let body = ask(json!([tool]));
        reqwest::Client::new().post(&url).json_body(&body).send().await.unwrap().text().await.unwrap()
    };
    for tool in [json!({"type": "mcp", "server_label": "known"}), brought(&stranger)] {
        let response = create(tool).await;
        assert!(response.contains("\"completed\""), "{response}");
    }
    for server in [&known, &stranger] {
        assert!(eventually(async || server.open_streams() == 1).await);
    }
    let long = "x".repeat(10_000);
    for number in 0..5_000 {
        known.notify(logged(&format!("known says {number} {long}")));
        stranger.notify(logged(&format!("stranger says {number}")));
    }
    // Whatever comes behind it is read behind it.
    for server in [&known, &stranger] {
        server.notify(ping(1));
        assert!(eventually(async || answers_to_notified(server) == 1).await);
    }
    gateway.terminate();
    assert!(eventually(async || gateway.exit_code().is_some()).await);
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    let said = lines("known says");
    assert!((20..=60).contains(&said), "{said} lines");
    assert_eq!(lines("stranger says"), 0);
    assert!(lines("more log lines were dropped") >= 1, "{log}");
    assert!(log.lines().all(|line| line.len() < 6_000), "lines are cut");
}
