//! The OpenAPI document of the API.

use std::sync::OnceLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};

pub(crate) const OPENAPI_YAML: &str = include_str!("../../openapi.yaml");

/// `GET /openapi.yaml`
pub(super) async fn yaml() -> Response {
    ([(header::CONTENT_TYPE, "application/yaml")], OPENAPI_YAML).into_response()
}

/// `GET /openapi.json`
pub(super) async fn json() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], openapi_json()).into_response()
}

/// The document in JSON, converted on first use.
pub(crate) fn openapi_json() -> &'static str {
    static JSON: OnceLock<String> = OnceLock::new();
    JSON.get_or_init(|| {
        let document: Option<serde_json::Value> = serde_norway::from_str(OPENAPI_YAML).ok();
        document.map(|document| document.to_string()).unwrap_or_default()
    })
}
