//! WebSocket handshakes, which are refused: clients that try WebSocket first fall back to HTTP at once.

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::error::ErrorResponse;
use crate::protocol::error::{ApiError, ErrorKind};

/// Middleware: refuses a WebSocket handshake on `/responses`, which would otherwise be served as the list of responses.
pub(super) async fn reject_upgrade(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
    if request.method() != Method::GET || !route.ends_with("/responses") || !is_handshake(request.headers()) {
        return next.run(request).await;
    }
    let mut response = ErrorResponse(ApiError::new(ErrorKind::UpgradeNotServed, "Responses over WebSocket are not supported yet. Send POST requests to this URL, with 'stream': true for events."))
    .into_response();
    // RFC 9110 15.5.22: 426 must name the required protocol.
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("HTTP/1.1"));
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    response
}

fn is_handshake(headers: &HeaderMap) -> bool {
    let offered = headers.get_all(header::UPGRADE).iter().filter_map(|value| value.to_str().ok());
    offered.flat_map(|value| value.split(',')).any(|name| name.trim().eq_ignore_ascii_case("websocket"))
}
