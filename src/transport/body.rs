//! Request bodies: JSON of a bounded size, compressed or not; large ones are looked into off the workers.

use axum::body::Body;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderValue, header};
use bytes::Bytes;
use http_body_util::{LengthLimitError, Limited};

use super::AppState;
use super::access::Authenticated;
use super::body_reader::{BodyError, BodyReader};
use super::error::ErrorResponse;
use crate::admission::Permit;
use crate::protocol::error::ApiError;
use crate::protocol::parse::truncate_for_display;

/// A body of at most so much is read where it arrived.
const MAX_INLINE_BYTES: usize = 256 << 10;

/// The whole body of a JSON request. Decompression happened before, by a layer.
pub(super) struct JsonBody {
    pub bytes: Bytes,
    /// Its part of the bytes that all requests may hold: to be kept for as long as the bytes are, or what was made
    /// of them waits for something.
    pub reserved: Permit,
}

impl FromRequest<AppState> for JsonBody {
    type Rejection = ErrorResponse;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ErrorResponse> {
        check_encoding(&request)?;
        // Without a type there may be no body.
        let limit = if check_type(&request)? { state.body_limit } else { 0 };
        // Every route with a body needs a scope, and so knows its caller.
        let caller = request.extensions().get::<Authenticated>().ok_or_else(ApiError::internal)?;
        let requester = caller.requester();
        let incoming = BodyReader {
            admission: state.engine.admission(),
            requester: &requester,
            limit,
            idle_timeout: state.body_idle_timeout,
        };
        match incoming.read(request.into_body()).await {
            Ok((bytes, reserved)) => Ok(Self { bytes, reserved }),
            Err(unread) => Err(ErrorResponse(refusal(unread, limit))),
        }
    }
}

impl JsonBody {
    /// What `read` makes of the body, and its reservation. Bodies above some size are read off the workers, and no
    /// further once the client has left.
    pub(super) async fn read<T: Send + 'static>(
        self,
        app: &AppState,
        caller: &Authenticated,
        read: impl FnOnce(&Bytes) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<(T, Permit), ApiError> {
        let Self { bytes, reserved } = self;
        if bytes.len() <= MAX_INLINE_BYTES {
            return Ok((read(&bytes)?, reserved));
        }
        // The reservation goes along: the bytes are held until the work has ended, also for a client that left.
        let work = move || (read(&bytes), reserved);
        let (made, reserved) = app.engine.admission().blocking.run(&caller.requester(), work).await?;
        Ok((made?, reserved))
    }
}

/// Writes `Content-Encoding` as the layer that decompresses knows it: one line, lower case, no `identity`. What
/// will be decompressed is bounded as sent, too: there are encodings of nothing that never end.
pub(super) async fn normalize_encoding(State(app): State<AppState>, mut request: Request) -> Request {
    if !request.headers().contains_key(header::CONTENT_ENCODING) {
        return request;
    }
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
    let limit = app.body_limit;
    request.map(|body| Body::new(Limited::new(body, limit)))
}

/// The layer takes the header away when it decompresses; what is left is something that it cannot.
fn check_encoding(request: &Request<Body>) -> Result<(), ApiError> {
    let Some(encoding) = request.headers().get(header::CONTENT_ENCODING) else { return Ok(()) };
    let encoding = encoding.to_str().unwrap_or("?");
    Err(unsupported_media(format!(
        "Content-Encoding '{}' is not supported; use gzip, deflate, br or zstd, one of them.",
        truncate_for_display(encoding)
    )))
}

/// Whether the request has a type, which is JSON's: web pages may send any other anywhere, and bodies without one,
/// but JSON only where they were asked in (CORS).
fn check_type(request: &Request<Body>) -> Result<bool, ApiError> {
    let mut types = request.headers().get_all(header::CONTENT_TYPE).iter().peekable();
    let typed = types.peek().is_some();
    match types.map(|value| value.to_str().unwrap_or("?")).find(|value| !is_json(value)) {
        Some(wrong) => Err(unsupported_media(format!(
            "Content-Type '{}' is not supported; send JSON with 'Content-Type: application/json'.",
            truncate_for_display(wrong)
        ))),
        None => Ok(typed),
    }
}

fn untyped() -> ApiError {
    let message =
        "The request has a body and no Content-Type; send JSON with 'Content-Type: application/json'.";
    unsupported_media(message.into())
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().as_bytes();
    let starts = |with: &[u8]| essence.get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with));
    let tail = essence.len().checked_sub(b"+json".len()).and_then(|at| essence.get(at..));
    essence.eq_ignore_ascii_case(b"application/json")
        || (starts(b"application/") && tail.is_some_and(|tail| tail.eq_ignore_ascii_case(b"+json")))
}

fn unsupported_media(message: String) -> ApiError {
    ApiError::new(415, "invalid_request_error", "unsupported_media_type", message)
}

fn refusal(unread: BodyError, limit: usize) -> ApiError {
    let is_too_long = match &unread {
        BodyError::TooLong => true,
        BodyError::Broken(error) => is_too_long(error),
        BodyError::Refused(_) => false,
    };
    match unread {
        BodyError::Refused(error) => error,
        _ if is_too_long && limit == 0 => untyped(),
        _ if is_too_long => too_long(limit),
        _ => ApiError::new(
            400,
            "invalid_request_error",
            "invalid_body",
            "The request body could not be read: it was cut off, or is not what its Content-Encoding says.",
        ),
    }
}

/// Whether the limit of what was sent, before it is decompressed, ended it.
fn is_too_long(error: &axum::Error) -> bool {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |cause| cause.source()).any(|cause| cause.is::<LengthLimitError>())
}

fn too_long(limit: usize) -> ApiError {
    let message = format!(
        "The request body is larger than the limit of {limit} bytes, as sent or decompressed \
         (server.request_body_limit)."
    );
    ApiError::new(413, "invalid_request_error", "request_too_large", message)
}
