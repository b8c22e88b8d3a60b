//! The scripted model: calls the function that it is offered, and answers with its output.

#![expect(clippy::indexing_slicing, reason = "a JSON value indexed by what it lacks is null")]

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Name of the scripted model.
pub(crate) const MODEL: &str = "demo";
/// Delay between two chunks, so that streaming is visible.
const CHUNK_DELAY: Duration = Duration::from_millis(40);

/// Serves chat completions until `shutdown`.
pub(super) async fn serve(listener: TcpListener, shutdown: CancellationToken) {
    let service =
        axum::Router::new().route("/v1/models", get(models)).route("/v1/chat/completions", post(complete));
    let served = axum::serve(listener, service).with_graceful_shutdown(shutdown.cancelled_owned()).await;
    if let Err(error) = served {
        tracing::error!(%error, "the demo provider stopped");
    }
}

async fn models() -> Response {
    Json(json!({"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "antwort"}]}))
        .into_response()
}

async fn complete(Json(request): Json<Value>) -> Response {
    let turn = Turn::of(&request);
    if request["stream"] == true { streamed(&turn) } else { Json(turn.completion()).into_response() }
}

/// The output of one turn.
enum Turn {
    Call { name: String, arguments: String },
    Say(String),
}

impl Turn {
    fn of(request: &Value) -> Self {
        let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let last = messages.last();
        let role = last.and_then(|message| message["role"].as_str()).unwrap_or_default();
        let tool = &request["tools"][0]["function"];
        match (role, tool["name"].as_str()) {
            ("tool", _) => {
                let result = last.map(|message| content(&message["content"])).unwrap_or_default();
                Self::Say(format!(
                    "The function answered: {result}. That is all I know, for I am only a script."
                ))
            }
            (_, Some(name)) if request["tool_choice"] != "none" => {
                Self::Call { name: name.to_owned(), arguments: example(&tool["parameters"]).to_string() }
            }
            _ => {
                let prompt = last.map(|message| content(&message["content"])).unwrap_or_default();
                Self::Say(format!(
                    "You said: \"{prompt}\" I am the demo model, a script of {} messages so far. Set \
                     ANTWORT_UPSTREAM_URL to talk to a real one.",
                    messages.len()
                ))
            }
        }
    }

    fn completion(&self) -> Value {
        let (message, reason) = match self {
            Self::Call { name, arguments } => (
                json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_demo", "type": "function",
                    "function": {"name": name, "arguments": arguments}}]}),
                "tool_calls",
            ),
            Self::Say(text) => (json!({"role": "assistant", "content": text}), "stop"),
        };
        json!({"id": "chatcmpl-demo", "object": "chat.completion", "created": 0, "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": self.usage()})
    }

    fn chunks(&self) -> Vec<Value> {
        let mut chunks = vec![json!({"role": "assistant", "content": ""})];
        let reason = match self {
            Self::Call { name, arguments } => {
                chunks.push(json!({"tool_calls": [{"index": 0, "id": "call_demo", "type": "function",
                    "function": {"name": name, "arguments": ""}}]}));
                chunks
                    .extend(pieces(arguments).map(
                        |piece| json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}),
                    ));
                "tool_calls"
            }
            Self::Say(text) => {
                chunks.extend(pieces(text).map(|piece| json!({"content": piece})));
                "stop"
            }
        };
        let choice = |delta: Value, reason: Option<&str>| {
            json!({"id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": 0, "model": MODEL,
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
        };
        let mut chunks: Vec<_> = chunks.into_iter().map(|delta| choice(delta, None)).collect();
        chunks.push(choice(json!({}), Some(reason)));
        chunks.push(json!({"id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": 0,
            "model": MODEL, "choices": [], "usage": self.usage()}));
        chunks
    }

    /// A script has no tokens; words are counted instead.
    fn usage(&self) -> Value {
        let words = match self {
            Self::Call { .. } => 1,
            Self::Say(text) => text.split_whitespace().count(),
        };
        json!({"prompt_tokens": 10, "completion_tokens": words, "total_tokens": 10 + words})
    }
}

fn streamed(turn: &Turn) -> Response {
    let mut frames: Vec<_> = turn.chunks().into_iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    frames.push("data: [DONE]\n\n".to_owned());
    let frames = stream::unfold(frames.into_iter(), |mut frames| async {
        let frame = frames.next()?;
        tokio::time::sleep(CHUNK_DELAY).await;
        Some((Ok::<_, Infallible>(Bytes::from(frame)), frames))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(frames)).into_response()
}

/// Chunks of a text as a model would stream it: words with the space behind them.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

fn content(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// Arguments that match a schema.
fn example(schema: &Value) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, property)| {
            let value = match property["type"].as_str() {
                Some("integer" | "number") => json!(1),
                Some("boolean") => json!(true),
                Some("array") => json!([]),
                Some("object") => json!({}),
                _ => json!(if name == "city" { "Oslo" } else { "example" }),
            };
            (name.clone(), value)
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}
