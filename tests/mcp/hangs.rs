//! Servers that take their time, and clients that do not wait for them.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use super::{ask, before, brought, call, item, told};
use antwort_test_support::eventually;
use antwort_test_support::gateway::JsonBody;
use antwort_test_support::mcp_server::{Answers, McpServer};
use antwort_test_support::upstream::Upstream;

#[tokio::test]
async fn requests_wait_for_a_server_that_hangs_together_and_later_ones_not_at_all() {
    for method in ["initialize", "tools/list"] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = before(&upstream)
            .set(|settings| settings.mcp.list_timeout = Duration::from_secs(2))
            .spawn()
            .await;
        server.hang(method);
        let began = Instant::now();
        let responses =
            join_all((0..20).map(|_| async { gateway.create(ask(json!([brought(&server)]))).await })).await;
        assert!(began.elapsed() < Duration::from_secs(10), "{method}: one after the other");
        for response in &responses {
            assert!(item(response, "mcp_list_tools")["error"].is_string(), "{method}: {response:#}");
        }
        assert_eq!(server.count(method), 1, "{method}: asked once for all who wait");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        let problem = item(&response, "mcp_list_tools")["error"].as_str().unwrap().to_owned();
        assert!(problem.contains("next attempt in"), "{method}: {problem}");
        assert_eq!(server.count(method), 1, "{method}: it is left alone");
        server.resume(method);
        let works = async || {
            let response = gateway.create(ask(json!([brought(&server)]))).await;
            item(&response, "mcp_list_tools")["error"].is_null()
        };
        assert!(eventually(works).await, "{method}: it is tried again");
    }
}

#[tokio::test]
async fn a_change_that_cannot_be_listed_does_not_cost_every_request_its_time() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway =
        before(&upstream).set(|settings| settings.mcp.list_timeout = Duration::from_secs(2)).spawn().await;
    gateway.create(ask(json!([brought(&server)]))).await;
    server.hang("tools/list");
    server.change_tools(Vec::new());
    tokio::time::sleep(Duration::from_millis(200)).await;
    gateway.create(ask(json!([brought(&server)]))).await;
    let began = Instant::now();
    for _ in 0..3 {
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert!(item(&response, "mcp_list_tools")["error"].is_null(), "{response:#}");
    }
    assert!(began.elapsed() < Duration::from_secs(2), "each waited");
    assert_eq!(server.count("tools/list"), 2);
}

#[tokio::test]
async fn a_list_that_hangs_does_not_hold_up_those_who_know_an_older_one() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream)
        .set(|settings| {
            settings.mcp.tool_ttl = Duration::from_millis(50);
            settings.mcp.list_timeout = Duration::from_secs(1);
        })
        .spawn()
        .await;
    gateway.create(ask(json!([brought(&server)]))).await;
    server.hang("tools/list");
    tokio::time::sleep(Duration::from_millis(200)).await;
    for text in ["one", "two"] {
        upstream.reply(call("echo", json!({"text": text}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(item(&response, "mcp_call")["output"], text, "{response:#}");
    }
    assert_eq!(server.count("tools/list"), 2, "the second request did not wait for it again");
}

#[tokio::test]
async fn a_call_may_take_long_as_long_as_it_shows_signs_of_life() {
    for answers in [Answers::Stream, Answers::SessionStream] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = before(&upstream)
            .set(|settings| settings.mcp.requests.timeout = Duration::from_millis(800))
            .spawn()
            .await;
        server.answers(answers).slow(10, Duration::from_millis(200));
        upstream.reply(call("slow", json!({}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(item(&response, "mcp_call")["output"], "done", "{answers:?}: {response:#}");
    }
}

#[tokio::test]
async fn a_call_without_a_sign_of_life_is_given_up_and_the_server_told() {
    for (idle, most) in [(400, 60_000), (400_000, 400)] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = before(&upstream)
            .set(|settings| {
                settings.mcp.requests.timeout = Duration::from_millis(idle);
                settings.mcp.requests.max_time = Duration::from_millis(most);
            })
            .spawn()
            .await;
        server.slow(1, Duration::from_secs(60));
        upstream.reply(call("slow", json!({}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        let made = item(&response, "mcp_call");
        assert_eq!((&made["status"], &response["status"]), (&json!("failed"), &json!("completed")));
        assert!(told(&upstream).contains("after 400ms"), "{}", told(&upstream));
        let id = server.calls()[0].id.clone();
        assert!(eventually(async || server.cancelled() == [id.clone()]).await, "{:?}", server.cancelled());
        assert!(eventually(async || server.in_flight() == 0).await);
        upstream.reply(call("echo", json!({"text": "still"}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(item(&response, "mcp_call")["output"], "still");
        assert_eq!(server.count("initialize"), 1, "the session is kept");
    }
}

#[tokio::test]
async fn the_time_that_is_configured_for_one_server_holds_for_it() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.slow(100, Duration::from_millis(100));
    let url = Some(server.url());
    let gateway = before(&upstream)
        .set(|settings| {
            let max_time = Some(Duration::from_millis(500));
            let slow = antwort::config::McpServerSettings { url, max_time, ..Default::default() };
            settings.mcp.servers.insert("slow".into(), slow);
        })
        .spawn()
        .await;
    upstream.reply(call("slow", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([{"type": "mcp", "server_label": "slow"}]))).await;
    assert_eq!(item(&response, "mcp_call")["status"], "failed", "{response:#}");
    assert!(told(&upstream).contains("500ms"), "{}", told(&upstream));
}

#[tokio::test]
async fn a_client_that_goes_away_takes_its_call_with_it() {
    for streamed in [true, false] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = before(&upstream).spawn().await;
        server.slow(1, Duration::from_secs(60));
        upstream.reply(call("slow", json!({})));
        let mut body = ask(json!([brought(&server)]));
        body["stream"] = json!(streamed);
        let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&body).send();
        let go = async {
            // A stream is answered at once, and stays open in `response`.
            let response = request.await;
            std::future::pending::<()>().await;
            drop(response);
        };
        tokio::select! {
            () = go => {}
            there = eventually(async || server.count_calls("slow") == 1) => assert!(there),
        }
        let began = Instant::now();
        assert!(eventually(async || server.cancelled().len() == 1).await, "streamed: {streamed}");
        assert!(began.elapsed() < Duration::from_secs(5), "streamed: {streamed}");
        assert!(eventually(async || server.in_flight() == 0).await);
    }
}
