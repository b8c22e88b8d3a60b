//! Servers that say more than anybody asked for, as clients and operators see it.

use antwort::config::McpServerSettings;
use serde_json::{Value, json};

use super::{ask, before, brought, call, item};
use antwort_test_support::eventually;
use antwort_test_support::gateway::JsonBody;
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::Upstream;

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
    assert!(error.contains("too many unsolicited messages"), "{response:#}");
    assert_eq!(response["status"], "completed", "the model was told");
    let mut answers = answers_to_notified(&server);
    assert!(answers <= 256, "{answers}");

    // However many clients want it, it is not connected to time and again.
    server.resume("tools/call");
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

/// A server that shakes hands and answers whatever else it is asked with requests of its own, without end.
async fn endless() -> String {
    use axum::body::{Body, Bytes};
    use axum::response::IntoResponse;
    let answer = async |method: axum::http::Method, body: String| {
        let message: Value = serde_json::from_str(&body).unwrap_or_default();
        match (method.as_str(), message["method"].as_str()) {
            ("POST", Some("initialize")) => {
                axum::Json(json!({"jsonrpc": "2.0", "id": message["id"], "result":
                {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                 "serverInfo": {"name": "hostile", "version": "1"}}}))
                .into_response()
            }
            ("GET", _) | ("POST", Some("tools/list")) => {
                let mut id = 0;
                let pings = futures_util::stream::repeat_with(move || {
                    let text: String = (id..id + 100).map(|id| format!("data: {}\n\n", ping(id))).collect();
                    id += 100;
                    Ok::<_, std::convert::Infallible>(Bytes::from(text))
                });
                ([("content-type", "text/event-stream")], Body::from_stream(pings)).into_response()
            }
            _ => axum::http::StatusCode::ACCEPTED.into_response(),
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(answer);
    #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

#[tokio::test]
async fn servers_that_ask_without_end_take_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let environment = [("ANTWORT_LOG", "error"), ("ANTWORT_EGRESS_ALLOW", "127.0.0.1")];
    let gateway = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    let hostile = endless().await;
    let create = async |number: usize| {
        let url = format!("{hostile}?i={number}");
        let tool =
            json!({"type": "mcp", "server_label": "s", "server_url": url, "require_approval": "never"});
        let url = format!("{}/v1/responses", gateway.base);
        let answer = reqwest::Client::new().post(url).json_body(&ask(json!([tool]))).send().await.unwrap();
        let answer = answer.text().await.unwrap();
        assert!(
            answer.contains("too many unsolicited messages") && answer.contains("\"completed\""),
            "{answer}"
        );
    };
    create(0).await;
    let before = gateway.peak_memory();
    for number in 1..16 {
        create(number).await;
    }
    // The streams of the sessions are still asked for, had they not been given up.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let grown = (gateway.peak_memory() - before) / 1024;
    eprintln!("16 hostile servers: {grown} KiB");
    assert!(grown <= 32 * 1024, "{grown} KiB");
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
