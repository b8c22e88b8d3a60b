//! HTTP with SSE, as it was before streamable HTTP: all answers come on one stream.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};

use super::answer::{Caller, take};
use super::http::{answer_on_session_stream, events, framed};
use super::script::{Script, bearer};

/// Ends a session with its stream.
struct EndOnDrop(Arc<Script>, String);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.sessions().delete(&self.1);
    }
}

/// `GET /sse`.
pub(crate) async fn stream(State(script): State<Arc<Script>>, uri: Uri, headers: HeaderMap) -> Response {
    script.arrived(Method::GET, &uri, &headers, b"");
    if let Some(response) = script.refusal(&headers, None) {
        return response;
    }
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("*/*");
    if !accept.contains("text/event-stream") && !accept.contains("*/*") {
        return script.fault(StatusCode::NOT_ACCEPTABLE, format!("accepts no stream: {headers:?}"));
    }
    let mut sessions = script.sessions();
    let id = sessions.make("");
    let Some(session) = sessions.get(&id) else { return StatusCode::NOT_FOUND.into_response() };
    let messages = session.listen();
    drop(sessions);
    let endpoint = format!("event: endpoint\ndata: /messages?session_id={id}\n\n");
    let ends = EndOnDrop(script, id);
    let messages = framed(messages).map(move |frame| {
        _ = &ends;
        frame
    });
    events(stream::iter([Ok(endpoint.into())]).chain(messages))
}

/// `POST /messages?session_id=…`.
pub(crate) async fn message(
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
    let query = uri.query().unwrap_or_default();
    let session = query.strip_prefix("session_id=").unwrap_or_default().to_owned();
    if script.sessions().get(&session).is_none() {
        return StatusCode::NOT_FOUND.into_response();
    }
    if message["method"].is_string() && message.get("id").is_some() {
        let caller = Caller { script: Arc::clone(&script), session, token: bearer(&headers), stream: None };
        script.spawn(answer_on_session_stream(caller, message));
    } else {
        take(&script, &session, &message);
    }
    StatusCode::ACCEPTED.into_response()
}
