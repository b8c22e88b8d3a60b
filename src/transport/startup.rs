//! Responses while the gateway waits for its database: alive, not ready, 503 for everything else.

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

use super::error::ErrorResponse;
use super::health;
use antwort_protocol::error::{ApiError, ErrorKind};

/// Why the gateway cannot serve yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// Another server holds the lock on its database.
    Lock,
    /// Its database is being migrated to the schema of this version.
    Migration,
}

/// The router of a gateway that cannot serve yet.
pub(crate) fn router(reason: WaitReason) -> Router {
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(async move || unready(reason)))
        .fallback(async move || starting(reason))
}

fn unready(reason: WaitReason) -> Response {
    let store = match reason {
        WaitReason::Lock => "locked",
        WaitReason::Migration => "migrating",
    };
    let health = json!({"status": "unavailable", "checks": {"store": store}});
    (StatusCode::SERVICE_UNAVAILABLE, axum::Json(health)).into_response()
}

fn starting(reason: WaitReason) -> ErrorResponse {
    let why = match reason {
        WaitReason::Lock => "another server still holds its database",
        WaitReason::Migration => "its database is being migrated",
    };
    ErrorResponse(
        ApiError::new(ErrorKind::Unavailable, format!("The gateway is starting: {why}. Try again shortly."))
            .with_code("server_starting")
            .with_retry_after(Duration::from_secs(1)),
    )
}
