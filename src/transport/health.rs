//! Whether the gateway lives, whether it can work, and what it has counted.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::AppState;
use crate::store::StoreError;

/// A check that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Serialize)]
struct Health {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<Checks>,
}

#[derive(Serialize)]
struct Checks {
    store: &'static str,
    provider: &'static str,
}

/// `GET /healthz`: the process answers.
pub(super) async fn alive() -> Response {
    Json(Health { status: "ok", checks: None }).into_response()
}

/// `GET /readyz`: the store can be written to, a provider answers, and the process was not told to stop.
pub(super) async fn ready(State(app): State<AppState>) -> Response {
    if !app.accepting.load(Ordering::Relaxed) {
        return unready(Health { status: "draining", checks: None });
    }
    let store = tokio::time::timeout(PATIENCE, app.engine.store().ready());
    let provider = tokio::time::timeout(PATIENCE, app.catalog.ready());
    let (store, provider) = tokio::join!(store, provider);
    let store = match store {
        Ok(Ok(())) => "ok",
        Ok(Err(StoreError::Full(_))) => "full",
        Ok(Err(StoreError::Replaced(_))) => "replaced",
        Ok(Err(_)) | Err(_) => "unavailable",
    };
    let provider = if matches!(provider, Ok(true)) { "ok" } else { "unavailable" };
    let checks = Some(Checks { store, provider });
    if (store, provider) == ("ok", "ok") {
        Json(Health { status: "ok", checks }).into_response()
    } else {
        unready(Health { status: "unavailable", checks })
    }
}

fn unready(health: Health) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, Json(health)).into_response()
}

/// `GET /metrics`
pub(super) async fn metrics(State(app): State<AppState>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.render()).into_response()
}
