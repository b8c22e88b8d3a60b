//! What servers are told of whom they work for, and that nobody gets what was for another.

use antwort::config::{McpContext, McpServerSettings, McpTrust};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{ask, before, brought, call, item, keys, told};
use antwort_test_support::gateway::Builder;
use antwort_test_support::mcp_server::{McpServer, tools};
use antwort_test_support::upstream::{Reply, Upstream};

const ALL: [McpContext; 4] = [McpContext::Tenant, McpContext::User, McpContext::Channel, McpContext::Chat];

fn configured(builder: Builder, server: &McpServer, context: &[McpContext]) -> Builder {
    let settings = McpServerSettings {
        url: Some(server.url()),
        context: context.to_vec(),
        trust: Some(McpTrust::Trusted),
        ..McpServerSettings::default()
    };
    builder.set(|all| _ = all.mcp.servers.insert("crm".into(), settings))
}

fn crm() -> Value {
    json!([{"type": "mcp", "server_label": "crm"}])
}

/// A request of a user in a conversation.
fn of(user: &str, chat: &str) -> Value {
    let mut body = ask(crm());
    body["safety_identifier"] = json!(user);
    body["metadata"] = json!({"channel": "telegram", "chat_id": chat});
    body
}

/// What a server was told with its calls of a tool.
fn contexts(server: &McpServer, tool: &str) -> Vec<Value> {
    let calls = server.calls().into_iter().filter(|call| call.tool == tool);
    calls.map(|call| call.meta["antwort/context"].clone()).collect()
}

fn listed(response: &Value) -> Vec<&str> {
    let tools = item(response, "mcp_list_tools")["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_server_is_told_for_whom_it_lists_and_works_where_the_operator_wants_it() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let builder = before(&upstream).set(|settings| settings.auth = keys());
    let gateway = configured(builder, &server, &ALL).spawn().await;
    let gateway = gateway.with_header("authorization", "Bearer key-ann");
    let full = json!({"tenant": "red", "user": "u1", "channel": "telegram", "chat": "7"});
    let mut bodies =
        vec![(of("u1", "7"), full.clone()), (ask(crm()), json!({"tenant": "red", "user": "ann"}))];
    let mut older = ask(crm());
    older["user"] = json!("u2");
    bodies.push((older, json!({"tenant": "red", "user": "u2"})));
    for (body, expected) in bodies {
        upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
        gateway.create(body).await;
        assert_eq!(contexts(&server, "echo").last(), Some(&expected));
        assert_eq!(server.list_metas().last().unwrap()["antwort/context"], expected);
    }
    // Outside any response, too.
    let body = json!({"arguments": {"text": "hi"}, "context": {"channel": "web", "chat_id": "8"}});
    let answer = gateway.post("/v1/tools/echo/execute?server_label=crm", &body).await;
    assert_eq!(answer.body["output"], "hi");
    let expected = json!({"tenant": "red", "user": "ann", "channel": "web", "chat": "8"});
    assert_eq!(contexts(&server, "echo").last(), Some(&expected));
    assert_eq!(server.sessions_made(), 1, "one connection for all of them");
}

#[tokio::test]
async fn a_server_is_told_nothing_that_it_is_not_configured_to_be_told() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let some = configured(before(&upstream), &server, &[McpContext::Chat]).spawn().await;
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    some.create(of("u1", "7")).await;
    assert_eq!(contexts(&server, "echo"), [json!({"chat": "7"})]);

    let none = configured(before(&upstream), &server, &[]).spawn().await;
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    none.create(of("u1", "7")).await;
    // One that a request brings cannot ask for it.
    let mut body = of("u1", "7");
    body["tools"] = json!([brought(&server)]);
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    none.create(body.clone()).await;
    assert_eq!(contexts(&server, "echo")[1..], [Value::Null, Value::Null]);
    assert!(server.list_metas()[1..].iter().all(|meta| meta.get("antwort/context").is_none()));
    body["tools"][0]["context"] = json!(["user"]);
    let refused = none.refuse(body, 400, "unknown_parameter").await;
    assert!(refused["param"].as_str().unwrap().contains("context"), "{refused}");
}

#[tokio::test]
async fn users_at_the_same_time_have_their_own_lists_calls_and_results() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.set_tools(vec![tools::tool("common", json!({}))]);
    for user in 0..8 {
        server.add_tools_of(&format!("u{user}"), vec![tools::tool(&format!("of_{user}"), json!({}))]);
    }
    let gateway = configured(before(&upstream), &server, &[McpContext::User]).spawn().await;
    for _ in 0..3 {
        let lists = join_all((0..8).map(async |user| {
            let response = gateway.create(of(&format!("u{user}"), "7")).await;
            (user, listed(&response).join(" "))
        }));
        for (user, list) in lists.await {
            assert_eq!(list, format!("common of_{user}"));
        }
    }
    assert_eq!(server.count("tools/list"), 8, "a list for each, and each asked for once");
    // What is not in the caller's list cannot be called.
    let before_it = server.calls().len();
    upstream.reply(call("of_1", json!({}))).text("Done.");
    gateway.create(of("u0", "7")).await;
    assert_eq!(server.calls().len(), before_it);
    upstream.reply(call("of_0", json!({}))).text("Done.");
    gateway.create(of("u0", "7")).await;
    assert_eq!(contexts(&server, "of_0"), [json!({"user": "u0"})]);
}

#[tokio::test]
async fn a_result_that_is_used_again_is_never_that_of_another_context() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let builder = configured(before(&upstream), &server, &[McpContext::User, McpContext::Chat]);
    let own = antwort::config::ToolOverride { cacheable: Some(true), ..Default::default() };
    let gateway = builder.set(|all| _ = all.tools.overrides.insert("crm__read".into(), own)).spawn().await;
    let read = async |user: &str, chat: &str, says: &str| {
        server.says("read", vec![antwort_test_support::mcp_server::content::text(says)]);
        upstream.reply(call("read", json!({}))).text("Done.");
        gateway.create(of(user, chat)).await;
        told(&upstream)
    };
    assert_eq!(read("u1", "7", "of u1 in 7").await, "of u1 in 7");
    assert_eq!(read("u1", "7", "another").await, "of u1 in 7", "the same context");
    assert_eq!(read("u2", "7", "of u2 in 7").await, "of u2 in 7");
    assert_eq!(read("u1", "8", "of u1 in 8").await, "of u1 in 8");
    assert_eq!(server.count_calls("read"), 3);
}

#[tokio::test]
async fn lists_of_a_server_that_nobody_needs_make_way() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = configured(before(&upstream), &server, &[McpContext::User]).spawn().await;
    upstream.always(Reply::Text("Done.".into()));
    for user in 0..70 {
        gateway.create(of(&format!("u{user}"), "7")).await;
    }
    assert_eq!(server.count("tools/list"), 70);
    gateway.create(of("u69", "7")).await;
    assert_eq!(server.count("tools/list"), 70, "the latest is known");
    gateway.create(of("u0", "7")).await;
    assert_eq!(server.count("tools/list"), 71, "the first is asked for anew");
    assert_eq!(server.sessions_made(), 1);
}
