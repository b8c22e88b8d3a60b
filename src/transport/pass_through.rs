//! Pass-through of chat completions and embeddings: request and response bodies are proxied to the provider unparsed, so
//! that one base URL serves a whole SDK.

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
    Extension(request_context): Extension<RequestContext>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    forward(&app, &caller, request_context, "/chat/completions", body).await
}

/// `POST /v1/embeddings`
pub(super) async fn embeddings(
    State(app): State<AppState>,
    Extension(caller): Extension<Authenticated>,
    Extension(request_context): Extension<RequestContext>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    forward(&app, &caller, request_context, "/embeddings", body).await
}

async fn forward(
    app: &AppState,
    caller: &Authenticated,
    request_context: RequestContext,
    path: &str,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let call = CallContext {
        deadline: None,
        traceparent: request_context.upstream_traceparent(),
        request_id: (*request_context.request_id).to_owned(),
        response_id: None,
    };
    let router = Arc::clone(&app.services.router);
    // The bytes stay reserved until the provider answers: until then the body is held for retries.
    let (routed, _reserved) = body.read(app, caller, move |body| router.route_body(body)).await?;
    let target = ModelTarget::new(routed.provider(), routed.model());
    request_context.log.update(|facts| facts.model = Some(target));
    let proxied = routed.pass_through(path, &call).await?;
    let mut response = Response::new(Body::new(proxied.body));
    *response.status_mut() = StatusCode::from_u16(proxied.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let headers = response.headers_mut();
    if let Ok(content_type) = HeaderValue::from_str(&proxied.content_type) {
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    if let Some(wait) = proxied.retry_after.and_then(|wait| HeaderValue::from_str(&wait).ok()) {
        headers.insert(header::RETRY_AFTER, wait);
    }
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}
