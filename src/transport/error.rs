//! Error responses: the one place where an [`ApiError`] becomes an HTTP status, headers and a body.

use std::borrow::Cow;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use antwort_protocol::error::{ApiError, ErrorBody};

/// An [`ApiError`] as an HTTP response.
#[derive(Debug)]
pub(super) struct ErrorResponse(pub ApiError);

/// The error's fields for the access log; an extension of the response.
#[derive(Debug, Clone)]
pub(super) struct ErrorSummary {
    /// The `code` of the body.
    pub code: Option<Cow<'static, str>>,
    /// The field at fault.
    pub param: Option<String>,
}

#[derive(Serialize)]
struct Body<'a> {
    error: &'a ErrorBody,
}

impl<E: Into<ApiError>> From<E> for ErrorResponse {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let status = StatusCode::from_u16(error.kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(Body { error: &error.body })).into_response();
        let headers = response.headers_mut();
        if let Some(wait) = error.retry_after {
            // Whole seconds, rounded up: a client that retries too early is rejected again.
            headers.insert(
                header::RETRY_AFTER,
                HeaderValue::from(wait.as_millis().div_ceil(1000).max(1) as u64),
            );
        }
        if let Some(retry) = error.should_retry {
            headers.insert("x-should-retry", HeaderValue::from_static(if retry { "true" } else { "false" }));
        }
        response.extensions_mut().insert(ErrorSummary { code: error.body.code, param: error.body.param });
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
