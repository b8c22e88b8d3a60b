//! Many runs over few connections: how many calls at a time, how many connections, and what is left in the end.

use std::time::Duration;

use antwort::config::Settings;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{ask, before, brought, call, item, kinds};
use antwort_test_support::eventually;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::Upstream;

/// The server, as shown this token: each has a session of its own.
fn with_token(server: &McpServer, token: &str) -> Value {
    let mut tool = brought(server);
    tool["authorization"] = json!(token);
    tool
}

/// A gauge of `/metrics`.
async fn gauge(gateway: &Gateway, name: &str) -> i64 {
    let text = gateway.get("/metrics").await.body.as_str().unwrap().to_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

#[tokio::test]
async fn a_hundred_runs_share_a_connection_and_wait_for_their_turn() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).set(|settings| settings.mcp.requests.max_in_flight = 4).spawn().await;
    server.delay("tools/call", Duration::from_millis(20));
    for i in 0..100 {
        upstream.reply(call("echo", json!({"text": i.to_string()})));
    }
    let most = std::cell::Cell::new(0);
    let watch = async {
        loop {
            most.set(most.get().max(server.in_flight()));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let runs = join_all((0..100).map(|_| async { gateway.create(ask(json!([brought(&server)]))).await }));
    let responses =
        tokio::select! { responses = runs => responses, () = watch => unreachable!("it goes on for ever") };
    assert_eq!(server.count_calls("echo"), 100);
    assert_eq!((server.count("initialize"), server.count("tools/list")), (1, 1));
    assert!((2..=4).contains(&most.get()), "{} calls at a time", most.get());
    let made = responses.iter().flat_map(|response| response["output"].as_array().unwrap());
    for made in made.filter(|item| item["type"] == "mcp_call") {
        let arguments: Value = serde_json::from_str(made["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(made["output"], arguments["text"], "an answer to another's call");
    }
}

#[tokio::test]
async fn the_connection_that_was_idle_for_longest_makes_way() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).set(|settings| settings.mcp.sessions.max = 2).spawn().await;
    for token in ["one", "two", "one", "three"] {
        gateway.create(ask(json!([with_token(&server, token)]))).await;
        // Last uses are told apart by the clock.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(eventually(async || server.sessions_deleted() == 1).await);
    gateway.create(ask(json!([with_token(&server, "one")]))).await;
    assert_eq!(server.sessions_made(), 3, "`one` was used after `two`");
    assert_eq!(server.open_sessions(), 2);
    assert_eq!(gauge(&gateway, "antwort_mcp_sessions").await, 2);
}

#[tokio::test]
async fn a_request_is_refused_while_all_connections_are_busy() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let set = |settings: &mut Settings| {
        settings.mcp.sessions.max = 1;
        settings.server.queue_timeout = Duration::from_millis(50);
    };
    let gateway = before(&upstream).set(set).spawn().await;
    server.slow(1, Duration::from_secs(2));
    upstream.reply(call("slow", json!({}))).text("Done.");
    let busy = gateway.create(ask(json!([with_token(&server, "one")])));
    let refused = async {
        assert!(eventually(async || server.count_calls("slow") == 1).await);
        let body = ask(json!([with_token(&server, "two")]));
        let answer = gateway.post("/v1/responses", &body).await;
        assert_eq!(answer.status, 503, "{:#}", answer.body);
        assert_eq!(answer.body["error"]["code"], "server_is_overloaded");
        assert!(answer.headers.contains_key("retry-after"));
        // The same server is there for who has its connection.
        gateway.create(ask(json!([with_token(&server, "one")]))).await;
    };
    let (done, ()) = tokio::join!(busy, refused);
    assert_eq!(item(&done, "mcp_call")["output"], "done");
    gateway.create(ask(json!([with_token(&server, "two")]))).await;
}

#[tokio::test]
async fn nothing_is_left_of_many_calls() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream)
        .set(|settings| settings.mcp.sessions.idle_timeout = Duration::from_secs(1))
        .spawn()
        .await;
    for i in 0..300 {
        let (name, arguments) = match i % 10 {
            0 => ("fail", json!({})),
            1 => ("boom", json!({})),
            2 => ("slow", json!({})),
            _ => ("echo", json!({"text": i.to_string()})),
        };
        upstream.reply(call(name, arguments));
    }
    let one = |run: usize| {
        let (gateway, server) = (&gateway, &server);
        async move {
            let mut left = 10_i32;
            while left > 0 {
                let mut tool = with_token(server, &format!("token-{}", run % 3));
                if run.is_multiple_of(2) {
                    tool["server_url"] = json!(server.sse_url());
                }
                let response = gateway.create(ask(json!([tool]))).await;
                let made = kinds(&response).iter().filter(|kind| **kind == "mcp_call").count();
                left -= i32::try_from(made).unwrap().max(1);
            }
        }
    };
    join_all((0..30).map(one)).await;
    assert!(server.calls().len() > 200, "{} calls", server.calls().len());
    assert_eq!(gauge(&gateway, "antwort_mcp_calls_in_flight").await, 0);
    let gone = eventually(async || gauge(&gateway, "antwort_mcp_sessions").await == 0).await;
    assert!(gone, "{} sessions are counted", gauge(&gateway, "antwort_mcp_sessions").await);
    assert!(eventually(async || server.open_sessions() == 0).await, "{} are open", server.open_sessions());
    assert!(eventually(async || server.open_streams() == 0).await);
    assert_eq!((server.in_flight(), server.sessions_deleted()), (0, server.sessions_made()));
    gateway.create(ask(json!([brought(&server)]))).await;
}

#[tokio::test]
async fn connections_are_closed_in_order_when_the_gateway_stops() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    for token in ["one", "two"] {
        gateway.create(ask(json!([with_token(&server, token)]))).await;
    }
    gateway.stop().await;
    assert_eq!((server.sessions_deleted(), server.open_sessions()), (2, 0));
}
