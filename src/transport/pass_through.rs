//! Chat completions and embeddings, handed to the provider and back unread, so that one base URL serves
//! a whole SDK.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use super::AppState;
use super::access::Authenticated;
use super::body::JsonBody;
use super::error::ErrorResponse;
use super::request_context::RequestContext;
use crate::provider::CallContext;
use crate::telemetry::request_log::ModelTarget;

/// `POST /v1/chat/completions`
pub(super) async fn chat(
    State(app): State<AppState>,
    Extension(caller): Extension<Authenticated>,
    Extension(trail): Extension<RequestContext>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    pass(&app, &caller, trail, "/chat/completions", body).await
}

/// `POST /v1/embeddings`
pub(super) async fn embeddings(
    State(app): State<AppState>,
    Extension(caller): Extension<Authenticated>,
    Extension(trail): Extension<RequestContext>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    pass(&app, &caller, trail, "/embeddings", body).await
}

async fn pass(
    app: &AppState,
    caller: &Authenticated,
    trail: RequestContext,
    path: &str,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let call = CallContext {
        deadline: None,
        traceparent: trail.upstream_traceparent(),
        request_id: (*trail.request_id).to_owned(),
        response_id: None,
    };
    let router = Arc::clone(app.engine.router());
    // Reserved until the provider answers: until then the body may be sent again.
    let (directed, _reserved) = body.read(app, caller, move |body| router.route_body(body)).await?;
    let asked = ModelTarget::new(directed.provider(), directed.model());
    trail.log.update(|facts| facts.model = Some(asked));
    let passed = directed.pass_through(path, &call).await?;
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
