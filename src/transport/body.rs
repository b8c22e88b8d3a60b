//! Request bodies: JSON of a bounded size, compressed or not.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderValue, header};
use bytes::Bytes;

use super::AppState;
use super::error::Problem;
use crate::protocol::error::ApiError;
use crate::protocol::parse::shorten;

/// A client that needs longer for its body holds a place that others wait for.
const PATIENCE: Duration = Duration::from_secs(120);

/// The whole body of a JSON request. Decompression happened before, by a layer.
pub(super) struct JsonBody(pub Bytes);

impl FromRequest<AppState> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        check_encoding(&request)?;
        check_type(&request)?;
        let limit = state.body_limit;
        match tokio::time::timeout(PATIENCE, to_bytes(request.into_body(), limit)).await {
            Ok(Ok(bytes)) => Ok(Self(bytes)),
            Ok(Err(error)) => Err(Problem(unreadable(&error, limit))),
            Err(_) => Err(Problem(ApiError::new(
                408,
                "timeout",
                "request_timeout",
                "The request body did not arrive in time.",
            ))),
        }
    }
}

/// Writes `Content-Encoding` as the layer that decompresses knows it: one line, lower case, no `identity`.
pub(super) async fn spell_encoding(mut request: Request) -> Request {
    let lines = request.headers().get_all(header::CONTENT_ENCODING).iter();
    let said = lines.flat_map(|line| line.to_str().unwrap_or("?").split(',')).map(str::trim);
    let said = said.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("identity"));
    let names: Vec<String> = said.map(str::to_ascii_lowercase).collect();
    let names = names.iter().map(|name| if name == "x-gzip" { "gzip" } else { name }).collect::<Vec<_>>();
    let value = HeaderValue::from_str(&names.join(", "));
    let headers = request.headers_mut();
    headers.remove(header::CONTENT_ENCODING);
    if let Some(value) = value.ok().filter(|_| !names.is_empty()) {
        headers.insert(header::CONTENT_ENCODING, value);
    }
    request
}

/// The layer takes the header away when it decompresses; what is left is something that it cannot.
fn check_encoding(request: &Request<Body>) -> Result<(), ApiError> {
    let Some(encoding) = request.headers().get(header::CONTENT_ENCODING) else { return Ok(()) };
    let encoding = encoding.to_str().unwrap_or("?");
    Err(unsupported_media(format!(
        "Content-Encoding '{}' is not supported; use gzip, deflate, br or zstd, one of them.",
        shorten(encoding)
    )))
}

fn check_type(request: &Request<Body>) -> Result<(), ApiError> {
    let Some(value) = request.headers().get(header::CONTENT_TYPE) else { return Ok(()) };
    let value = value.to_str().unwrap_or("?");
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json")) {
        return Ok(());
    }
    Err(unsupported_media(format!(
        "Content-Type '{}' is not supported; send JSON with 'Content-Type: application/json'.",
        shorten(value)
    )))
}

fn unsupported_media(message: String) -> ApiError {
    ApiError::new(415, "invalid_request_error", "unsupported_media_type", message)
}

fn unreadable(error: &axum::Error, limit: usize) -> ApiError {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(at) = cause {
        if at.is::<http_body_util::LengthLimitError>() {
            return ApiError::new(
                413,
                "invalid_request_error",
                "request_too_large",
                format!("The request body is larger than the limit of {limit} bytes (after decompression)."),
            );
        }
        cause = at.source();
    }
    ApiError::new(
        400,
        "invalid_request_error",
        "invalid_body",
        "The request body could not be read: it was cut off, or is not what its Content-Encoding says.",
    )
}
