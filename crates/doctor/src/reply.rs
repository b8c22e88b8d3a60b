//! What a server said, put together from the chunks of a stream or from a whole body. Lenient: every field may be missing or
//! of another type.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Fields in which servers send reasoning.
const REASONING_FIELDS: [&str; 5] =
    ["reasoning_content", "reasoning", "thinking", "reasoning_details", "thinking_blocks"];
/// More tokens are no count.
const MAX_TOKEN_COUNT: u64 = 1 << 40;
/// Calls that are kept of one answer.
const MAX_CALLS: usize = 32;

/// A tool call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub index: Option<u64>,
    pub id: Option<String>,
    pub name: String,
    pub arguments: String,
}

/// The answer of the first choice, and what else its chunks show.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub text: String,
    /// Reasoning by the field in which it came.
    pub reasoning: BTreeMap<&'static str, String>,
    pub calls: Vec<Call>,
    pub finish: Option<String>,
    pub usage: Option<Value>,
    /// Indexes of the choices.
    pub choices: BTreeSet<u64>,
    /// Chunks whose `choices` are an empty list.
    pub empty_choices: usize,
    pub logprobs: bool,
}

impl Reply {
    /// Takes in a chunk or a body.
    pub(super) fn take(&mut self, chunk: &Value) {
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(usage.clone());
        }
        let Some(choices) = chunk.get("choices").and_then(Value::as_array) else { return };
        if choices.is_empty() {
            self.empty_choices += 1;
        }
        for choice in choices.iter().take(MAX_CALLS) {
            let index = choice.get("index").and_then(Value::as_u64).unwrap_or_default();
            self.choices.insert(index);
            if index == 0 {
                self.take_choice(choice);
            }
        }
    }

    fn take_choice(&mut self, choice: &Value) {
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(reason.to_owned());
        }
        self.logprobs |= choice.get("logprobs").is_some_and(|logprobs| {
            logprobs.get("content").and_then(Value::as_array).is_some_and(|tokens| !tokens.is_empty())
        });
        let (delta, is_whole) = match (choice.get("delta"), choice.get("message")) {
            (Some(delta), _) if delta.is_object() => (delta, false),
            (_, Some(message)) => (message, true),
            _ => return,
        };
        self.take_content(delta.get("content").unwrap_or(&Value::Null));
        for field in REASONING_FIELDS {
            match delta.get(field) {
                Some(Value::String(text)) if !text.is_empty() => {
                    self.reasoning.entry(field).or_default().push_str(text);
                }
                Some(Value::Array(parts)) if !parts.is_empty() => {
                    self.reasoning.entry(field).or_default();
                }
                _ => {}
            }
        }
        match delta.get("tool_calls") {
            Some(Value::Array(calls)) => calls.iter().for_each(|call| self.take_call(call, is_whole)),
            Some(call @ Value::Object(_)) => self.take_call(call, is_whole),
            _ => {}
        }
    }

    fn take_content(&mut self, content: &Value) {
        match content {
            Value::String(text) => self.text.push_str(text),
            Value::Array(parts) => {
                for part in parts {
                    if let Some(text) = part.get("text").and_then(Value::as_str) {
                        self.text.push_str(text);
                    } else if part.get("thinking").is_some() {
                        self.reasoning.entry("content[].thinking").or_default();
                    }
                }
            }
            _ => {}
        }
    }

    /// Takes in a call, or a piece that continues the one before it.
    fn take_call(&mut self, call: &Value, is_whole: bool) {
        let field = |name| call.get("function").and_then(|function| function.get(name));
        let id = call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
        let index = call.get("index").and_then(Value::as_u64);
        let name = field("name").and_then(Value::as_str).unwrap_or_default();
        let continues = !is_whole
            && self.calls.last().is_some_and(|last| match id {
                Some(id) => last.id.as_deref() == Some(id),
                None => last.index == index && (name.is_empty() || last.arguments.is_empty()),
            });
        if !continues {
            if self.calls.len() == MAX_CALLS {
                return;
            }
            self.calls.push(Call { index, id: id.map(str::to_owned), ..Call::default() });
        }
        let Some(last) = self.calls.last_mut() else { return };
        if last.name.is_empty() {
            name.clone_into(&mut last.name);
        }
        match field("arguments") {
            Some(Value::String(piece)) => last.arguments.push_str(piece),
            Some(arguments @ Value::Object(_)) => last.arguments.push_str(&arguments.to_string()),
            _ => {}
        }
    }

    /// Text and reasoning, as far as it is text.
    fn all_text(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.text.as_str()).chain(self.reasoning.values().map(String::as_str))
    }

    /// Words of the answer: at most as many as its tokens.
    pub(super) fn words(&self) -> usize {
        self.all_text().map(|text| text.split_whitespace().count()).sum()
    }

    /// Whether there is any text, reasoning or call.
    pub(super) fn says_something(&self) -> bool {
        !self.text.trim().is_empty() || !self.reasoning.is_empty() || !self.calls.is_empty()
    }

    /// A count of `usage`.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        self.usage.as_ref()?.get(name).and_then(token_count)
    }

    /// Cached tokens, under either name.
    pub(super) fn cached_tokens(&self) -> Option<u64> {
        let usage = self.usage.as_ref()?;
        let details = usage.get("prompt_tokens_details").and_then(|details| details.get("cached_tokens"));
        details.or_else(|| usage.get("prompt_cache_hit_tokens")).and_then(token_count)
    }

    /// Whether the limit of tokens ended the answer.
    pub(super) fn is_cut_short(&self) -> bool {
        self.finish.as_deref() == Some("length")
    }
}

/// A number of tokens, if it can be one.
pub(super) fn token_count(value: &Value) -> Option<u64> {
    value.as_u64().filter(|tokens| *tokens <= MAX_TOKEN_COUNT)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Reply;

    fn reply(chunks: &[Value]) -> Reply {
        let mut reply = Reply::default();
        chunks.iter().for_each(|chunk| reply.take(chunk));
        reply
    }

    fn delta(delta: &Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta}]})
    }

    #[test]
    fn pieces_of_calls_are_put_together_whatever_marks_their_beginning() {
        let piece = |piece: &Value| delta(&json!({"tool_calls": [piece]}));
        let by_id = reply(&[
            piece(&json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}})),
            piece(&json!({"index": 0, "function": {"arguments": "{}"}})),
            piece(&json!({"index": 0, "id": "b", "function": {"name": "g", "arguments": {"x": 1}}})),
        ]);
        let calls: Vec<_> = by_id.calls.iter().map(|call| (&*call.name, &*call.arguments)).collect();
        assert_eq!(calls, [("f", "{}"), ("g", "{\"x\":1}")]);
        let without = reply(&[
            piece(&json!({"index": 0, "function": {"name": "f", "arguments": "{}"}})),
            piece(&json!({"index": 1, "function": {"name": "f", "arguments": "{}"}})),
        ]);
        assert_eq!(without.calls.len(), 2);
        let whole = json!({"choices": [{"message": {"tool_calls": [{"function": {"name": "f"}}, {"function": {}}]}}]});
        assert_eq!(reply(&[whole]).calls.len(), 2);
    }

    #[test]
    fn nothing_that_a_server_sends_is_out_of_place() {
        for chunk in [
            json!(null),
            json!([]),
            json!({"choices": 7}),
            json!({"choices": [null, 7, {"delta": []}, {"delta": {"content": 3, "tool_calls": [7, null]}}]}),
            json!({"usage": "much", "choices": [{"logprobs": [], "message": null}]}),
        ] {
            let reply = reply(&[chunk]);
            assert_eq!((reply.text.as_str(), reply.usage), ("", None));
        }
        let parts =
            reply(&[delta(&json!({"content": [{"text": "a"}, {"thinking": "b"}], "reasoning": "c"}))]);
        assert_eq!(parts.text, "a");
        assert_eq!(parts.reasoning.keys().copied().collect::<Vec<_>>(), ["content[].thinking", "reasoning"]);
    }
}
