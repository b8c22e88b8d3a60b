//! Answers as chat completions.

use crate::script::{Ask, Say};
use bytes::Bytes;
use serde_json::{Value, json};

/// The answer's frames: one JSON document, or one SSE event each.
pub(crate) fn render(model: &str, say: &Say, ask: &Ask, prompt_tokens: usize) -> Vec<Bytes> {
    let (stream, include_usage) = (ask.stream, ask.usage);
    let finish = if matches!(say, Say::Text(_)) { "stop" } else { "tool_calls" };
    let tokens = match say {
        Say::Text(pieces) => pieces.len(),
        Say::Calls(calls) => calls.len() * 10,
    };
    let usage = json!({"prompt_tokens": prompt_tokens, "completion_tokens": tokens,
                       "total_tokens": prompt_tokens + tokens});
    if !stream {
        let message = match say {
            Say::Text(pieces) => json!({"role": "assistant", "content": pieces.concat()}),
            Say::Calls(calls) => json!({"role": "assistant", "content": null, "tool_calls": calls}),
        };
        let body = json!({"id": "chatcmpl-mock", "object": "chat.completion", "created": 1_700_000_000, "model": model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}], "usage": usage});
        return vec![Bytes::from(body.to_string())];
    }
    let chunk = |choices: Value, usage: Value| {
        let mut body = json!({"id": "chatcmpl-mock", "object": "chat.completion.chunk", "created": 1_700_000_000,
                              "model": model, "choices": choices});
        if include_usage {
            body["usage"] = usage;
        }
        Bytes::from(format!("data: {body}\n\n"))
    };
    let delta = |delta: Value, finish: Value| {
        chunk(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]), Value::Null)
    };
    let mut out = vec![delta(json!({"role": "assistant", "content": ""}), Value::Null)];
    match say {
        Say::Text(pieces) => out.extend(pieces.iter().map(|p| delta(json!({"content": p}), Value::Null))),
        Say::Calls(calls) => {
            for call in calls {
                let arguments = call["function"]["arguments"].as_str().unwrap_or("").to_string();
                let mut head = call.clone();
                head["function"]["arguments"] = json!("");
                out.push(delta(json!({"tool_calls": [head]}), Value::Null));
                for piece in arguments.as_bytes().chunks(6) {
                    let piece = json!({"index": call["index"], "function": {"arguments": String::from_utf8_lossy(piece)}});
                    out.push(delta(json!({"tool_calls": [piece]}), Value::Null));
                }
            }
        }
    }
    out.push(delta(json!({}), json!(finish)));
    if include_usage {
        out.push(chunk(json!([]), usage));
    }
    out.push(Bytes::from_static(b"data: [DONE]\n\n"));
    out
}
