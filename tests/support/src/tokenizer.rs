//! The tokenizer routes of a model server, beside its API: they answer as a test says, and are 404 until then.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::Value;

/// A tokenizer that counts what it is told to.
#[derive(Default)]
pub struct Tokenizer {
    answers: Mutex<HashMap<&'static str, Answer>>,
    requests: Mutex<Vec<(String, HeaderMap, Value)>>,
}

/// What a route answers.
#[derive(Debug, Clone)]
pub enum Answer {
    /// This status and body.
    Body(u16, String),
    /// Nothing at all, for ever.
    Silence,
}

impl Tokenizer {
    /// Answers all requests of a route with this.
    pub fn answer(&self, path: &'static str, answer: Answer) -> &Self {
        self.answers.lock().insert(path, answer);
        self
    }

    /// The same with status 200 and this body.
    pub fn json(&self, path: &'static str, body: &Value) -> &Self {
        self.answer(path, Answer::Body(200, body.to_string()))
    }

    /// What was asked: path, headers and body.
    pub fn requests(&self) -> Vec<(String, HeaderMap, Value)> {
        self.requests.lock().clone()
    }

    pub(super) fn routes(self: &Arc<Self>) -> Router {
        let routes = Router::new().route("/tokenize", post(tell)).route("/apply-template", post(tell));
        routes.layer(axum::extract::DefaultBodyLimit::disable()).with_state(Arc::clone(self))
    }
}

async fn tell(
    State(tokenizer): State<Arc<Tokenizer>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    tokenizer.requests.lock().push((uri.path().to_owned(), headers, body));
    let answer = tokenizer.answers.lock().get(uri.path()).cloned();
    match answer {
        None => StatusCode::NOT_FOUND.into_response(),
        Some(Answer::Body(status, body)) => {
            (StatusCode::from_u16(status).unwrap(), [(header::CONTENT_TYPE, "application/json")], body)
                .into_response()
        }
        Some(Answer::Silence) => std::future::pending().await,
    }
}
