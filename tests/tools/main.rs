//! Tools that the gateway runs: how a run goes through its turns, how it ends, and what clients see of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "clippy.toml allows panics in functions marked #[test] only; helpers take json!(..) as it is"
)]
#![allow(unreachable_pub, reason = "nothing here is reached from outside")]

mod async_tools;
mod commands;
mod crash;
mod custom;
mod direct;
mod ends;
mod example;
mod inputs;
mod journal;
mod offered;
mod refused_calls;
mod replays;
mod search;
mod told;
mod turns;
mod unserved_tools;
mod wire;

use std::sync::Arc;

use serde_json::{Value, json};

use antwort_test_support::gateway::{Builder, Gateway};
use antwort_test_support::probe::ProbeLog;
use antwort_test_support::upstream::{Reply, Upstream};

/// A gateway with probes, before this provider.
async fn gateway(upstream: &Upstream) -> (Gateway, Arc<ProbeLog>) {
    gateway_with(upstream, |builder| builder).await
}

async fn gateway_with(
    upstream: &Upstream,
    change: impl FnOnce(Builder) -> Builder,
) -> (Gateway, Arc<ProbeLog>) {
    let (builder, seen) = change(Gateway::with_upstream(upstream)).probe();
    (builder.spawn().await, seen)
}

/// The gateway's own tools, all of them, and a function of the client.
fn tools() -> Value {
    json!([
        {"type": "mcp", "server_label": "antwort"},
        {"type": "function", "name": "ask_user", "parameters": {"type": "object"}},
    ])
}

fn ask(extra: Value) -> Value {
    let mut body = json!({"model": "test-model", "input": "Go.", "tools": tools()});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

fn call(name: &'static str) -> Reply {
    Reply::Calls(vec![(name, json!({}))])
}

fn calls(names: &[&'static str]) -> Reply {
    Reply::Calls(names.iter().map(|name| (*name, json!({}))).collect())
}

/// Types of the output's items, in order.
fn kinds(response: &Value) -> Vec<&str> {
    response["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}
