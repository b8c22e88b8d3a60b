//! Reads a request in either protocol, as far as the mock cares.

use crate::answer::{Answer, error};
use crate::play::play;
use crate::script::Ask;
use hyper::Response;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Deserialize)]
struct Chat<'a> {
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(borrow, default)]
    messages: Vec<Message<'a>>,
    #[serde(borrow, default)]
    tools: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

pub(crate) async fn chat(body: &[u8]) -> Response<Answer> {
    let chat: Chat = match serde_json::from_slice(body) {
        Ok(chat) => chat,
        Err(e) => return error(400, &format!("bad request: {e}")),
    };
    play(Ask {
        model: &chat.model,
        stream: chat.stream.unwrap_or(false),
        usage: chat.stream_options.is_some_and(|o| o.include_usage == Some(true)),
        messages: chat
            .messages
            .iter()
            .map(|m| (m.role.as_ref(), m.content.map_or("", |c| c.get())))
            .collect(),
        tools: chat.tools.iter().flatten().map(|t| t.get()).collect(),
        native: false,
    })
    .await
}

/// The native Responses endpoint, for gateways that pass /v1/responses through.
pub(crate) async fn responses(body: &[u8]) -> Response<Answer> {
    let request: Value = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(e) => return error(400, &format!("bad request: {e}")),
    };
    let texts: Vec<(&str, String)> = match &request["input"] {
        Value::Array(items) => items
            .iter()
            .map(|item| match item["type"].as_str() {
                Some("function_call") => ("assistant", String::new()),
                Some("function_call_output") => ("tool", item["output"].to_string()),
                _ => (item["role"].as_str().unwrap_or("?"), item["content"].to_string()),
            })
            .collect(),
        input => vec![("user", input.to_string())],
    };
    let tools = request["tools"].as_array().into_iter().flatten().filter(|t| t["type"] == "function");
    let tools: Vec<String> = tools.map(|t| json!({"function": t}).to_string()).collect();
    play(Ask {
        model: request["model"].as_str().unwrap_or(""),
        stream: request["stream"] == true,
        usage: true,
        messages: texts.iter().map(|(role, text)| (*role, text.as_str())).collect(),
        tools: tools.iter().map(String::as_str).collect(),
        native: true,
    })
    .await
}
