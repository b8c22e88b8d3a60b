//! A scripted chat-completions provider on a real port: says what a test tells it to, chunk by chunk, and
//! is strict about what it is asked.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::tokenizer::Tokenizer;

/// The provider; ends with the test.
pub struct Upstream {
    /// Base URL, ending in `/v1`.
    pub url: String,
    /// Its tokenizer, beside the API.
    pub tokenizer: Arc<Tokenizer>,
    state: Arc<Script>,
    server: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Script {
    replies: Mutex<VecDeque<Reply>>,
    /// What is said once they are used up.
    always: Mutex<Option<Reply>>,
    requests: Mutex<Vec<Request>>,
    faults: Mutex<Vec<String>>,
    /// Streams that are being sent.
    open: Mutex<usize>,
    /// What it refuses besides, with the message of its error.
    rule: Mutex<Option<Rule>>,
    /// Whether it takes only ids of calls that are nine letters and digits.
    short_ids: Mutex<bool>,
    /// Ids of the models that it lists, and how often it was asked for them.
    models: Mutex<(Vec<String>, usize)>,
}

/// Says why a server refuses a request, if it does.
type Rule = fn(&Value) -> Result<(), &'static str>;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Value,
    /// Its body, byte for byte.
    pub raw: String,
}

/// What the provider says to one request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// These words, streamed or not as asked.
    Text(String),
    /// Calls of these functions with these arguments, streamed or not as asked.
    Calls(Vec<(&'static str, Value)>),
    /// This message and finish reason, not streamed.
    Whole(Value),
    /// These steps of a stream.
    Stream(Vec<Step>),
    /// These steps under another content type.
    Typed(&'static str, Vec<Step>),
    /// This status, with headers and a body.
    Status(u16, Vec<(&'static str, &'static str)>, String),
    /// Nothing at all, for ever.
    Silence,
    /// This, after a time in which nothing is said, not even a status.
    After(Duration, Box<Reply>),
}

/// A step of a stream.
#[derive(Debug, Clone)]
pub enum Step {
    /// A chunk, framed.
    Chunk(Value),
    /// Bytes as they are.
    Raw(Vec<u8>),
    /// Time passes.
    Wait(Duration),
    /// The connection breaks.
    Cut,
    /// Nothing more comes, and the connection stays.
    Hang,
}

impl Upstream {
    /// A provider that greets everybody until told otherwise.
    pub async fn spawn() -> Self {
        Self::spawn_on("127.0.0.1:0").await
    }

    /// A provider at a given address, for those that come back after a crash.
    pub async fn spawn_on(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let state = Arc::new(Script::default());
        state.models.lock().0 = vec!["test-model".into(), "org/model:latest".into()];
        let router = Router::new()
            .route("/v1/models", get(models))
            .route("/v1/chat/completions", post(complete))
            .route("/v1/embeddings", post(embed))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Arc::clone(&state));
        let tokenizer = Arc::new(Tokenizer::default());
        let router = router.merge(tokenizer.routes());
        #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
        let server = tokio::spawn(serve(listener, router));
        Self { url, tokenizer, state, server }
    }

    /// Says this to the next request that has no reply yet.
    pub fn reply(&self, reply: Reply) -> &Self {
        self.state.replies.lock().push_back(reply);
        self
    }

    /// Says these words to the next request.
    pub fn text(&self, text: &str) -> &Self {
        self.reply(Reply::Text(text.into()))
    }

    /// Everything that was asked.
    pub fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().clone()
    }

    /// The latest request's body.
    pub fn last(&self) -> Value {
        self.requests().last().expect("the provider was asked").body.clone()
    }

    /// Streams that have not ended.
    pub fn open_streams(&self) -> usize {
        *self.state.open.lock()
    }

    /// Lists these models from now on.
    pub fn list(&self, models: &[&str]) -> &Self {
        self.state.models.lock().0 = models.iter().map(|id| (*id).to_owned()).collect();
        self
    }

    /// Refuses ids of calls that are not nine letters and digits, as Mistral's servers do.
    pub fn take_short_ids_only(&self) -> &Self {
        *self.state.short_ids.lock() = true;
        self
    }

    /// How often it was asked for its models.
    pub fn listed(&self) -> usize {
        self.state.models.lock().1
    }

    /// Says this to every request that has no reply of its own.
    pub fn always(&self, reply: Reply) -> &Self {
        *self.state.always.lock() = Some(reply);
        self
    }

    /// Refuses requests by this rule from now on, as a chat template does that raises an error.
    pub fn refuse(&self, rule: fn(&Value) -> Result<(), &'static str>) -> &Self {
        *self.state.rule.lock() = Some(rule);
        self
    }

    /// Stops at once, as a crash would: every connection breaks.
    pub async fn kill(&self) {
        self.server.abort();
        while !self.server.is_finished() {
            tokio::task::yield_now().await;
        }
    }
}

/// Serves connections; when this ends, they end with it.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        let service = TowerToHyperService::new(router.clone());
        connections.spawn(async move {
            // A client that goes away is part of many tests.
            _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.server.abort();
        let faults = self.state.faults.lock();
        if !std::thread::panicking() {
            assert!(faults.is_empty(), "the gateway asked what a strict provider refuses: {faults:#?}");
        }
    }
}

/// A chunk with this delta.
pub fn chunk(delta: Value) -> Step {
    Step::Chunk(json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
}

/// The chunk that ends a stream.
pub fn finish(reason: &str) -> Step {
    Step::Chunk(json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
}

/// The chunk with the usage.
pub fn usage(prompt: u64, completion: u64) -> Step {
    Step::Chunk(
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [],
        "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}}),
    )
}

/// The end mark.
pub fn done() -> Step {
    Step::Raw(b"data: [DONE]\n\n".to_vec())
}

async fn models(State(state): State<Arc<Script>>) -> Response {
    let mut models = state.models.lock();
    models.1 += 1;
    let entry = |id: &String| json!({"id": id, "object": "model", "created": 7, "owned_by": "tests"});
    Json(json!({"object": "list", "data": models.0.iter().map(entry).collect::<Vec<_>>()})).into_response()
}

async fn embed(State(state): State<Arc<Script>>, headers: HeaderMap, body: Bytes) -> Response {
    let raw = String::from_utf8_lossy(&body).into_owned();
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let model = body["model"].clone();
    state.requests.lock().push(Request { headers, body, raw });
    let data = json!([{"object": "embedding", "index": 0, "embedding": [0.5]}]);
    Json(json!({"object": "list", "model": model, "data": data})).into_response()
}

async fn complete(State(state): State<Arc<Script>>, headers: HeaderMap, body: Bytes) -> Response {
    let raw = String::from_utf8_lossy(&body).into_owned();
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let checks_ids = *state.short_ids.lock();
    let ids = || if checks_ids { check_ids(&body) } else { Ok(()) };
    if let Err(fault) = check_request(&body).and_then(|()| ids()) {
        state.faults.lock().push(format!("{fault}: {body}"));
        return (StatusCode::BAD_REQUEST, Json(json!({"error": {"message": fault}}))).into_response();
    }
    let streamed = body["stream"] == true;
    let refused = state.rule.lock().and_then(|rule| rule(&body).err());
    state.requests.lock().push(Request { headers, body, raw });
    if let Some(message) = refused {
        return (StatusCode::BAD_REQUEST, Json(json!({"error": {"message": message}}))).into_response();
    }
    let reply = state.replies.lock().pop_front().or_else(|| state.always.lock().clone());
    let mut reply = reply.unwrap_or_else(|| Reply::Text("Hello there!".into()));
    while let Reply::After(time, then) = reply {
        tokio::time::sleep(time).await;
        reply = *then;
    }
    match reply {
        Reply::After(..) => unreachable!("it is over"),
        Reply::Text(text) if streamed => {
            let mut steps = vec![chunk(json!({"role": "assistant", "content": ""}))];
            steps.extend(text.split_inclusive(' ').map(|word| chunk(json!({"content": word}))));
            steps.extend([finish("stop"), usage(5, 3), done()]);
            send(state, EVENTS, steps)
        }
        Reply::Text(text) => whole(json!({"role": "assistant", "content": text}), "stop"),
        Reply::Calls(calls) if streamed => {
            let mut steps = vec![chunk(json!({"role": "assistant", "content": null}))];
            for (index, (name, arguments)) in calls.iter().enumerate() {
                steps.push(chunk(json!({"tool_calls": [{"index": index, "id": format!("call_{index}"),
                    "type": "function", "function": {"name": name, "arguments": ""}}]})));
                for piece in arguments.to_string().split_inclusive(':') {
                    steps.push(chunk(
                        json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
                    ));
                }
            }
            steps.extend([finish("tool_calls"), usage(5, 3), done()]);
            send(state, EVENTS, steps)
        }
        Reply::Calls(calls) => {
            let calls: Vec<_> = calls
                .iter()
                .enumerate()
                .map(|(index, (name, arguments))| {
                    json!({"id": format!("call_{index}"), "type": "function",
                        "function": {"name": name, "arguments": arguments.to_string()}})
                })
                .collect();
            whole(json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls")
        }
        Reply::Whole(body) => Json(body).into_response(),
        Reply::Stream(steps) => send(state, EVENTS, steps),
        Reply::Typed(content_type, steps) => send(state, content_type, steps),
        Reply::Status(status, headers, body) => {
            let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
            for (name, value) in headers {
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            response
        }
        Reply::Silence => std::future::pending().await,
    }
}

fn whole(message: Value, reason: &str) -> Response {
    Json(json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}}))
    .into_response()
}

/// Counts a stream for as long as it is being sent.
struct Counted(Arc<Script>);

impl Drop for Counted {
    fn drop(&mut self) {
        *self.0.open.lock() -= 1;
    }
}

const EVENTS: &str = "text/event-stream";

fn send(state: Arc<Script>, content_type: &'static str, steps: Vec<Step>) -> Response {
    *state.open.lock() += 1;
    let counted = Counted(state);
    let frames = stream::unfold((steps.into_iter(), counted), |(mut steps, counted)| async move {
        loop {
            let frame: Result<Bytes, std::io::Error> = match steps.next()? {
                Step::Chunk(chunk) => Ok(format!("data: {chunk}\n\n").into()),
                Step::Raw(bytes) => Ok(bytes.into()),
                Step::Wait(time) => {
                    tokio::time::sleep(time).await;
                    continue;
                }
                Step::Cut => Err(std::io::Error::other("cut")),
                Step::Hang => {
                    std::future::pending::<Result<Bytes, Infallible>>().await.map_err(|never| match never {})
                }
            };
            return Some((frame, (steps, counted)));
        }
    });
    ([(header::CONTENT_TYPE, content_type)], Body::from_stream(frames)).into_response()
}

/// The ids of the calls of a request, and those under which their results are.
pub fn call_ids(body: &Value) -> (Vec<&str>, Vec<&str>) {
    let messages = || body["messages"].as_array().into_iter().flatten();
    let calls = messages().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let calls = calls.map(|call| call["id"].as_str().unwrap_or_default());
    (calls.collect(), messages().filter_map(|message| message["tool_call_id"].as_str()).collect())
}

/// What Mistral's servers refuse.
fn check_ids(body: &Value) -> Result<(), String> {
    let is_short = |id: &str| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let (calls, results) = call_ids(body);
    match calls.iter().chain(&results).find(|id| !is_short(id)) {
        Some(id) => Err(format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.")),
        None => Ok(()),
    }
}

/// What the strictest of providers refuse.
fn check_request(body: &Value) -> Result<(), String> {
    let messages =
        body["messages"].as_array().filter(|messages| !messages.is_empty()).ok_or("no messages")?;
    let mut open: Vec<String> = Vec::new();
    for (i, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" && !open.is_empty() {
            return Err(format!("messages[{i}]: calls {open:?} have no results before the next message"));
        }
        match role {
            "system" if i > 0 => {
                return Err(format!("messages[{i}]: a system message that is not the first"));
            }
            "system" | "user" => {
                if message["content"].is_null() || message["content"] == "" || message["content"] == json!([])
                {
                    return Err(format!("messages[{i}]: empty content"));
                }
            }
            "assistant" => {
                let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
                let silent =
                    message["content"].as_str().is_none_or(str::is_empty) && message["refusal"].is_null();
                if calls.is_empty() && silent {
                    return Err(format!("messages[{i}]: an assistant that says nothing"));
                }
                open = calls.iter().map(|call| call["id"].as_str().unwrap_or_default().to_owned()).collect();
            }
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                let at = open
                    .iter()
                    .position(|call| call == id)
                    .ok_or(format!("messages[{i}]: result of no call"))?;
                open.remove(at);
                if !message["content"].is_string() {
                    return Err(format!("messages[{i}]: a tool result must be text"));
                }
            }
            other => return Err(format!("messages[{i}]: role {other:?}")),
        }
    }
    if !open.is_empty() {
        return Err(format!("calls {open:?} have no results"));
    }
    for tool in body["tools"].as_array().into_iter().flatten() {
        if tool["type"] != "function" || !tool["function"]["parameters"].is_object() {
            return Err(format!("a tool that is no function: {tool}"));
        }
    }
    if body["max_tokens"].is_number() && body["max_completion_tokens"].is_number() {
        return Err("both max_tokens and max_completion_tokens".into());
    }
    Ok(())
}
