//! Tools whose work goes on after their calls: what the response shows meanwhile, callbacks, and what results lead to.

mod callbacks;
mod chain;
mod child_runs;
mod completion;
mod crash;
mod paused;
mod readers;
mod resume;

use std::collections::BTreeMap;

use antwort::config::Settings;
use serde_json::{Value, json};

use antwort_test_support::async_tool::{callback, callbacks, started};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Builder, Gateway, HttpAnswer, JsonBody};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::{Reply, Upstream};

/// Settings with a server whose tool `add` may answer before it is done.
fn allow(settings: &mut Settings, server: &McpServer, on_complete: &str) {
    let shop = json!({"url": server.url(), "trust": "trusted"});
    settings.mcp.servers.insert("shop".to_owned(), serde_json::from_value(shop).unwrap());
    settings.egress.allow = vec!["127.0.0.1".into()];
    settings.server.public_url = Some("https://gateway.example.com/".to_owned());
    let overrides = json!({"shop__add": {"async": "allow", "on_complete": on_complete}});
    let overrides: BTreeMap<_, _> = serde_json::from_value(overrides).unwrap();
    settings.tools.overrides.extend(overrides);
}

fn gateway(upstream: &Upstream, server: &McpServer, on_complete: &str) -> Builder {
    server.returns("add", started());
    Gateway::with_upstream(upstream).set(|settings| allow(settings, server, on_complete))
}

/// A request whose tool goes on, and what the model says to it.
fn ask(upstream: &Upstream) -> Value {
    upstream.reply(Reply::Calls(vec![("add", json!({"a": 1, "b": 2}))]));
    upstream.text("It was started.");
    json!({"model": "test-model", "input": "Add.", "metadata": {"k": "v"},
        "tools": [{"type": "mcp", "server_label": "shop", "require_approval": "never"}]})
}

/// A request in whose first turn the model calls a function of its client beside the tool that goes on.
fn ask_both(upstream: &Upstream) -> Value {
    upstream.reply(Reply::Calls(vec![("add", json!({"a": 1, "b": 2})), ("look_up", json!({"q": "x"}))]));
    json!({"model": "test-model", "input": "Add.", "tools": [
        {"type": "mcp", "server_label": "shop", "require_approval": "never"},
        {"type": "function", "name": "look_up", "parameters": {"type": "object"}}]})
}

/// What the client sends for the call of its function.
fn answer(response: &Value) -> Value {
    let output = response["output"].as_array().unwrap();
    let call = output.iter().find(|item| item["type"] == "function_call").expect("a call of the client");
    json!([{"type": "function_call_output", "call_id": call["call_id"], "output": "found"}])
}

/// Reports a result, as another program does.
async fn report(gateway: &Gateway, path: &str, body: &Value) -> HttpAnswer {
    gateway.send(reqwest::Client::new().post(format!("{}{path}", gateway.base)).json_body(body)).await
}

/// The call's item of a response that is stored.
async fn made(gateway: &Gateway, id: &str) -> Value {
    let response = gateway.get(&format!("/v1/responses/{id}")).await.body;
    let output = response["output"].as_array().unwrap();
    let is_call = |item: &&Value| ["mcp_call", "antwort:tool_call"].contains(&item["type"].as_str().unwrap());
    output.iter().find(is_call).unwrap_or_else(|| panic!("no call in {response:#}")).clone()
}

/// The response that follows another one, once it has ended.
async fn follow_up(gateway: &Gateway, id: &str) -> Value {
    let mut found = Value::Null;
    let is_there = eventually(async || {
        let list = gateway.get("/v1/responses").await.body;
        let data = list["data"].as_array().unwrap();
        let follows = data.iter().find(|response| response["previous_response_id"] == id);
        found = follows.cloned().unwrap_or_default();
        found["status"] == "completed"
    });
    assert!(is_there.await, "{found:#}");
    found
}
