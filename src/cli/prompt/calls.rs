//! Calls that nobody answers, as JSON.

use serde_json::{Value, json};

use antwort_protocol::item::{FunctionCall, Item};

/// The function calls of an output, their arguments as an object if they are one.
pub(crate) fn unanswered(output: &[Item]) -> Vec<Value> {
    let functions = output.iter().filter_map(|item| match item {
        Item::FunctionCall(call) => Some(call),
        _ => None,
    });
    let one = |call: &FunctionCall| {
        let arguments: Value =
            serde_json::from_str(&call.arguments).unwrap_or_else(|_| call.arguments.clone().into());
        json!({"id": call.call_id, "type": "function",
            "function": {"name": call.name, "arguments": arguments}})
    };
    functions.map(one).collect()
}
