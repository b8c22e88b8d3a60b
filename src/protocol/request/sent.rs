//! A request as it was sent, from which the gateway makes others for the same caller.

use std::fmt;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::body::{RawFields, split_fields};
use crate::protocol::parse::{self, FromJson};
use crate::protocol::tool_choice::{AllowedMode, ToolChoice, ToolRef};

/// What another request says itself, and what only concerns the connection that this one came by.
const NOT_CONTINUED: &[&str] = &["background", "input", "previous_response_id", "stream", "stream_options"];

/// The fields of a request but its input, as a JSON object. It has the credentials that the client has sent in its tools.
#[derive(Clone)]
pub struct SentFields(Box<str>);

impl fmt::Debug for SentFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SentFields(..)")
    }
}

impl SentFields {
    /// Of a request with these fields.
    pub(super) fn of(fields: &RawFields<'_>) -> Self {
        let kept = || fields.iter().filter(|(name, _)| name != "input");
        let mut text = String::with_capacity(
            2 + kept().map(|(name, raw)| name.len() + raw.get().len() + 4).sum::<usize>(),
        );
        text.push('{');
        for (name, raw) in kept() {
            push(&mut text, name, raw.get());
        }
        text.push('}');
        Self(text.into())
    }

    /// The body, without its input, of a background request that continues the response of this one: in the same conversation
    /// if it has one.
    ///
    /// All fields are as they were sent, so that what this request limits or excludes is so there, too. Only a call that
    /// `tool_choice` demands was made: it would be demanded of each response that continues another, without an end. The tools
    /// that it chooses among stay the only ones.
    pub(crate) fn continued(&self, response: &str) -> String {
        let fields = split_fields(self.0.as_bytes()).unwrap_or_default();
        let mut text = String::with_capacity(self.0.len() + 128);
        text.push('{');
        push(&mut text, "background", "true");
        if !fields.iter().any(|(name, raw)| name == "conversation" && !parse::is_null(raw)) {
            push(&mut text, "previous_response_id", &json!(response).to_string());
        }
        for (name, raw) in fields.iter().filter(|(name, _)| !NOT_CONTINUED.contains(&&**name)) {
            match &**name {
                "tool_choice" => push(&mut text, name, &without_demand(raw)),
                "antwort" => push(&mut text, name, &without_connection(raw)),
                _ => push(&mut text, name, raw.get()),
            }
        }
        text.push('}');
        text
    }
}

/// Adds a field. A name is written as JSON again, a value as it came.
fn push(text: &mut String, name: &str, value: &str) {
    if text.len() > 1 {
        text.push(',');
    }
    text.extend([&*Value::from(name).to_string(), ":", value]);
}

/// The choice among the same tools that demands no call.
fn without_demand(raw: &RawValue) -> String {
    let only =
        |tools: Vec<ToolRef>| json!({"type": "allowed_tools", "mode": "auto", "tools": tools}).to_string();
    match ToolChoice::from_json(raw) {
        Ok(ToolChoice::Required) => json!("auto").to_string(),
        Ok(ToolChoice::Function { name }) => only(vec![ToolRef::Function { name }]),
        Ok(ToolChoice::Custom { name }) => only(vec![ToolRef::Custom { name }]),
        Ok(ToolChoice::Mcp { server_label, name }) => only(vec![ToolRef::Mcp { server_label, name }]),
        Ok(ToolChoice::Hosted { kind }) => only(vec![ToolRef::Hosted { kind }]),
        Ok(ToolChoice::Allowed { mode: AllowedMode::Required, tools }) => only(tools),
        // Null is none that was given.
        Ok(ToolChoice::None | ToolChoice::Auto | ToolChoice::Allowed { .. }) | Err(_) => raw.get().to_owned(),
    }
}

/// The options of the run without what happens when its client disconnects: a background response has none.
fn without_connection(raw: &RawValue) -> String {
    match serde_json::from_str::<Map<String, Value>>(raw.get()) {
        Ok(mut options) => {
            options.remove("on_disconnect");
            Value::Object(options).to_string()
        }
        Err(_) => raw.get().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::request::CreateResponse;

    fn continued(body: &Value) -> Value {
        let sent = CreateResponse::parse(body.to_string().as_bytes()).unwrap().sent.expect("as sent");
        serde_json::from_str(&sent.continued("resp_1")).unwrap()
    }

    #[test]
    fn all_that_was_sent_is_continued_but_the_input_and_the_connection() {
        let body = json!({"model": "m", "input": "hi", "stream": true, "stream_options": {"include_obfuscation": true},
            "previous_response_id": "resp_0", "store": true, "allowed_tools": ["f"], "max_tool_calls": 1,
            "max_output_tokens": 50, "temperature": 0.5, "text": {"format": {"type": "json_object"}}, "x-own": 1,
            "reasoning": {"effort": "low"}, "antwort": {"on_disconnect": "cancel", "limits": {"max_turns": 3}},
            "tools": [{"type": "mcp", "server_label": "s", "server_url": "https://example.com", "authorization": "t"},
                {"type": "function", "name": "f"}]});
        let mut expected = body.clone();
        for gone in ["input", "stream", "stream_options"] {
            expected.as_object_mut().unwrap().remove(gone);
        }
        expected["antwort"] = json!({"limits": {"max_turns": 3}});
        expected["background"] = json!(true);
        expected["previous_response_id"] = json!("resp_1");
        assert_eq!(continued(&body), expected);
    }

    #[test]
    fn a_conversation_is_continued_in_it() {
        let next = continued(&json!({"model": "m", "input": "hi", "conversation": {"id": "conv_1"}}));
        assert_eq!(next, json!({"background": true, "model": "m", "conversation": {"id": "conv_1"}}));
        let next = continued(&json!({"model": "m", "input": "hi", "conversation": null}));
        assert_eq!(next["previous_response_id"], "resp_1");
    }

    #[test]
    fn a_call_is_demanded_once_and_the_tools_to_choose_among_stay() {
        let only = |tool: &Value| json!({"type": "allowed_tools", "mode": "auto", "tools": [tool]});
        let (function, server) =
            (json!({"type": "function", "name": "f"}), json!({"type": "mcp", "server_label": "s"}));
        let required = json!({"type": "allowed_tools", "mode": "required", "tools": [function]});
        let none = json!({"type": "allowed_tools", "mode": "none", "tools": [function]});
        for (sent, expected) in [
            (json!("required"), json!("auto")),
            (json!("none"), json!("none")),
            (function.clone(), only(&function)),
            (server.clone(), only(&server)),
            (json!({"type": "web_search"}), only(&json!({"type": "web_search"}))),
            (required, only(&function)),
            (none.clone(), none),
            (only(&server), only(&server)),
        ] {
            let next = continued(&json!({"model": "m", "input": "hi", "tool_choice": sent}));
            assert_eq!(next["tool_choice"], expected, "{sent}");
        }
    }

    #[test]
    fn what_was_sent_is_not_shown_by_chance() {
        let body = json!({"model": "m", "input": "hi", "metadata": {"k": "secret"}}).to_string();
        let sent = CreateResponse::parse(body.as_bytes()).unwrap().sent;
        assert!(!format!("{sent:?}").contains("secret"));
    }
}
