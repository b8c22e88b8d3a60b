//! Pass-through of chat completions, embeddings and the other paths of `server.pass_through`: request and response bodies
//! are proxied to the provider unparsed, with the query of the URL, so that one base URL serves a whole SDK.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, FromRequest, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;
use bytes::Bytes;

use super::AppState;
use super::access::{Authenticated, unknown_url};
use super::body::{FormBody, JsonBody};
use super::error::ErrorResponse;
use super::request_context::RequestContext;
use super::route_table::API_PREFIXES;
use antwort_config::settings::is_path_segment;
use antwort_provider::CallContext;
use antwort_telemetry::request_log::ModelTarget;

/// `POST /v1/chat/completions`, `POST /v1/embeddings`
pub(super) async fn create(
    State(app): State<AppState>,
    Extension(caller): Extension<Authenticated>,
    Extension(request_context): Extension<RequestContext>,
    uri: Uri,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let path = with_query(without_prefix(uri.path()), &uri);
    forward(&app, &caller, request_context, &path, FormBody::from(body)).await
}

/// `POST` of another path. The body may be a form, as those of recordings are.
pub(super) async fn create_any(
    State(app): State<AppState>,
    Extension(caller): Extension<Authenticated>,
    Extension(request_context): Extension<RequestContext>,
    uri: Uri,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let path = without_prefix(uri.path());
    // A segment that a server might resolve or decode would lead beyond the configured path.
    if !path.split('/').skip(1).all(is_path_segment) {
        return Err(ErrorResponse(unknown_url(&Method::POST, uri.path())));
    }
    let body = FormBody::from_request(request, &app).await?;
    forward(&app, &caller, request_context, &with_query(path, &uri), body).await
}

/// The path below the provider's base URL. No configured path begins as a prefix does.
fn without_prefix(path: &str) -> &str {
    let prefixes = API_PREFIXES.iter().filter(|prefix| !prefix.is_empty());
    let mut paths = prefixes.filter_map(|prefix| path.strip_prefix(prefix));
    paths.find(|path| path.starts_with('/')).unwrap_or(path)
}

fn with_query<'a>(path: &'a str, uri: &Uri) -> Cow<'a, str> {
    match uri.query().filter(|query| !query.is_empty()) {
        Some(query) => Cow::Owned(format!("{path}?{query}")),
        None => Cow::Borrowed(path),
    }
}

async fn forward(
    app: &AppState,
    caller: &Authenticated,
    request_context: RequestContext,
    path: &str,
    FormBody { body, form }: FormBody,
) -> Result<Response, ErrorResponse> {
    let call = CallContext {
        deadline: None,
        traceparent: request_context.upstream_traceparent(),
        request_id: (*request_context.request_id).to_owned(),
        response_id: None,
    };
    let router = Arc::clone(&app.services.router);
    // The bytes stay reserved until the provider answers: until then the body is held for retries.
    let read = move |body: &Bytes| match form {
        Some(content_type) => router.route_form(&content_type, body),
        None => router.route_body(body),
    };
    let (routed, _reserved) = body.read(app, caller, read).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_the_gateway_is_no_part_of_the_path() {
        for path in ["/rerank", "/v1/rerank", "/openai/v1/rerank"] {
            assert_eq!(without_prefix(path), "/rerank");
        }
        assert_eq!(without_prefix("/v1x/rerank"), "/v1x/rerank");
    }

    #[test]
    fn the_query_stays_behind_the_path() {
        for (sent, asked) in
            [("/v1/a?x=1&y=%20", "/a?x=1&y=%20"), ("/v1/a?", "/a"), ("/v1/a", "/a"), ("/v1/a?b?c", "/a?b?c")]
        {
            let uri: Uri = sent.parse().unwrap();
            assert_eq!(with_query(without_prefix(uri.path()), &uri), asked);
        }
    }
}
