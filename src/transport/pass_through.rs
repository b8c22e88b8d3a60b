//! Chat completions and embeddings, handed to the provider and back unread, so that one base URL serves
//! a whole SDK.

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use super::AppState;
use super::body::JsonBody;
use super::error::Problem;
use super::trail::Trail;
use crate::provider::CallContext;

/// `POST /v1/chat/completions`
pub(super) async fn chat(
    State(app): State<AppState>,
    Extension(trail): Extension<Trail>,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    pass(&app, trail, "/chat/completions", body).await
}

/// `POST /v1/embeddings`
pub(super) async fn embeddings(
    State(app): State<AppState>,
    Extension(trail): Extension<Trail>,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    pass(&app, trail, "/embeddings", body).await
}

async fn pass(app: &AppState, trail: Trail, path: &str, body: bytes::Bytes) -> Result<Response, Problem> {
    let call = CallContext { deadline: None, traceparent: trail.outgoing(), request_id: trail.request_id };
    let passed = app.engine.router().pass_through(path, body, &call).await?;
    let mut response = Response::new(Body::new(passed.body));
    *response.status_mut() = StatusCode::from_u16(passed.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let headers = response.headers_mut();
    if let Ok(content_type) = HeaderValue::from_str(&passed.content_type) {
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    if let Some(wait) = passed.retry_after.and_then(|wait| HeaderValue::from_str(&wait).ok()) {
        headers.insert(header::RETRY_AFTER, wait);
    }
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}
