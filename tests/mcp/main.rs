//! Tools of servers that speak the Model Context Protocol.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "clippy.toml allows panics in functions marked #[test] only; helpers take json!(..) as it is"
)]
#![allow(unreachable_pub, reason = "nothing here is reached from outside")]

mod admin;
mod approvals;
mod asked;
mod audience;
mod auth;
mod calls;
mod choices;
mod cli;
mod context;
mod files;
mod floods;
mod hangs;
mod list_budget;
mod lists;
mod load;
mod lost;
mod names;
mod places;
mod questions;
mod real;
mod results;
mod routes;
mod server;
mod stdio;
mod tasks;
mod troubles;
mod walls;

use antwort::config::{AuthSettings, LoadOptions, Settings};
use serde_json::{Value, json};

use antwort_test_support::mcp_server::{McpServer, before};
use antwort_test_support::upstream::{Reply, Upstream};

/// A server as a request brings it, whose calls nobody has to allow.
fn brought(server: &McpServer) -> Value {
    json!({"type": "mcp", "server_label": "s", "server_url": server.url(), "require_approval": "never"})
}

/// Two people of one tenant, one of another.
fn keys() -> AuthSettings {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("antwort.yaml");
    let keys = "auth: {keys: {ann: {key: key-ann, tenant: red}, bob: {key: key-bob, tenant: red}, \
                eve: {key: key-eve, tenant: blue}}}";
    std::fs::write(&path, keys).unwrap();
    let environment = [("ANTWORT_UPSTREAM_URL".into(), "http://127.0.0.1:1/v1".into())].into();
    let options = LoadOptions { file: Some(path), environment, ..LoadOptions::default() };
    Settings::load(&options).unwrap().auth
}

/// A request for these tools.
fn ask(tools: Value) -> Value {
    json!({"model": "test-model", "input": "Go.", "tools": tools})
}

fn call(name: &'static str, arguments: Value) -> Reply {
    Reply::Calls(vec![(name, arguments)])
}

/// Types of the output's items, in order.
fn kinds(response: &Value) -> Vec<&str> {
    response["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

/// The first item of this type.
fn item<'a>(response: &'a Value, kind: &str) -> &'a Value {
    let output = response["output"].as_array().unwrap();
    output.iter().find(|item| item["type"] == kind).unwrap_or_else(|| panic!("no {kind} in {response:#}"))
}

/// What the model read of the latest result.
fn told(upstream: &Upstream) -> String {
    let messages = upstream.last()["messages"].as_array().unwrap().clone();
    let result = messages.iter().rfind(|message| message["role"] == "tool").unwrap_or_else(|| {
        panic!("the model read no result: {messages:#?}");
    });
    result["content"].as_str().unwrap().to_owned()
}
