//! The opening handshake (RFC 6455 section 4.2): the caller is authorized before the connection is upgraded.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::UpgradeHost;
use super::connection::Connection;
use crate::transport::AppState;
use crate::transport::connection_share;
use crate::transport::error::ErrorResponse;
use crate::transport::request_context::RequestContext;
use antwort_identity::Scope;
use antwort_protocol::error::{ApiError, ErrorKind};

/// Bytes of the random key of a handshake.
const KEY_LEN: usize = 16;
/// The version of the protocol.
const VERSION: HeaderValue = HeaderValue::from_static("13");

/// Upgrades a handshake on `/responses`, or says why not.
pub(in crate::transport) async fn upgrade(app: &AppState, request: Request) -> Response {
    match accept(app, request).await {
        Ok(response) => response,
        Err(error) => {
            let is_version = error.kind == ErrorKind::UpgradeNotServed;
            let mut response = ErrorResponse(error).into_response();
            if is_version {
                // RFC 9110 15.5.22: 426 must name the required protocol.
                let headers = response.headers_mut();
                headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
                headers.insert(header::SEC_WEBSOCKET_VERSION, VERSION);
            }
            response
        }
    }
}

/// Whether a request is a handshake on `/responses`, which would otherwise be served as the list of responses.
pub(in crate::transport) fn is_handshake(request: &Request) -> bool {
    request.method() == Method::GET
        && route(request).ends_with("/responses")
        && lists(request.headers(), &header::UPGRADE, "websocket")
}

fn route(request: &Request) -> &str {
    request.extensions().get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default()
}

/// Authorizes the caller, and answers with 101; the connection is served by a task of its own.
async fn accept(app: &AppState, mut request: Request) -> Result<Response, ApiError> {
    let principal = app.access.auth.authenticate(request.headers()).await?;
    let context = request.extensions().get::<RequestContext>().cloned().ok_or_else(ApiError::internal)?;
    let tenant = Arc::clone(&principal.owner.tenant);
    context.log.update(|facts| facts.key = Some((Arc::clone(&principal.name), tenant)));
    principal.require(Scope::ResponsesCreate)?;
    if request.version() != Version::HTTP_11 {
        return Err(not_served());
    }
    connection_share::acquire(app, request.extensions(), &principal.requester()).await?;
    let accepted = check_headers(request.headers())?;
    let host = request.extensions().get::<UpgradeHost>().cloned().ok_or_else(not_served)?;
    if host.draining.is_cancelled() {
        return Err(ApiError::new(ErrorKind::Aborted, "The gateway is shutting down. Try again."));
    }
    let upgraded = hyper::upgrade::on(&mut request);
    let from = (request.headers().clone(), route(&request).into());
    let (settings, tasks) = (app.requests.websocket.clone(), host.tasks.clone());
    tasks.spawn(async move {
        match upgraded.await {
            Ok(io) => {
                Connection::new(io, host, from, context, settings, &principal.requester()).serve().await;
            }
            Err(error) => tracing::debug!(%error, "a connection was not upgraded"),
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
    Ok(response)
}

/// Checks the headers of the handshake; returns the value of `Sec-WebSocket-Accept`.
fn check_headers(headers: &HeaderMap) -> Result<HeaderValue, ApiError> {
    if headers.get(header::SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
        let message = "Only version 13 of the WebSocket protocol is served (header 'Sec-WebSocket-Version').";
        return Err(ApiError::new(ErrorKind::UpgradeNotServed, message));
    }
    if !lists(headers, &header::CONNECTION, "upgrade") {
        return Err(wrong(
            "connection",
            "The header 'Connection' of a WebSocket handshake must be 'Upgrade'.",
        ));
    }
    let mut keys = headers.get_all(header::SEC_WEBSOCKET_KEY).iter();
    let is_key = |key: &&HeaderValue| STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == KEY_LEN);
    match (keys.next().filter(is_key), keys.next()) {
        (Some(key), None) => {
            HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(|_| ApiError::internal())
        }
        _ => Err(wrong(
            "sec-websocket-key",
            "The header 'Sec-WebSocket-Key' of a WebSocket handshake must be 16 bytes in base64.",
        )),
    }
}

/// Whether a header that is a list of tokens has this one.
fn lists(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|item| item.trim().eq_ignore_ascii_case(token))
}

fn wrong(header: &'static str, message: &str) -> ApiError {
    ApiError::invalid("invalid_value", header, message)
}

fn not_served() -> ApiError {
    let message = "WebSocket is served over HTTP/1.1 only. Send POST requests to this URL, with 'stream': true for events.";
    ApiError::new(ErrorKind::UpgradeNotServed, message)
}
