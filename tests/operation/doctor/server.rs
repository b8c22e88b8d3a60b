//! A chat-completions server around the scripted model, with the quirks that a test gives it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::model::{Output, Quirks, WINDOW, image, last, output};

/// The server; ends with the test.
pub struct Server {
    /// Base URL, ending in `/v1`.
    pub url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    quirks: Quirks,
    requests: Mutex<Vec<Value>>,
    /// Prompts that were seen, for the cache.
    prompts: Mutex<BTreeSet<String>>,
    /// Taken by an answer for as long as it is written, if the server writes one at a time.
    slot: Arc<tokio::sync::Mutex<()>>,
}

impl Server {
    pub async fn spawn(quirks: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let root = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            quirks: Quirks(quirks),
            requests: Mutex::default(),
            prompts: Mutex::default(),
            slot: Arc::default(),
        });
        let router = Router::new()
            .route("/v1/models", get(models))
            .route("/props", get(props))
            .route("/v1/chat/completions", post(complete))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Arc::clone(&shared));
        #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url: format!("{root}/v1"), shared, task }
    }

    /// The bodies of all requests for completions.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.requests.lock().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn models(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let quirks = shared.quirks;
    if quirks.has("wants a key") && headers.get("authorization").is_none_or(|key| key != "Bearer right-key") {
        return error(401, "invalid key");
    }
    if quirks.has("no list") {
        return StatusCode::NOT_FOUND.into_response();
    }
    let owner = if quirks.has("is vllm") { "vllm" } else { "tests" };
    let id = if quirks.has("is called as its key") { "right-key" } else { "scripted" };
    let mut model = json!({"id": id, "object": "model", "owned_by": owner});
    if !quirks.has("no window") && !quirks.has("window in props") {
        model["max_model_len"] = json!(WINDOW);
    }
    Json(json!({"object": "list", "data": [model]})).into_response()
}

async fn props(State(shared): State<Arc<Shared>>) -> Response {
    match shared.quirks.has("window in props") {
        true => Json(json!({"default_generation_settings": {"n_ctx": WINDOW}})).into_response(),
        false => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn complete(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if shared.quirks.has("is slow") {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let count = {
        let mut requests = shared.requests.lock();
        requests.push(body.clone());
        requests.len()
    };
    if let Some(refused) = refusal(&body, shared.quirks, count) {
        return refused;
    }
    let output = output(&body, shared.quirks, count);
    if output.prompt_tokens > WINDOW && !shared.quirks.has("truncates") {
        let message = if shared.quirks.has("overflow in other words") {
            "too many words"
        } else {
            "This model's maximum context length is 3000 tokens."
        };
        return error(400, message);
    }
    let is_known = !shared.prompts.lock().insert(body["messages"].to_string());
    let usage = usage(&output, is_known, shared.quirks);
    if body["stream"] == true && !shared.quirks.has("does not stream") {
        return streamed(&body, &output, &usage, &shared);
    }
    let message =
        json!({"role": "assistant", "content": output.text, "tool_calls": whole_calls(&output, count)});
    Json(json!({"id": "c", "object": "chat.completion", "choices":
        [{"index": 0, "message": message, "finish_reason": output.finish}], "usage": usage}))
    .into_response()
}

/// Requests that a server with such a quirk refuses.
fn refusal(body: &Value, quirks: Quirks, count: usize) -> Option<Response> {
    let roles: Vec<_> = body["messages"].as_array()?.iter().map(|message| message["role"].clone()).collect();
    let systems = roles.iter().filter(|role| *role == "system").count();
    let rows = [
        ("no completions", true),
        ("refuses stream_options", body.get("stream_options").is_some()),
        ("refuses max_tokens", body.get("max_tokens").is_some()),
        ("refuses max_completion_tokens", body.get("max_completion_tokens").is_some()),
        ("refuses unknown fields", body.get("antwort_doctor").is_some()),
        ("refuses developer", roles.iter().any(|role| role == "developer")),
        ("refuses a second system", systems > 1),
        ("refuses reasoning", body["messages"].to_string().contains("\"reasoning")),
        ("refuses tools", body.get("tools").is_some()),
        ("refuses strict", body["tools"].to_string().contains("\"strict\"")),
        ("refuses parallel_tool_calls", body.get("parallel_tool_calls").is_some()),
        ("refuses named tool_choice", body["tool_choice"].is_object()),
        ("refuses required", body["tool_choice"] == "required"),
        ("refuses schemas", body.get("response_format").is_some()),
        ("refuses schemas with tools", body.get("response_format").is_some() && body.get("tools").is_some()),
        ("roles must alternate", roles.windows(2).any(|pair| pair[0] == "user" && pair[1] == "user")),
        ("no user after tool", roles.windows(2).any(|pair| pair[0] == "tool" && pair[1] == "user")),
        ("only streams", body["stream"] != true),
        ("refuses images", image(body).is_some()),
        ("refuses logprobs", body.get("logprobs").is_some()),
        ("refuses n", body.get("n").is_some()),
        ("refuses seed", body.get("seed").is_some()),
        ("refuses stop", body.get("stop").is_some()),
    ];
    if let Some((quirk, _)) = rows.iter().find(|(quirk, applies)| quirks.has(quirk) && *applies) {
        let status = if quirks.has("errors have status 200") { 200 } else { 400 };
        return Some(error(status, quirk));
    }
    if quirks.has("is busy") && count == 3 {
        let mut refused = error(429, "too many requests");
        refused.headers_mut().insert("retry-after", "1".parse().unwrap());
        return Some(refused);
    }
    if quirks.has("dies") && count > 1 {
        return Some(error(503, "the model is gone"));
    }
    let is_nowhere = image(body).is_some_and(|url| url.starts_with("http"));
    (is_nowhere && !quirks.has("images are ignored")).then(|| error(400, "could not fetch the image"))
}

fn error(status: u16, message: &str) -> Response {
    let body = Json(json!({"error": {"message": message, "type": "invalid_request_error"}}));
    (StatusCode::from_u16(status).unwrap(), body).into_response()
}

fn usage(output: &Output, is_known: bool, quirks: Quirks) -> Value {
    let mut usage = json!({"prompt_tokens": output.prompt_tokens.min(WINDOW), "completion_tokens": output.tokens(),
        "total_tokens": output.prompt_tokens + output.tokens()});
    if !quirks.has("no cached tokens") {
        let cached = if is_known { output.prompt_tokens } else { 0 };
        usage["prompt_tokens_details"] = json!({"cached_tokens": cached});
    }
    usage
}

fn whole_calls(output: &Output, count: usize) -> Vec<Value> {
    let call = |(index, (name, arguments)): (usize, &(String, Value))| {
        json!({"id": format!("call_{count}_{index}"), "type": "function",
            "function": {"name": name, "arguments": arguments.to_string()}})
    };
    output.calls.iter().enumerate().map(call).collect()
}

fn streamed(body: &Value, output: &Output, usage: &Value, shared: &Arc<Shared>) -> Response {
    let quirks = shared.quirks;
    let count = shared.requests.lock().len();
    let mut frames = Vec::new();
    if quirks.has("comments") {
        frames.push(": waiting\n\n".to_owned());
    }
    if quirks.has("empty choices first") {
        frames.push(frame(&json!({"choices": [], "prompt_filter_results": []})));
    }
    let choices = if quirks.has("n is ignored") { 1 } else { body["n"].as_u64().unwrap_or(1) };
    let chunk = |choice: u64, delta: Value, finish: Option<&str>| {
        let mut chunk = json!({"id": "c", "object": "chat.completion.chunk",
            "choices": [{"index": choice, "delta": delta, "finish_reason": finish}]});
        if body["logprobs"] == true && !quirks.has("logprobs are ignored") {
            chunk["choices"][0]["logprobs"] = json!({"content": [{"token": "a", "logprob": -0.5}]});
        }
        frame(&chunk)
    };
    for choice in 0..choices {
        frames.push(chunk(choice, json!({"role": "assistant", "content": ""}), None));
        frames.extend(output.reasoning.iter().map(|text| chunk(choice, json!({"reasoning": text}), None)));
        let pieces = output.text.split_inclusive(char::is_whitespace);
        frames.extend(pieces.map(|piece| chunk(choice, json!({"content": piece}), None)));
        for (index, call) in whole_calls(output, count).into_iter().enumerate() {
            frames.push(chunk(choice, json!({"tool_calls": [with_quirks(call, index, quirks)]}), None));
        }
        frames.push(chunk(choice, json!({}), Some(output.finish)));
    }
    let wants_usage = body["stream_options"]["include_usage"] == true && !quirks.has("no usage");
    frames.extend(wants_usage.then(|| frame(&json!({"choices": [], "usage": usage}))));
    if !quirks.has("no end mark") {
        frames.push("data: [DONE]\n\n".to_owned());
    }
    send(frames, body, shared)
}

fn with_quirks(mut call: Value, index: usize, quirks: Quirks) -> Value {
    call["index"] = json!(if quirks.has("index 0 for all calls") { 0 } else { index });
    if quirks.has("no call ids") {
        call["id"] = json!("");
    } else if quirks.has("one id for all calls") {
        call["id"] = json!("call_1");
    }
    call
}

fn frame(chunk: &Value) -> String {
    format!("data: {chunk}\n\n")
}

/// Sends the frames; a server that goes on although its client has gone writes a long answer to the end first.
fn send(frames: Vec<String>, body: &Value, shared: &Arc<Shared>) -> Response {
    let is_long = last(body).contains("Count from 1 to 1000");
    let slot = Arc::clone(&shared.slot);
    if shared.quirks.has("goes on alone") && is_long {
        #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
        tokio::spawn(async move {
            let _taken = slot.lock().await;
            tokio::time::sleep(Duration::from_secs(6)).await;
        });
        let frames = stream::unfold(frames.into_iter(), |mut frames| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from(frames.next()?)), frames))
        });
        return ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(frames)).into_response();
    }
    let frames =
        stream::unfold((frames.into_iter(), slot, is_long), |(mut frames, slot, is_long)| async move {
            drop(slot.lock().await);
            if is_long {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Some((Ok::<_, std::io::Error>(Bytes::from(frames.next()?)), (frames, slot, is_long)))
        });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(frames)).into_response()
}
