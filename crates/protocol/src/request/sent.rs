//! A request as it was sent, from which the gateway makes others for the same caller.

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::body::{RawFields, join_fields, split_fields};
use crate::error::ApiError;
use crate::parse::{self, FromJson};
use crate::tool_choice::{AllowedMode, ToolChoice, ToolRef};

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
        let kept = fields.iter().filter(|(name, _)| name != "input");
        Self(join_fields(kept.map(|(name, raw)| (name.as_ref(), raw.get()))).into())
    }

    /// Of a request with this body, which was read before.
    pub fn of_body(body: &[u8]) -> Option<Self> {
        split_fields(body).ok().map(|fields| Self::of(&fields))
    }

    /// About how many bytes it takes to continue it.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// The body, without its input, of a background request that continues the response of this one: in the same conversation
    /// if it has one.
    ///
    /// All fields are as they were sent, so that what this request limits or excludes is so there, too. Only a call that
    /// `tool_choice` demands was made: it would be demanded of each response that continues another, without an end. The tools
    /// that it chooses among stay the only ones.
    pub fn continued(&self, response: &str) -> Option<String> {
        let fields = split_fields(self.0.as_bytes()).ok()?;
        let mut next: Vec<(&str, Cow<'_, str>)> = vec![("background", "true".into())];
        if !is_in_conversation(&fields) {
            next.push(("previous_response_id", json!(response).to_string().into()));
        }
        for (name, raw) in fields.iter().filter(|(name, _)| !NOT_CONTINUED.contains(&&**name)) {
            let value = match &**name {
                "tool_choice" => without_demand(raw).into(),
                "antwort" => without_connection(raw).into(),
                _ => raw.get().into(),
            };
            next.push((name, value));
        }
        Some(join_fields(next.iter().map(|(name, value)| (*name, &**value))))
    }
}

/// A request that has no input yet.
pub struct Continuation<'a>(RawFields<'a>);

impl<'a> Continuation<'a> {
    /// Reads the body that [`SentFields::continued`] has made.
    ///
    /// # Errors
    /// If it is not a JSON object, or has too many fields.
    pub fn read(text: &'a str) -> Result<Self, ApiError> {
        split_fields(text.as_bytes()).map(Self)
    }

    /// Whether the request names a conversation; otherwise it continues a response by its id.
    pub fn is_in_conversation(&self) -> bool {
        is_in_conversation(&self.0)
    }

    /// The body with this input. All else stays as it is.
    pub fn with_input(&self, input: &Value) -> String {
        let input = input.to_string();
        let others = self.0.iter().map(|(name, raw)| (name.as_ref(), raw.get()));
        join_fields(std::iter::once(("input", &*input)).chain(others))
    }
}

fn is_in_conversation(fields: &RawFields<'_>) -> bool {
    fields.iter().any(|(name, raw)| name == "conversation" && !parse::is_null(raw))
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
    use crate::request::CreateResponse;

    fn continued(body: &Value) -> Value {
        let body = body.to_string();
        CreateResponse::parse(body.as_bytes()).unwrap();
        let sent = SentFields::of_body(body.as_bytes()).unwrap();
        serde_json::from_str(&sent.continued("resp_1").unwrap()).unwrap()
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
    fn input_is_added_to_what_is_continued() {
        let next = Continuation::read(r#"{"a\"b":1,"conversation":"conv_1"}"#).unwrap();
        assert!(next.is_in_conversation());
        let whole: Value = serde_json::from_str(&next.with_input(&json!("hi"))).unwrap();
        assert_eq!(whole, json!({"input": "hi", "a\"b": 1, "conversation": "conv_1"}));
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
        let sent = SentFields::of_body(body.as_bytes());
        assert!(!format!("{sent:?}").contains("secret"));
    }
}
