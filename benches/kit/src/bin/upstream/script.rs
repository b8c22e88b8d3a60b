//! What the mock has to say: the model's name and the messages decide it.

use serde_json::{Value, json};

/// The last word of every text answer; the load generator looks for it.
pub(crate) const MARK: &str = "ENDMARK";

/// A request in either protocol, as far as the mock cares.
pub(crate) struct Ask<'a> {
    pub(crate) model: &'a str,
    pub(crate) stream: bool,
    pub(crate) usage: bool,
    /// Each message's role and content.
    pub(crate) messages: Vec<(&'a str, &'a str)>,
    /// The offered functions, each as its JSON text.
    pub(crate) tools: Vec<&'a str>,
    pub(crate) native: bool,
}

/// What the mock answers with: text pieces or tool calls.
pub(crate) enum Say {
    Text(Vec<String>),
    Calls(Vec<Value>),
}

/// `n` pieces, the last of them the end mark.
pub(crate) fn text(n: usize) -> Vec<String> {
    (0..n.max(1)).map(|i| if i + 1 >= n { MARK.to_string() } else { format!("word{i} ") }).collect()
}

/// Says which messages arrived, so that a test can see a gateway's history.
pub(crate) fn echo(messages: &[(&str, &str)]) -> Vec<String> {
    let roles: Vec<_> = messages.iter().map(|m| m.0).collect();
    let last = messages.last().map_or("", |m| m.1);
    vec![format!("messages={} roles={} last={last} ", messages.len(), roles.join(",")), MARK.to_string()]
}

/// `k` calls to the offered tools in turn, with arguments that fit each tool's schema.
pub(crate) fn calls(tools: &[&str], k: usize, turn: usize) -> Vec<Value> {
    (0..k.max(1))
        .map(|i| {
            let tool: Value = serde_json::from_str(tools[i % tools.len()]).unwrap_or_default();
            let function = &tool["function"];
            let mut args = serde_json::Map::new();
            for (name, schema) in function["parameters"]["properties"].as_object().into_iter().flatten() {
                let value = match schema["type"].as_str() {
                    Some("integer" | "number") => json!(i + 1),
                    Some("boolean") => json!(true),
                    Some("array") => json!([]),
                    Some("object") => json!({}),
                    _ => json!("Paris"),
                };
                args.insert(name.clone(), value);
            }
            json!({"index": i, "id": format!("call_mock_{turn}_{i}"), "type": "function",
                   "function": {"name": function["name"], "arguments": Value::Object(args).to_string()}})
        })
        .collect()
}
