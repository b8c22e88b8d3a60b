//! Servers that fail: what the model is told, what is tried again, and what never is.

use futures_util::future::join_all;
use serde_json::json;

use super::{ask, before, brought, call, item, told};
use antwort_test_support::eventually;
use antwort_test_support::mcp_server::{Answers, McpServer};
use antwort_test_support::upstream::Upstream;

#[tokio::test]
async fn a_lost_session_is_replaced_and_the_call_made_once() {
    for answers in [Answers::Mixed, Answers::Json, Answers::Stream, Answers::SessionStream] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = before(&upstream).spawn().await;
        server.answers(answers);
        gateway.create(ask(json!([brought(&server)]))).await;
        server.restart();
        upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(item(&response, "mcp_call")["output"], "hi", "{answers:?}: {response:#}");
        assert_eq!((server.count("initialize"), server.count_calls("echo")), (2, 1), "{answers:?}");
    }
}

#[tokio::test]
async fn a_lost_stream_of_the_older_transport_is_replaced() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let mut tool = brought(&server);
    tool["server_url"] = json!(server.sse_url());
    gateway.create(ask(json!([tool]))).await;
    server.restart();
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let response = gateway.create(ask(json!([tool]))).await;
    assert_eq!(item(&response, "mcp_call")["output"], "hi", "{response:#}");
    assert_eq!((server.count("initialize"), server.count_calls("echo")), (2, 1));
}

#[tokio::test]
async fn a_call_that_was_turned_away_is_made_again_only_if_it_changes_nothing() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream)
        .set(|settings| settings.mcp.requests.trust = Some(antwort::config::McpTrust::Annotations))
        .spawn()
        .await;
    server.status_of("tools/call", 1, (503, &[], ""));
    upstream.reply(call("delete_all", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["error"]["code"], 503, "{response:#}");
    assert_eq!((response["status"].as_str(), server.count_calls("delete_all")), (Some("completed"), 0));
    assert!(told(&upstream).contains("503"));

    server.status_of("tools/call", 1, (503, &[], ""));
    upstream.reply(call("read", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["output"], "nothing of note", "{response:#}");
    assert_eq!(server.count_calls("read"), 1);
}

#[tokio::test]
async fn what_a_server_says_of_its_tools_counts_only_where_it_is_trusted() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    server.status_of("tools/call", 1, (503, &[], ""));
    upstream.reply(call("read", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["error"]["code"], 503, "{response:#}");
    assert_eq!(server.count_calls("read"), 0, "it was made again on the server's word");
}

#[tokio::test]
async fn a_server_that_comes_back_under_steady_traffic_is_used_again_within_seconds() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let address = server.base.strip_prefix("http://").unwrap().to_owned();
    server.kill().await;
    let tool = brought(&server);
    let problem = async || {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let response = gateway.create(ask(json!([tool]))).await;
        item(&response, "mcp_list_tools")["error"].as_str().map(str::to_owned)
    };
    for _ in 0..10 {
        let problem = problem().await.expect("nobody listens");
        assert!(problem.matches("next attempt").count() <= 1, "{problem}");
        assert!(problem.matches("cannot be reached").count() <= 1 && problem.len() < 200, "{problem}");
    }
    let server = McpServer::spawn_on(&address).await;
    let back = std::time::Instant::now();
    while problem().await.is_some() {
        assert!(back.elapsed() < std::time::Duration::from_secs(6), "it is still left alone");
    }
    assert_eq!(server.count("initialize"), 1);
}

#[tokio::test]
async fn an_error_of_megabytes_is_cut_before_anybody_reads_it() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.errors("echo", -32000, &"\u{1b}x".repeat(500_000));
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    let error = item(&response, "mcp_call")["error"].to_string();
    assert!(error.len() < 20_000 && !error.contains("\\u001b"), "{} bytes", error.len());
    assert!(told(&upstream).len() < 20_000 && !told(&upstream).contains('\u{1b}'));
}

#[tokio::test]
async fn a_call_that_may_have_run_is_never_made_twice() {
    for answers in [Answers::Stream, Answers::Json] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = before(&upstream)
            .set(|settings| settings.mcp.requests.timeout = std::time::Duration::from_secs(1))
            .spawn()
            .await;
        server.answers(answers).withholds("delete_all");
        upstream.reply(call("delete_all", json!({}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        let made = item(&response, "mcp_call");
        assert_eq!(made["status"], "failed", "{answers:?}: {made:#}");
        assert_eq!(server.count_calls("delete_all"), 1, "{answers:?}");
        assert!(told(&upstream).starts_with("Error: "));
        upstream.reply(call("echo", json!({"text": "still"}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(item(&response, "mcp_call")["output"], "still", "{answers:?}");
    }
}

#[tokio::test]
async fn a_server_that_refuses_to_begin_sinks_nothing_and_is_asked_again() {
    for (status, headers) in [(503, &[][..]), (500, &[]), (429, &[("retry-after", "0")])] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = before(&upstream).spawn().await;
        server.status_of("initialize", 1, (status, headers, "go away"));
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(response["status"], "completed");
        let list = item(&response, "mcp_list_tools");
        assert!(list["error"].as_str().unwrap().contains(&status.to_string()), "{list:#}");
        assert!(
            !list["error"].as_str().unwrap().contains("go away"),
            "what a server says in an error is not passed on"
        );
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(item(&response, "mcp_list_tools")["error"], json!(null), "{status}");
    }
}

#[tokio::test]
async fn a_server_that_wants_to_be_left_alone_is() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    server.too_many(1, "20");
    for _ in 0..5 {
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert!(item(&response, "mcp_list_tools")["error"].as_str().unwrap().contains("429"));
    }
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_server_that_comes_back_is_called_again() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call("echo", json!({"text": "one"}))).text("Done.");
    gateway.create(ask(json!([brought(&server)]))).await;
    let address = server.base.strip_prefix("http://").unwrap().to_owned();
    server.kill().await;
    drop(server);
    let server = McpServer::spawn_on(&address).await;
    upstream.reply(call("echo", json!({"text": "two"}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["output"], "two", "{response:#}");
    assert_eq!((server.count("initialize"), server.count_calls("echo")), (1, 1));
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_not_called_again_for_it() {
    for older in [false, true] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = before(&upstream).spawn().await;
        server.slow(1, std::time::Duration::from_secs(60));
        let mut tool = brought(&server);
        if older {
            tool["server_url"] = json!(server.sse_url());
        }
        let address = server.base.strip_prefix("http://").unwrap().to_owned();
        upstream.reply(call("slow", json!({}))).text("Done.");
        let revive = async || {
            assert!(eventually(async || server.count_calls("slow") == 1).await);
            server.kill().await;
            McpServer::spawn_on(&address).await
        };
        let (response, again) = tokio::join!(gateway.create(ask(json!([tool]))), revive());
        let made = item(&response, "mcp_call");
        assert_eq!(
            (&made["status"], &response["status"]),
            (&json!("failed"), &json!("completed")),
            "{made:#}"
        );
        assert!(told(&upstream).starts_with("Error: "));
        assert_eq!(again.count_calls("slow"), 0);
        upstream.reply(call("echo", json!({"text": "back"}))).text("Done.");
        let response = gateway.create(ask(json!([tool]))).await;
        assert_eq!(item(&response, "mcp_call")["output"], "back", "{response:#}");
    }
}

#[tokio::test]
async fn a_server_that_is_gone_costs_its_calls_and_not_the_response() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    gateway.create(ask(json!([brought(&server)]))).await;
    server.kill().await;
    for _ in 0..4 {
        upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(response["status"], "completed");
        assert_eq!(item(&response, "mcp_call")["status"], "failed", "{response:#}");
    }
}

#[tokio::test]
async fn a_session_that_many_calls_find_lost_is_replaced_once() {
    for older in [false, true] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = before(&upstream).spawn().await;
        let mut tool = brought(&server);
        if older {
            tool["server_url"] = json!(server.sse_url());
        }
        gateway.create(ask(json!([tool]))).await;
        server.restart();
        for i in 0..20 {
            upstream.reply(call("echo", json!({"text": i.to_string()})));
        }
        let run = || async { gateway.create(ask(json!([tool]))).await };
        let responses = join_all((0..20).map(|_| run())).await;
        for made in responses.iter().flat_map(|response| response["output"].as_array().unwrap()) {
            assert!(made["type"] != "mcp_call" || made["status"] == "completed", "older: {older}: {made:#}");
        }
        assert_eq!((server.count_calls("echo"), server.count("initialize")), (20, 2), "older: {older}");
        assert_eq!(server.open_sessions(), 1, "older: {older}: one is left behind");
    }
}

#[tokio::test]
async fn what_became_of_a_tool_since_it_was_listed_is_the_servers_to_judge() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    gateway.create(ask(json!([brought(&server)]))).await;
    server.redefine("echo", |tool| tool["description"] = json!("Another one by now."));
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["output"], "hi");
    server.set_tools(Vec::new());
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    let error = &item(&response, "mcp_call")["error"];
    assert_eq!(
        (&error["type"], &error["code"]),
        (&json!("mcp_protocol_error"), &json!(-32602)),
        "{response:#}"
    );
    assert!(told(&upstream).contains("Unknown tool: echo"));
}

#[tokio::test]
async fn a_server_that_would_not_have_a_call_is_neither_asked_again_nor_left_alone() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    for status in [400, 403, 413, 422] {
        server.status_of("tools/call", 2, (status, &[], "no"));
        for _ in 0..2 {
            upstream.reply(call("read", json!({}))).text("Done.");
            let response = gateway.create(ask(json!([brought(&server)]))).await;
            assert_eq!(item(&response, "mcp_call")["error"]["code"], status, "{response:#}");
        }
    }
    let calls = server.requests().iter().filter(|request| request.body["method"] == "tools/call").count();
    assert_eq!(calls, 8);
    upstream.reply(call("read", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["status"], "completed", "{response:#}");
}

#[tokio::test]
async fn an_error_is_not_longer_than_a_model_can_do_with() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    server.errors("boom", -32000, &format!("words\0{}", "\u{e9}".repeat(1 << 20)));
    upstream.reply(call("boom", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["error"]["code"], -32000);
    let words = told(&upstream);
    assert!(
        words.starts_with("Error: words") && words.contains('\u{e9}') && !words.contains('\0'),
        "{words}"
    );
    assert!(told(&upstream).len() < 10_000 && response.to_string().len() < 50_000);
}
