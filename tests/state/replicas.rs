//! Two gateways on one PostgreSQL: what one was asked for is made, read, followed, continued and cancelled at the other.
//!
//! The replicas are two gateways in the process of the test, each with connections, a bus and an instance of its own. Real
//! processes are only where one has to die.

mod approvals;
mod buses;
mod cancelled;
mod chains;
mod conversations;
mod frozen;
mod functions;
mod keys;
mod processes;
mod schema;
mod streams;

use std::time::Duration;

use serde_json::{Value, json};

use antwort_test_support::eventually;
use antwort_test_support::fleet::Fleet;
use antwort_test_support::fleet::SEAL_KEY;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish, usage};

fn ask(input: &str) -> Value {
    json!({"model": "test-model", "input": input})
}

fn in_background() -> Value {
    json!({"model": "test-model", "input": "Hi", "background": true})
}

/// Says a few words, with a pause behind each.
fn slow_answer(words: usize, pause: u64) -> Reply {
    let mut steps = vec![chunk(json!({"role": "assistant", "content": ""}))];
    for n in 0..words {
        steps.extend([
            chunk(json!({"content": format!("word {n} ")})),
            Step::Wait(Duration::from_millis(pause)),
        ]);
    }
    steps.extend([finish("stop"), usage(5, 6), done()]);
    Reply::Stream(steps)
}

/// Says something, and never ends.
fn endless() -> Reply {
    Reply::Stream(vec![chunk(json!({"content": "Hel"})), chunk(json!({"content": "lo"})), Step::Hang])
}

/// The text of a response of [`slow_answer`].
fn words(count: usize) -> String {
    (0..count).map(|n| format!("word {n} ")).collect()
}

fn id_of(response: &Value) -> String {
    response["id"].as_str().unwrap_or_else(|| panic!("an id: {response:#}")).to_owned()
}

/// Queues a background response, and returns its id.
async fn queue(gateway: &Gateway) -> String {
    let queued = gateway.create(in_background()).await;
    assert_eq!(queued["status"], "queued", "{queued:#}");
    id_of(&queued)
}

/// The response as this replica reads it.
async fn read(gateway: &Gateway, id: &str) -> Value {
    gateway.get(&format!("/v1/responses/{id}")).await.body
}

/// The response once it has this status.
async fn becomes(gateway: &Gateway, id: &str, status: &str) -> Value {
    let is_so = async || read(gateway, id).await["status"] == status;
    assert!(eventually(is_so).await, "{status}: {:#}", read(gateway, id).await);
    read(gateway, id).await
}

/// The texts that the model was sent last.
fn asked(upstream: &Upstream) -> Vec<String> {
    let messages = upstream.last()["messages"].as_array().unwrap().clone();
    messages.iter().map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
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
