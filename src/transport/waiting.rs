//! What is answered while the gateway waits for its database: it lives, and it is not ready.

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

use super::error::Problem;
use super::health;
use crate::protocol::error::ApiError;

/// The service of a gateway that cannot serve yet.
pub fn router() -> Router {
    Router::new().route("/healthz", get(health::alive)).route("/readyz", get(unready)).fallback(starting)
}

async fn unready() -> Response {
    let health = json!({"status": "unavailable", "checks": {"store": "locked"}});
    (StatusCode::SERVICE_UNAVAILABLE, axum::Json(health)).into_response()
}

async fn starting() -> Problem {
    Problem(
        ApiError::new(
            503,
            "service_unavailable_error",
            "server_starting",
            "The gateway is starting: another server still has its database. Try again shortly.",
        )
        .with_retry_after(Duration::from_secs(1)),
    )
}
