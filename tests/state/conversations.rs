//! Conversations: their routes, and the responses that are made in them.

mod crash;
mod locks;
mod routes;
mod runs;

use serde_json::{Value, json};

use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::Upstream;

/// A new conversation with these items.
async fn conversation(gateway: &Gateway, items: Value) -> String {
    let made = gateway.post("/v1/conversations", &json!({"items": items})).await;
    assert_eq!(made.status, 200, "{:#}", made.body);
    made.body["id"].as_str().unwrap().to_owned()
}

/// What is said in a conversation, oldest first.
async fn said(gateway: &Gateway, id: &str) -> Vec<String> {
    let page = gateway.get(&format!("/v1/conversations/{id}/items?order=asc&limit=100")).await;
    assert_eq!(page.status, 200, "{:#}", page.body);
    page.body["data"].as_array().unwrap().iter().map(shown).collect()
}

/// The text of an item, or its type.
fn shown(item: &Value) -> String {
    item["content"][0]["text"].as_str().or(item["type"].as_str()).unwrap().to_owned()
}

/// The texts that the model was sent.
fn asked(upstream: &Upstream) -> Vec<String> {
    let messages = upstream.last()["messages"].as_array().unwrap().clone();
    messages.iter().map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

fn ask(conversation: &str, input: impl Into<Value>) -> Value {
    json!({"model": "test-model", "conversation": conversation, "input": input.into()})
}
