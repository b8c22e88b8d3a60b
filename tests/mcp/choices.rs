//! Which tools of servers a run may use, and what clients see of them: profiles, rules, choices and dialects.

use antwort::config::{AgentSettings, McpRule, McpServerSettings, Settings};
use serde_json::{Value, json};

use super::{ask, before, brought, call, item, kinds};
use antwort_test_support::gateway::Gateway;
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::Upstream;

fn offered(upstream: &Upstream) -> Vec<String> {
    let tools = upstream.last()["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

fn configured(server: &McpServer) -> McpServerSettings {
    McpServerSettings { url: Some(server.url()), ..McpServerSettings::default() }
}

async fn gateway(upstream: &Upstream, server: &McpServer, change: impl FnOnce(&mut Settings)) -> Gateway {
    let known = configured(server);
    before(upstream)
        .set(|settings| _ = settings.mcp.servers.insert("known".into(), known))
        .set(change)
        .spawn()
        .await
}

fn known() -> Value {
    json!({"type": "mcp", "server_label": "known"})
}

#[tokio::test]
async fn a_profile_brings_its_servers_and_nobody_else_gets_them() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, |settings| {
        let helper = AgentSettings { mcp_servers: vec!["known".into()], ..AgentSettings::default() };
        settings.agents.insert("helper".into(), helper);
    })
    .await;
    gateway.create(json!({"model": "test-model", "input": "Go."})).await;
    assert!(offered(&upstream).is_empty() && server.requests().is_empty(), "it was not asked for");
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let response = gateway.create(json!({"model": "test-model", "input": "Go.", "agent": "helper"})).await;
    assert_eq!(kinds(&response), ["mcp_list_tools", "mcp_call", "message"], "{response:#}");
    assert_eq!(item(&response, "mcp_call")["output"], "hi");
    // Asked for by both, it is there once, as the request wants it.
    let mut tool = known();
    tool["allowed_tools"] = json!(["echo"]);
    let body = json!({"model": "test-model", "input": "Go.", "agent": "helper", "tools": [tool]});
    gateway.create(body).await;
    assert_eq!(offered(&upstream), ["echo"]);
}

#[tokio::test]
async fn a_server_of_one_tenant_does_not_exist_for_others() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let own = McpServerSettings { tenants: Some(vec!["red".into()]), ..configured(&server) };
    let mut gateway = gateway(&upstream, &server, |settings| {
        settings.auth = super::keys();
        settings.mcp.servers.insert("own".into(), own);
    })
    .await
    .with_header("authorization", "Bearer key-eve");
    let tool = |label: &str| json!({"type": "mcp", "server_label": label});
    let foreign = gateway.post("/v1/responses", &ask(json!([tool("own")]))).await;
    let unknown = gateway.post("/v1/responses", &ask(json!([tool("nil")]))).await;
    assert_eq!((foreign.status, unknown.status), (400, 400));
    let plain = |body: &Value| body.to_string().replace("own", "nil");
    assert_eq!(plain(&foreign.body["error"]["message"]), plain(&unknown.body["error"]["message"]));
    gateway = gateway.with_header("authorization", "Bearer key-ann");
    gateway.create(ask(json!([tool("own")]))).await;
}

#[tokio::test]
async fn what_the_operator_blocks_is_neither_offered_nor_shown_nor_called() {
    for (i, what) in ["general", "server", "rule", "allowed"].into_iter().enumerate() {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = gateway(&upstream, &server, |settings| {
            let known = settings.mcp.servers.get_mut("known").unwrap();
            match i {
                0 => settings.tools.blocked_tools = vec!["dele*".into()],
                1 => known.blocked_tools = vec!["dele*".into()],
                2 => known.rules = [("delete_*".to_owned(), McpRule::Deny)].into(),
                _ => known.allowed_tools = Some(vec!["e*".into(), "read".into()]),
            }
        })
        .await;
        upstream.reply(call("delete_all", json!({}))).text("Done.");
        let response = gateway.create(ask(json!([known()]))).await;
        assert!(!offered(&upstream).contains(&"delete_all".to_owned()), "{what}");
        let shown = item(&response, "mcp_list_tools")["tools"].to_string();
        assert!(shown.contains("echo") && !shown.contains("delete_all"), "{what}: {shown}");
        assert_eq!(server.count_calls("delete_all"), 0, "{what}");
        let mut tool = known();
        tool["allowed_tools"] = json!(["delete_all"]);
        gateway.create(ask(json!([tool]))).await;
        assert!(offered(&upstream).is_empty(), "{what}: a request opens nothing");
    }
}

#[tokio::test]
async fn a_choice_of_one_tool_binds_the_first_turn_only() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, |_| ()).await;
    let mut body = ask(json!([known()]));
    body["tool_choice"] = json!({"type": "mcp", "server_label": "known", "name": "echo"});
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let response = gateway.create(body.clone()).await;
    assert_eq!(kinds(&response), ["mcp_list_tools", "mcp_call", "message"], "{response:#}");
    let asked: Vec<_> = upstream.requests().iter().map(|asked| asked.body["tool_choice"].clone()).collect();
    assert_eq!(asked[0], json!({"type": "function", "function": {"name": "echo"}}));
    assert_ne!(asked[1], asked[0], "it would call for ever");
    body["tool_choice"] = json!({"type": "mcp", "server_label": "known", "name": "nobody"});
    let error = gateway.refuse(body.clone(), 400, "invalid_value").await;
    assert_eq!(error["param"], "tool_choice");
    body["tool_choice"] = json!("required");
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    gateway.create(body).await;
    let asked: Vec<_> = upstream.requests().iter().map(|asked| asked.body["tool_choice"].clone()).collect();
    assert_eq!(asked[asked.len() - 2], "required");
    assert_ne!(asked[asked.len() - 1], "required");
}

#[tokio::test]
async fn a_choice_of_allowed_tools_holds_for_all_turns() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, |_| ()).await;
    let mut body = ask(json!([known()]));
    body["tool_choice"] = json!({"type": "allowed_tools", "mode": "auto",
        "tools": [{"type": "mcp", "server_label": "known", "name": "read"}]});
    upstream.reply(call("delete_all", json!({}))).reply(call("read", json!({}))).text("Done.");
    let response = gateway.create(body.clone()).await;
    assert_eq!(response["status"], "completed");
    assert_eq!((server.count_calls("delete_all"), server.count_calls("read")), (0, 1), "{response:#}");
    body["tool_choice"] = json!("none");
    gateway.create(body).await;
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test]
async fn a_choice_is_kept_when_the_tools_change_in_the_middle() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, |_| ()).await;
    server.slow(1, std::time::Duration::from_millis(300));
    let mut body = ask(json!([known()]));
    body["tool_choice"] = json!({"type": "mcp", "server_label": "known", "name": "slow"});
    upstream.reply(call("slow", json!({}))).text("Done.");
    let (response, ()) = tokio::join!(gateway.create(body), async {
        while server.count_calls("slow") == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        server.change_tools(vec![antwort_test_support::mcp_server::tools::tool("fresh", json!({}))]);
    });
    assert_eq!(response["status"], "completed", "the tool that was chosen is gone: {response:#}");
    assert_eq!(offered(&upstream), ["fresh"]);
}

#[tokio::test]
async fn without_execution_calls_are_the_clients_to_make() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, |_| ()).await;
    let mut body = ask(json!([known()]));
    body["antwort"] = json!({"execute_tools": false});
    upstream.reply(call("echo", json!({"text": "hi"})));
    let response = gateway.create(body).await;
    let made = item(&response, "function_call");
    assert_eq!((&made["name"], server.calls().len()), (&json!("echo"), 0), "{response:#}");
    assert!(!kinds(&response).contains(&"mcp_call"));
}

#[tokio::test]
async fn hidden_calls_look_like_functions_that_were_dealt_with() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, |_| ()).await;
    let mut body = ask(json!([known()]));
    body["antwort"] = json!({"stream_visibility": "hidden"});
    for _ in 0..2 {
        upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    }
    for response in gateway.both(body.clone()).await {
        assert_eq!(kinds(&response), ["function_call", "message"], "{response:#}");
        let mut on = body.clone();
        on["previous_response_id"] = response["id"].clone();
        gateway.create(on).await;
        let messages = upstream.last()["messages"].to_string();
        assert!(messages.contains("hi"), "the model still knows the result: {messages}");
    }
    assert_eq!(server.count_calls("echo"), 2);
}

#[tokio::test]
async fn the_open_responses_dialect_has_calls_of_its_own_and_no_lists() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, |_| ()).await.with_header("antwort-dialect", "open_responses");
    for _ in 0..2 {
        upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    }
    for response in gateway.both(ask(json!([brought(&server)]))).await {
        assert_eq!(kinds(&response), ["antwort:tool_call", "message"], "{response:#}");
        let made = item(&response, "antwort:tool_call");
        assert_eq!(
            (&made["server_label"], &made["name"], &made["output"]),
            (&json!("s"), &json!("echo"), &json!("hi"))
        );
        let mut input = vec![json!({"role": "user", "content": "Go."})];
        input.extend(response["output"].as_array().unwrap().clone());
        input.push(json!({"role": "user", "content": "And?"}));
        gateway.create(json!({"model": "test-model", "input": input, "tools": [brought(&server)]})).await;
        let messages = upstream.last()["messages"].clone();
        assert_eq!(messages[2]["content"], "hi", "{messages:#}");
    }
}
