//! Which tools of a server are offered, under which names, and when they are asked for anew.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ask, before, brought, call, item, kinds};
use antwort_test_support::mcp_server::{McpServer, tools};
use antwort_test_support::upstream::Upstream;

fn offered(upstream: &Upstream) -> Vec<String> {
    let tools = upstream.last()["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn names_are_bare_where_they_are_unique_and_labelled_where_not() {
    let (upstream, a, b) = (Upstream::spawn().await, McpServer::spawn().await, McpServer::spawn().await);
    a.set_tools(vec![tools::tool("search", json!({})), tools::tool("one", json!({}))]);
    b.set_tools(vec![tools::tool("search", json!({})), tools::tool("mine", json!({}))]);
    let gateway = before(&upstream).spawn().await;
    let server = |label: &str, server: &McpServer| json!({"type": "mcp", "server_label": label, "server_url": server.url(), "require_approval": "never"});
    let function = json!({"type": "function", "name": "mine", "parameters": {"type": "object"}});
    upstream.reply(call("b__search", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([server("a", &a), function, server("b", &b)]))).await;
    assert_eq!(offered(&upstream), ["mine", "a__search", "one", "b__search", "b__mine"]);
    let made = item(&response, "mcp_call");
    assert_eq!((&made["name"], &made["server_label"]), (&json!("search"), &json!("b")));
    assert_eq!((a.count_calls("search"), b.count_calls("search")), (0, 1));
}

#[tokio::test]
async fn names_that_no_provider_takes_are_changed_and_found_again() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.set_tools(tools::odd_names());
    let gateway = before(&upstream).spawn().await;
    upstream.text("Done.");
    gateway.create(ask(json!([brought(&server)]))).await;
    for (offered, tool) in offered(&upstream).into_iter().zip(tools::odd_names()) {
        assert!(offered.len() <= 64 && offered.is_ascii(), "{offered}");
        upstream.reply(call(offered.leak(), json!({}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(item(&response, "mcp_call")["name"], tool["name"]);
        assert_eq!(server.count_calls(tool["name"].as_str().unwrap()), 1);
    }
}

#[tokio::test]
async fn a_list_is_shown_once_in_a_conversation_unless_it_changes() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let first = gateway.create(ask(json!([brought(&server)]))).await;
    let on = |previous: &Value| {
        let mut body = ask(json!([brought(&server)]));
        body["previous_response_id"] = previous["id"].clone();
        body
    };
    let second = gateway.create(on(&first)).await;
    assert_eq!((kinds(&first)[0], kinds(&second)[0]), ("mcp_list_tools", "message"));
    server.change_tools(vec![tools::tool("other", json!({}))]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let third = gateway.create(on(&second)).await;
    assert_eq!(item(&third, "mcp_list_tools")["tools"][0]["name"], "other");
    assert_eq!(offered(&upstream), ["other"]);
}

#[tokio::test]
async fn tools_that_change_between_turns_are_offered_in_the_next() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.slow(1, Duration::from_millis(300));
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call("slow", json!({}))).text("Done.");
    let body = ask(json!([brought(&server)]));
    let (response, ()) = tokio::join!(gateway.create(body), async {
        while server.count_calls("slow") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.change_tools(vec![tools::tool("fresh", json!({}))]);
    });
    assert_eq!(kinds(&response), ["mcp_list_tools", "mcp_call", "mcp_list_tools", "message"]);
    assert_eq!(offered(&upstream), ["fresh"]);
}

#[tokio::test]
async fn a_server_that_was_restarted_is_listed_anew_and_shown_only_if_its_tools_differ() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    gateway.create(ask(json!([brought(&server)]))).await;
    for same in [true, false] {
        server.restart();
        if !same {
            server.add_tools(vec![tools::tool("fresh", json!({}))]);
        }
        upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(item(&response, "mcp_call")["output"], "hi", "{response:#}");
        let lists = kinds(&response).iter().filter(|kind| **kind == "mcp_list_tools").count();
        assert_eq!(lists, if same { 1 } else { 2 }, "{response:#}");
        assert_eq!(offered(&upstream).contains(&"fresh".to_owned()), !same);
    }
}

#[tokio::test]
async fn a_server_that_fails_or_hangs_sinks_nothing_but_itself() {
    let (upstream, bad, good) = (Upstream::spawn().await, McpServer::spawn().await, McpServer::spawn().await);
    bad.hang("tools/list");
    let gateway = before(&upstream)
        .set(|settings| settings.mcp.list_timeout = Duration::from_millis(400))
        .spawn()
        .await;
    let mut sunk = brought(&bad);
    sunk["server_label"] = json!("bad");
    upstream.reply(call("echo", json!({"text": "still"}))).text("Done.");
    let streamed = gateway.stream(ask(json!([sunk, brought(&good)]))).await;
    let failed = streamed.events.iter().any(|event| event["type"] == "response.mcp_list_tools.failed");
    assert!(failed, "{:#?}", streamed.events);
    let list = &streamed.response["output"][0];
    assert_eq!(list["tools"], json!([]));
    assert!(list["error"].as_str().unwrap().contains("no answer"), "{list}");
    assert_eq!(item(&streamed.response, "mcp_call")["output"], "still");
}

#[tokio::test]
async fn a_required_server_that_fails_sinks_the_response() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.status(500, 10);
    let url = server.url();
    let gateway = before(&upstream)
        .set(|settings| {
            let server =
                antwort::config::McpServerSettings { url: Some(url), required: true, ..Default::default() };
            settings.mcp.servers.insert("needed".into(), server);
        })
        .spawn()
        .await;
    let tool = json!({"type": "mcp", "server_label": "needed"});
    gateway.refuse(ask(json!([tool])), 424, "mcp_server_unavailable").await;
}

#[tokio::test]
async fn a_tool_with_a_bad_schema_is_left_out_alone() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.set_tools([tools::odd_schemas(), tools::duplicates(), tools::base()].concat());
    let gateway = before(&upstream).spawn().await;
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    let names = offered(&upstream);
    assert!(!names.contains(&"schema_string".to_owned()), "{names:?}");
    assert!(!names.contains(&"schema_missing".to_owned()));
    assert!(names.contains(&"schema_refs".to_owned()) && names.contains(&"echo".to_owned()));
    assert_eq!(names.iter().filter(|name| *name == "twin").count(), 1);
    assert_eq!(item(&response, "mcp_list_tools")["error"], json!(null));
    for tool in upstream.last()["tools"].as_array().unwrap() {
        assert_eq!(tool["function"]["parameters"]["type"], "object", "{tool:#}");
    }
}

#[tokio::test]
async fn only_allowed_tools_are_offered() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    for (allowed, expected) in [
        (json!(["echo", "nobody"]), vec!["echo"]),
        (json!({"read_only": true}), vec!["read"]),
        (json!({"tool_names": ["read", "echo"], "read_only": false}), vec!["echo"]),
    ] {
        let mut tool = brought(&server);
        tool["allowed_tools"] = allowed;
        let response = gateway.create(ask(json!([tool]))).await;
        assert_eq!(offered(&upstream), expected);
        let shown = item(&response, "mcp_list_tools")["tools"].as_array().unwrap().clone();
        assert_eq!(shown.len(), expected.len());
    }
}

/// A tool that was allowed by name and is gone in the middle of a run once failed the response.
#[tokio::test]
async fn allowed_tools_that_go_away_or_cannot_be_listed_sink_nothing() {
    let (upstream, server, down) =
        (Upstream::spawn().await, McpServer::spawn().await, McpServer::spawn().await);
    server.slow(1, Duration::from_millis(300));
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call("slow", json!({}))).reply(call("fresh", json!({}))).text("Done.");
    let mut body = ask(json!([brought(&server)]));
    body["tool_choice"] = json!({"type": "allowed_tools", "mode": "auto", "tools": [
        {"type": "mcp", "server_label": "s", "name": "slow"}, {"type": "mcp", "server_label": "s", "name": "echo"}]});
    let (response, ()) = tokio::join!(gateway.create(body), async {
        while server.count_calls("slow") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.change_tools(vec![tools::tool("fresh", json!({}))]);
    });
    assert_eq!(response["status"], "completed", "{response:#}");
    assert_eq!(server.count_calls("fresh"), 0, "what was not allowed did not become so");

    down.status(500, 20);
    let mut sunk = brought(&down);
    sunk["server_label"] = json!("down");
    let mut body = ask(json!([sunk]));
    body["tool_choice"] =
        json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp", "server_label": "down"}]});
    upstream.text("Done.");
    assert_eq!(gateway.create(body).await["status"], "completed");
}

/// Where the client runs the tools itself, it once could not tell which of two was meant.
#[tokio::test]
async fn tools_for_the_client_to_run_have_the_names_that_tell_them_apart() {
    let (upstream, a, b) = (Upstream::spawn().await, McpServer::spawn().await, McpServer::spawn().await);
    for server in [&a, &b] {
        server.set_tools(vec![tools::tool("search", json!({}))]);
    }
    let gateway = before(&upstream).spawn().await;
    let named = |label: &str, server: &McpServer| {
        let mut tool = brought(server);
        tool["server_label"] = json!(label);
        tool
    };
    upstream.reply(call("b__search", json!({})));
    let mut body = ask(json!([named("a", &a), named("b", &b)]));
    body["antwort"] = json!({"execute_tools": false});
    let response = gateway.create(body).await;
    assert_eq!(item(&response, "function_call")["name"], "b__search", "{response:#}");
    assert_eq!(a.count_calls("search") + b.count_calls("search"), 0);
}
