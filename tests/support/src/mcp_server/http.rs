//! Streamable HTTP, and single requests: what must be so about a request, and how it is answered.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::answer::{Caller, answer, take};
use super::script::{Answers, Script, UnknownSessionReply, bearer};
use super::sessions::SHARED;

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

/// `POST /mcp`.
pub(crate) async fn post(
    State(script): State<Arc<Script>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let message = script.arrived(Method::POST, &uri, &headers, &body);
    if script.knobs().only_sse {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    if let Some(response) = script.refusal(&headers, Some(&message)) {
        return response;
    }
    if !has(&headers, header::CONTENT_TYPE, JSON) {
        return script.fault(StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("a body of no JSON: {headers:?}"));
    }
    if !(has(&headers, header::ACCEPT, JSON) && has(&headers, header::ACCEPT, EVENTS)) {
        return script.fault(StatusCode::NOT_ACCEPTABLE, format!("accepts too little: {headers:?}"));
    }
    if message["jsonrpc"] != "2.0" {
        return script.fault(StatusCode::BAD_REQUEST, format!("no JSON-RPC: {message}"));
    }
    if message["method"] == "initialize" {
        return initialize(script, &headers, message).await;
    }
    let session = match session(&script, &headers, &message) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    if !(message["method"].is_string() && message.get("id").is_some()) {
        take(&script, &session, &message);
        return StatusCode::ACCEPTED.into_response();
    }
    let answers = match script.knobs().answers {
        Answers::Mixed if message["method"] == "tools/call" => Answers::Stream,
        Answers::Mixed => Answers::Json,
        answers => answers,
    };
    let mut caller = Caller { script: Arc::clone(&script), session, token: bearer(&headers), stream: None };
    match answers {
        Answers::Stream => {
            let (sender, messages) = unbounded_channel();
            caller.stream = Some(sender);
            events(answering(caller, message, messages))
        }
        Answers::SessionStream => {
            script.spawn(answer_on_session_stream(caller, message));
            StatusCode::ACCEPTED.into_response()
        }
        Answers::Mixed | Answers::Json => match answer(caller, message).await {
            Some(answer) => Json(answer).into_response(),
            None => StatusCode::NO_CONTENT.into_response(),
        },
    }
}

/// Answers a request on its session's stream.
pub(crate) async fn answer_on_session_stream(caller: Caller, message: Value) {
    if let Some(answer) = answer(caller.clone(), message).await {
        caller.script.sessions().push(&caller.session, answer);
    }
}

async fn initialize(script: Arc<Script>, headers: &HeaderMap, message: Value) -> Response {
    let caller = Caller {
        script: Arc::clone(&script),
        session: SHARED.to_owned(),
        token: bearer(headers),
        stream: None,
    };
    let Some(answer) = answer(caller, message).await else { return StatusCode::NO_CONTENT.into_response() };
    let sessionless = script.knobs().sessionless;
    let mut response = if script.knobs().answers == Answers::Stream {
        events(stream::iter([frame(&answer)]))
    } else {
        Json(&answer).into_response()
    };
    if !sessionless {
        let version = answer["result"]["protocolVersion"].as_str().unwrap_or_default();
        let id = script.sessions().make(version);
        response.headers_mut().insert("mcp-session-id", id.parse().unwrap());
    }
    response
}

/// The session that a request names, if all is right with it.
fn session(script: &Script, headers: &HeaderMap, message: &Value) -> Result<String, Box<Response>> {
    if script.knobs().sessionless {
        return Ok(SHARED.to_owned());
    }
    let Some(id) = headers.get("mcp-session-id").and_then(|id| id.to_str().ok()) else {
        // Newer clients ask this first, to learn whether sessions are needed.
        return Err(Box::new(if message["method"] == "server/discover" {
            (StatusCode::BAD_REQUEST, "no session").into_response()
        } else {
            script.fault(StatusCode::BAD_REQUEST, format!("no session: {message}"))
        }));
    };
    let mut sessions = script.sessions();
    let Some(session) = sessions.get(id) else {
        drop(sessions);
        return Err(Box::new(lost(script, message)));
    };
    let version = headers.get("mcp-protocol-version").and_then(|version| version.to_str().ok());
    // The header came with this version of the protocol.
    if version.is_some_and(|version| version != session.protocol)
        || (version.is_none() && session.protocol.as_str() >= "2025-06-18")
    {
        let why = format!("version {version:?} in a session of {}", session.protocol);
        return Err(Box::new(script.fault(StatusCode::BAD_REQUEST, why)));
    }
    let early =
        message["method"].as_str().is_some_and(|method| method.starts_with("tools/")) && !session.ready;
    if early {
        let why = format!("before notifications/initialized: {message}");
        return Err(Box::new(script.fault(StatusCode::BAD_REQUEST, why)));
    }
    Ok(id.to_owned())
}

/// What is said to whoever names a session that is not known.
fn lost(script: &Script, message: &Value) -> Response {
    match script.knobs().lost {
        UnknownSessionReply::Status(status, body) => {
            let body = body.replace("$id", &message["id"].to_string());
            let kind = if body.starts_with('{') { JSON } else { "text/plain" };
            (StatusCode::from_u16(status).unwrap(), [(header::CONTENT_TYPE, kind)], body).into_response()
        }
        UnknownSessionReply::Error(code, words) => {
            let error = json!({"code": code, "message": words});
            Json(json!({"jsonrpc": "2.0", "id": message["id"], "error": error})).into_response()
        }
        UnknownSessionReply::EmptyStream => events(stream::empty()),
        UnknownSessionReply::Cut => {
            let cut = stream::iter([Ok(Bytes::from_static(b"{")), Err("cut")]);
            ([(header::CONTENT_TYPE, JSON)], Body::from_stream(cut)).into_response()
        }
    }
}

/// `GET /mcp`: the stream on which the server speaks unasked.
pub(crate) async fn stream(State(script): State<Arc<Script>>, uri: Uri, headers: HeaderMap) -> Response {
    script.arrived(Method::GET, &uri, &headers, b"");
    if let Some(response) = script.refusal(&headers, None) {
        return response;
    }
    if script.knobs().only_sse {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    if !has(&headers, header::ACCEPT, EVENTS) {
        return script.fault(StatusCode::NOT_ACCEPTABLE, format!("accepts no stream: {headers:?}"));
    }
    let id = match session(&script, &headers, &Value::Null) {
        Ok(id) => id,
        Err(response) => return *response,
    };
    let mut sessions = script.sessions();
    match sessions.get(&id) {
        // Of a server without sessions everybody may listen; the latest is told.
        Some(session) if session.listens() && id != SHARED => StatusCode::CONFLICT.into_response(),
        Some(session) => events(framed(session.listen())),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// `DELETE /mcp`.
pub(crate) async fn delete(State(script): State<Arc<Script>>, uri: Uri, headers: HeaderMap) -> Response {
    script.arrived(Method::DELETE, &uri, &headers, b"");
    if let Some(response) = script.refusal(&headers, None) {
        return response;
    }
    match session(&script, &headers, &Value::Null) {
        Ok(id) if script.sessions().delete(&id) => StatusCode::NO_CONTENT.into_response(),
        Ok(_) => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        Err(response) => *response,
    }
}

/// `POST /rpc`: one request and its answer, without a handshake.
pub(crate) async fn rpc(
    State(script): State<Arc<Script>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let message = script.arrived(Method::POST, &uri, &headers, &body);
    if let Some(response) = script.refusal(&headers, Some(&message)) {
        return response;
    }
    if message["jsonrpc"] != "2.0" {
        return script.fault(StatusCode::BAD_REQUEST, format!("no JSON-RPC: {message}"));
    }
    if message.get("id").is_none() {
        take(&script, SHARED, &message);
        return StatusCode::ACCEPTED.into_response();
    }
    let caller = Caller { script, session: SHARED.to_owned(), token: bearer(&headers), stream: None };
    match answer(caller, message).await {
        Some(answer) => Json(answer).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

/// What is said before an answer, and the answer; ends with it. A client that goes away ends the work on it.
fn answering(
    caller: Caller,
    message: Value,
    messages: UnboundedReceiver<Value>,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    type Work = Pin<Box<dyn Future<Output = Option<Value>> + Send>>;
    let work: Work = Box::pin(answer(caller, message));
    stream::unfold((Some(work), messages, None), |(mut work, mut messages, mut last)| async move {
        if let Some(working) = &mut work {
            tokio::select! {
                biased;
                Some(message) = messages.recv() => return Some((frame(&message), (work, messages, last))),
                answer = working => last = answer,
            }
            work = None;
        }
        let next = messages.try_recv().ok().or_else(|| last.take())?;
        Some((frame(&next), (work, messages, last)))
    })
}

/// Messages as they come.
pub(crate) fn framed(messages: UnboundedReceiver<Value>) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(messages, |mut messages| async move {
        let message = messages.recv().await?;
        Some((frame(&message), messages))
    })
}

/// One event.
pub(crate) fn frame(message: &Value) -> Result<Bytes, Infallible> {
    Ok(format!("event: message\ndata: {message}\n\n").into())
}

/// A stream of events.
pub(crate) fn events(frames: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    ([(header::CONTENT_TYPE, EVENTS)], Body::from_stream(frames)).into_response()
}

fn has(headers: &HeaderMap, name: header::HeaderName, value: &str) -> bool {
    headers.get_all(name).iter().any(|found| found.to_str().is_ok_and(|found| found.contains(value)))
}
