//! The routes of the web page. Its files are the same for everyone and need no key; what the page shows it fetches from the API.

use std::path::Path;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::AppState;
use super::error::ErrorResponse;
use super::query::PathParam;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::parse::truncate_for_display;
use antwort_util::digest::{hex_encode, sha256};

/// The first file.
const INDEX: &str = "index.html";
/// What the page may do: load its own scripts and styles, and call its own gateway. Nothing that it shows can become markup:
/// no code of it may write any.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// Headers of every file, beside its type.
const SECURITY_HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // Asked for anew each time, which is answered with 304 while nothing has changed.
    (header::CACHE_CONTROL, "no-cache"),
];

/// Types by file name extension; files of others are not served.
const CONTENT_TYPES: [(&str, &str); 4] = [
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("svg", "image/svg+xml"),
];

/// `GET /ui`: relative, as a proxy may serve the gateway below a prefix.
pub(super) async fn redirect(State(app): State<AppState>) -> Response {
    match &app.ui {
        Some(_) => (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, "ui/")]).into_response(),
        None => disabled().into_response(),
    }
}

/// `GET /ui/`
pub(super) async fn index(State(app): State<AppState>, headers: HeaderMap) -> Response {
    serve(&app, INDEX, &headers).await
}

/// `GET /ui/{path}`
pub(super) async fn file(
    State(app): State<AppState>,
    PathParam(path): PathParam,
    headers: HeaderMap,
) -> Response {
    serve(&app, &path, &headers).await
}

async fn serve(app: &AppState, path: &str, headers: &HeaderMap) -> Response {
    let Some(files) = &app.ui else { return disabled().into_response() };
    let Some(content_type) = content_type(path) else { return unknown(path).into_response() };
    let Some(bytes) = files.read(path).await else { return unknown(path).into_response() };
    let tag = format!("\"{}\"", hex_encode(sha256(&bytes).get(..16).unwrap_or_default()));
    let mut response = if is_known(headers, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, content_type)], bytes).into_response()
    };
    for (name, value) in SECURITY_HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Whether the client has this version: proxies that compress make a weak tag of it (RFC 9110, 13.1.2).
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
    let mut known = known.flat_map(|value| value.split(',')).map(str::trim);
    known.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

fn content_type(path: &str) -> Option<&'static str> {
    let extension = Path::new(path).extension()?.to_str()?;
    CONTENT_TYPES.iter().find(|(known, _)| *known == extension).map(|(_, content_type)| *content_type)
}

fn unknown(path: &str) -> ErrorResponse {
    let message = format!("The page has no file '{}'.", truncate_for_display(path));
    ErrorResponse(ApiError::new(ErrorKind::NotFound, message).with_code("file_not_found"))
}

fn disabled() -> ErrorResponse {
    let message = "The web page is not served here. It is by default if the gateway listens on a loopback address and was built \
                   with the page (the cargo feature `ui`); else set ui.enabled to on, which needs API keys.";
    ErrorResponse(ApiError::new(ErrorKind::NotFound, message).with_code("ui_disabled"))
}
