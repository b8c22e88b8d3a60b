//! The web page: static files, either those in the binary or those of a directory.
//!
//! The files are the same for everyone and need no key. What the page shows it fetches from the API.

use std::path::{Component, Path, PathBuf};

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::AppState;
use super::error::ErrorResponse;
use crate::protocol::error::{ApiError, ErrorKind};
use crate::protocol::parse::truncate_for_display;
use crate::util::digest::{hex_encode, sha256};

/// The files of `ui/` in the repository, with their paths below it; made by `build.rs`.
pub(crate) const EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/ui_files.rs"));

/// The first file.
const INDEX: &str = "index.html";
/// Files of a directory above this size are not served.
const MAX_FILE_BYTES: u64 = 1 << 20;

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

/// Where the files are.
pub(crate) enum UiFiles {
    /// In the binary.
    Embedded,
    /// In a directory.
    Directory(PathBuf),
}

impl UiFiles {
    /// Those of the directory, or else of the binary.
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        directory.map_or(Self::Embedded, Self::Directory)
    }

    /// The file at this path; `None` if there is none.
    async fn read(&self, path: &str) -> Option<Vec<u8>> {
        match self {
            Self::Embedded => {
                let (_, bytes) = EMBEDDED.iter().find(|(name, _)| *name == path)?;
                Some(bytes.to_vec())
            }
            Self::Directory(directory) => {
                let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
                if !Path::new(path).components().all(is_plain) {
                    return None;
                }
                let path = directory.join(path);
                let length = tokio::fs::metadata(&path).await.ok()?.len();
                if length > MAX_FILE_BYTES {
                    return None;
                }
                tokio::fs::read(path).await.ok()
            }
        }
    }
}

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
    axum::extract::Path(path): axum::extract::Path<String>,
    headers: HeaderMap,
) -> Response {
    serve(&app, &path, &headers).await
}

async fn serve(app: &AppState, path: &str, headers: &HeaderMap) -> Response {
    let Some(files) = &app.ui else { return disabled().into_response() };
    let Some(content_type) = content_type(path) else { return unknown(path).into_response() };
    let Some(bytes) = files.read(path).await else { return unknown(path).into_response() };
    let tag = format!("\"{}\"", hex_encode(sha256(&bytes).get(..16).unwrap_or_default()));
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if known {
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

fn content_type(path: &str) -> Option<&'static str> {
    let extension = Path::new(path).extension()?.to_str()?;
    CONTENT_TYPES.iter().find(|(known, _)| *known == extension).map(|(_, content_type)| *content_type)
}

fn unknown(path: &str) -> ErrorResponse {
    let message = format!("The page has no file '{}'.", truncate_for_display(path));
    ErrorResponse(ApiError::new(ErrorKind::NotFound, message).with_code("file_not_found"))
}

fn disabled() -> ErrorResponse {
    let message = "The web page is not served here. It is by default if the gateway listens on a loopback address; else set \
                   ui.enabled to on, which needs API keys.";
    ErrorResponse(ApiError::new(ErrorKind::NotFound, message).with_code("ui_disabled"))
}
