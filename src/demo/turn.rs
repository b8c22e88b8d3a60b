//! One turn of the scripted model, and how it looks in chat completions, streamed or whole.

#![expect(clippy::indexing_slicing, reason = "a JSON value indexed by what it lacks is null")]

use serde_json::{Value, json};

/// Name of the scripted model.
pub(crate) const MODEL: &str = "demo";

/// The output of one turn: a text, calls, or both.
pub(super) struct Turn {
    text: String,
    calls: Vec<ScriptedCall>,
}

/// A call of the script.
pub(super) struct ScriptedCall {
    pub name: String,
    pub arguments: Value,
}

impl Turn {
    pub(super) fn say(text: String) -> Self {
        Self { text, calls: Vec::new() }
    }

    pub(super) fn calls(text: &str, calls: Vec<ScriptedCall>) -> Self {
        Self { text: text.to_owned(), calls }
    }

    /// What is said, if there are no calls: the turn is the last.
    pub(super) fn final_text(&self) -> Option<&str> {
        self.calls.is_empty().then_some(&self.text)
    }

    pub(super) fn completion(&self) -> Value {
        let content = Some(&self.text).filter(|text| !text.is_empty());
        let calls = || {
            self.calls.iter().enumerate().map(|(index, call)| {
                json!({"id": call_id(index), "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments.to_string()}})
            })
        };
        let mut message = json!({"role": "assistant", "content": content});
        if !self.calls.is_empty() {
            message["tool_calls"] = calls().collect();
        }
        json!({"id": "chatcmpl-demo", "object": "chat.completion", "created": 0, "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish_reason()}],
            "usage": self.usage()})
    }

    pub(super) fn chunks(&self) -> Vec<Value> {
        let mut deltas = vec![json!({"role": "assistant", "content": ""})];
        deltas.extend(pieces(&self.text).map(|piece| json!({"content": piece})));
        for (index, call) in self.calls.iter().enumerate() {
            deltas.push(json!({"tool_calls": [{"index": index, "id": call_id(index), "type": "function",
                "function": {"name": call.name, "arguments": ""}}]}));
            let arguments = call.arguments.to_string();
            deltas
                .extend(pieces(&arguments).map(
                    |piece| json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
                ));
        }
        let choice = |delta: Value, reason: Option<&str>| {
            json!({"id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": 0, "model": MODEL,
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
        };
        let mut chunks: Vec<_> = deltas.into_iter().map(|delta| choice(delta, None)).collect();
        chunks.push(choice(json!({}), Some(self.finish_reason())));
        chunks.push(json!({"id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": 0,
            "model": MODEL, "choices": [], "usage": self.usage()}));
        chunks
    }

    fn finish_reason(&self) -> &'static str {
        if self.calls.is_empty() { "stop" } else { "tool_calls" }
    }

    /// A script has no tokens; words are counted instead, and a call is one.
    fn usage(&self) -> Value {
        let words = self.text.split_whitespace().count() + self.calls.len();
        json!({"prompt_tokens": 10, "completion_tokens": words, "total_tokens": 10 + words})
    }
}

fn call_id(index: usize) -> String {
    format!("call_demo_{index}")
}

/// Chunks of a text as a model would stream it: words with the space behind them.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

/// The text of a message.
pub(super) fn content(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}
