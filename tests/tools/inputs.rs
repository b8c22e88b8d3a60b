//! Client tools inside a run: the response asks for the outputs of the client's functions, waits for them as a row, and goes
//! on in the same stream.

mod a2a;
mod answers;
mod crash;
mod modes;
mod sessions;

use serde_json::{Value, json};

use antwort_test_support::stream::{Stream, answer};
use antwort_test_support::upstream::{Reply, Upstream};

/// A function of the client.
fn function(name: &str) -> Value {
    json!({"type": "function", "name": name, "parameters": {"type": "object"}})
}

/// A request whose functions run inline.
fn ask() -> Value {
    json!({"model": "test-model", "input": "Weather?", "stream": true, "tools": [function("weather")],
        "antwort": {"client_tools": "inline"}})
}

/// The model calls the function of [`ask`], and answers behind it.
fn calls_weather(upstream: &Upstream) {
    upstream.reply(Reply::Calls(vec![("weather", json!({"city": "Berlin"}))]));
    upstream.text("Sunny.");
}

/// The answer to a question.
fn output(question: &Value, output: &str) -> Value {
    json!({"call_id": question["call_id"], "output": output})
}

/// The outputs of the client's functions in a response.
fn outputs(response: &Value) -> Vec<&str> {
    let items = response["output"].as_array().unwrap().iter();
    let outputs = items.filter(|item| item["type"] == "function_call_output");
    outputs.map(|item| item["output"].as_str().unwrap()).collect()
}
