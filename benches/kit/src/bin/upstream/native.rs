//! Answers in the Responses protocol itself, for gateways that pass it through.

use crate::script::Say;
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Stands for the ids of a native answer in rendered frames. Some gateways key their tables by them, so `with_new_ids`
/// makes them new in every answer.
const UNIQUE: &str = "0000000000000000";

pub(crate) fn with_new_ids(frames: &[Bytes]) -> Vec<Bytes> {
    static ANSWERS: AtomicU64 = AtomicU64::new(0);
    let id = format!("{:08x}{:08x}", std::process::id(), ANSWERS.fetch_add(1, Relaxed));
    frames.iter().map(|f| Bytes::from(String::from_utf8_lossy(f).replace(UNIQUE, &id))).collect()
}

/// One response object, or its event stream.
pub(crate) fn render(model: &str, say: &Say, stream: bool, input_tokens: usize) -> Vec<Bytes> {
    let mut events: Vec<Value> = Vec::new();
    let (mut output, mut output_tokens) = (Vec::new(), 0);
    let unique = UNIQUE;
    let message_id = format!("msg_{unique}");
    match say {
        Say::Text(pieces) => {
            let at = |kind: &str| json!({"type": kind, "item_id": message_id, "output_index": 0, "content_index": 0});
            let part = |text: String| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
            let item = |status: &str, content: Vec<Value>| json!({"type": "message", "id": message_id, "status": status, "role": "assistant", "content": content});
            let with = |mut event: Value, key: &str, value: Value| {
                event[key] = value;
                event
            };
            let done = item("completed", vec![part(pieces.concat())]);
            events.push(json!({"type": "response.output_item.added", "output_index": 0, "item": item("in_progress", vec![])}));
            events.push(with(at("response.content_part.added"), "part", part(String::new())));
            events.extend(pieces.iter().map(|p| with(at("response.output_text.delta"), "delta", json!(p))));
            events.push(with(at("response.output_text.done"), "text", json!(pieces.concat())));
            events.push(with(at("response.content_part.done"), "part", part(pieces.concat())));
            events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": done}));
            output.push(done);
            output_tokens = pieces.len();
        }
        Say::Calls(calls) => {
            for (i, call) in calls.iter().enumerate() {
                let id = format!("fc_{unique}_{i}");
                let (name, arguments) = (&call["function"]["name"], &call["function"]["arguments"]);
                let item = |status: &str, arguments: &Value| json!({"type": "function_call", "id": id, "call_id": call["id"], "status": status, "name": name, "arguments": arguments});
                let done = item("completed", arguments);
                events.push(json!({"type": "response.output_item.added", "output_index": i, "item": item("in_progress", &json!(""))}));
                events.push(json!({"type": "response.function_call_arguments.delta", "item_id": id, "output_index": i, "delta": arguments}));
                events.push(json!({"type": "response.function_call_arguments.done", "item_id": id, "output_index": i, "name": name, "arguments": arguments}));
                events.push(json!({"type": "response.output_item.done", "output_index": i, "item": done}));
                output.push(done);
                output_tokens += 10;
            }
        }
    }
    let response = |status: &str, output: &[Value], usage: Value| {
        json!({"id": format!("resp_{unique}"), "object": "response", "created_at": 1_700_000_000, "status": status, "model": model,
               "output": output, "usage": usage, "error": null, "incomplete_details": null, "instructions": null,
               "metadata": {}, "parallel_tool_calls": true, "temperature": 1.0, "tool_choice": "auto", "tools": [],
               "top_p": 1.0, "previous_response_id": null, "store": false})
    };
    let usage = json!({"input_tokens": input_tokens, "output_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0}});
    let whole = response("completed", &output, usage);
    if !stream {
        return vec![Bytes::from(whole.to_string())];
    }
    let begin = response("in_progress", &[], Value::Null);
    events.insert(0, json!({"type": "response.created", "response": begin}));
    events.insert(1, json!({"type": "response.in_progress", "response": begin}));
    events.push(json!({"type": "response.completed", "response": whole}));
    let mut out = Vec::with_capacity(events.len());
    for (i, mut event) in events.into_iter().enumerate() {
        event["sequence_number"] = json!(i);
        out.push(Bytes::from(format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or(""))));
    }
    out
}
