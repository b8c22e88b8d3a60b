//! `POST /v1/responses/input_tokens`: counts the tokens that a request would send to the model.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use super::access::Authenticated;
use super::body::PreparedBody;
use super::error::ErrorResponse;
use super::request_context::RequestContext;
use super::responses::caller;
use super::{AppState, names_header};
use antwort_protocol::request::CreateResponse;

/// Says whether the count is exact or an estimate.
const TOKEN_COUNT: HeaderName = HeaderName::from_static("antwort-token-count");

/// `POST /v1/responses/input_tokens`
pub(super) async fn count(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    Extension(request_context): Extension<RequestContext>,
    headers: HeaderMap,
    PreparedBody(body): PreparedBody,
) -> Result<Response, ErrorResponse> {
    #[derive(Serialize)]
    struct InputTokens {
        object: &'static str,
        input_tokens: u64,
    }
    let limits = app.requests.limits;
    let read = move |body: &Bytes| CreateResponse::parse_with_limits(body, limits);
    // Reserved until the count is made: there is no run that accounts for what was parsed.
    let (request, _reserved) = body.read(&app, &principal, read).await?;
    let caller = caller(&app, &principal, &request_context, &headers)?;
    let counted = app.engine.count_tokens(request, caller).await?;
    let body = InputTokens { object: "response.input_tokens", input_tokens: counted.tokens };
    let mut response = Json(body).into_response();
    let headers = response.headers_mut();
    headers.insert(TOKEN_COUNT, HeaderValue::from_static(counted.precision.as_str()));
    names_header::add(headers, &counted.ignored, &counted.omitted_tools);
    Ok(response)
}
