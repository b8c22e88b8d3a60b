//! Request bodies: JSON of bounded size, optionally compressed; large ones are parsed on the blocking pool.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{LengthLimitError, Limited};
use tower::{Layer, ServiceExt, service_fn};
use tower_http::decompression::{DecompressionBody, RequestDecompressionLayer};

use super::AppState;
use super::access::Authenticated;
use super::body_reader::{BodyError, BodyReader};
use super::error::ErrorResponse;
use antwort_limits::Permit;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::parse::truncate_for_display;

/// Largest body that is parsed on the async worker; larger ones go to the blocking pool.
const MAX_INLINE_BYTES: usize = 256 << 10;

/// The whole body of a request, of JSON if nothing else is said. Decompression happened before, by a layer.
pub(super) struct JsonBody {
    pub bytes: Bytes,
    /// The reservation of its bytes in the budget of all requests. Hold it as long as the bytes are held, or what was
    /// parsed from them waits in a queue.
    pub reserved: Permit,
}

impl FromRequest<AppState> for JsonBody {
    type Rejection = ErrorResponse;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ErrorResponse> {
        let (head, body) = request.into_parts();
        // Every route with a body requires a scope, so its caller is authenticated.
        let caller = head.extensions.get::<Authenticated>().ok_or_else(ApiError::internal)?;
        Self::receive(state, caller, &head.headers, body).await
    }
}

impl JsonBody {
    /// Reads the body of a request with these headers.
    pub(super) fn receive(
        state: &AppState,
        caller: &Authenticated,
        headers: &HeaderMap,
        body: Body,
    ) -> impl Future<Output = Result<Self, ErrorResponse>> {
        Self::receive_counted(state, caller, headers, body, 1)
    }

    /// The same; a large body counts so many times its size.
    async fn receive_counted(
        state: &AppState,
        caller: &Authenticated,
        headers: &HeaderMap,
        body: Body,
        copies: u64,
    ) -> Result<Self, ErrorResponse> {
        check_encoding(headers)?;
        // A request without Content-Type must have an empty body.
        let limit = if check_type(headers)? { state.requests.body_limit } else { 0 };
        Self::receive_up_to(limit, state, caller, body, copies).await
    }

    async fn receive_up_to(
        limit: usize,
        state: &AppState,
        caller: &Authenticated,
        body: Body,
        copies: u64,
    ) -> Result<Self, ErrorResponse> {
        let requester = caller.requester();
        let incoming = BodyReader {
            admission: &state.services.admission,
            requester: &requester,
            limit,
            idle_timeout: state.requests.body_idle_timeout,
            copies,
        };
        match incoming.read(body).await {
            Ok((bytes, reserved)) => Ok(Self { bytes, reserved }),
            Err(error) => Err(ErrorResponse(into_api_error(error, limit))),
        }
    }

    /// Parses the body with `read`; returns the result and the reservation. Bodies above [`MAX_INLINE_BYTES`] are parsed
    /// on the blocking pool, unless the client has disconnected by then.
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
        // The reservation moves into the task: the bytes are held until it has ended, even if the client disconnects.
        let work = move || (read(&bytes), reserved);
        let (parsed, reserved) = app.services.admission.blocking.run(&caller.requester(), work).await?;
        Ok((parsed?, reserved))
    }
}

/// The body of a request that is prepared as for a run, but has none that would account for what is made of it.
pub(super) struct PreparedBody(pub JsonBody);

/// What is parsed, prepared and encoded of a request of many tools, compared with its body.
const PREPARED_COPIES: u64 = 4;

impl FromRequest<AppState> for PreparedBody {
    type Rejection = ErrorResponse;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ErrorResponse> {
        let (head, body) = request.into_parts();
        let caller = head.extensions.get::<Authenticated>().ok_or_else(ApiError::internal)?;
        JsonBody::receive_counted(state, caller, &head.headers, body, PREPARED_COPIES).await.map(Self)
    }
}

/// The body of a request that is JSON or a form (`multipart/form-data`). Web pages of other origins, which may send forms
/// without a preflight, were refused before.
pub(super) struct FormBody {
    pub body: JsonBody,
    /// The Content-Type of a form.
    pub form: Option<String>,
}

impl From<JsonBody> for FormBody {
    fn from(body: JsonBody) -> Self {
        Self { body, form: None }
    }
}

impl FromRequest<AppState> for FormBody {
    type Rejection = ErrorResponse;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ErrorResponse> {
        let Some(form) = form_type(request.headers()) else {
            return JsonBody::from_request(request, state).await.map(Self::from);
        };
        let (head, body) = request.into_parts();
        let caller = head.extensions.get::<Authenticated>().ok_or_else(ApiError::internal)?;
        check_encoding(&head.headers)?;
        let body = JsonBody::receive_up_to(state.requests.body_limit, state, caller, body, 1).await?;
        Ok(Self { body, form: Some(form) })
    }
}

/// The single Content-Type of a form.
fn form_type(headers: &HeaderMap) -> Option<String> {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (content_type, another) = (types.next()?.to_str().ok()?, types.next());
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let is_form = another.is_none() && essence.eq_ignore_ascii_case("multipart/form-data");
    is_form.then(|| content_type.to_owned())
}

/// Calls the handler of a request with its body decompressed, if it is compressed.
pub(super) async fn decompressed(app: &AppState, request: Request, next: Next) -> Response {
    if !request.headers().contains_key(header::CONTENT_ENCODING) {
        return next.run(request).await;
    }
    let handler = service_fn(move |request: Request<DecompressionBody<Body>>| {
        let next = next.clone();
        async move { Ok::<_, Infallible>(next.run(request.map(Body::new)).await) }
    });
    let decompression = RequestDecompressionLayer::new().pass_through_unaccepted(true).layer(handler);
    let request = normalize_encoding(request, app.requests.body_limit);
    // Boxed, as few requests are compressed and the future of each would have room for it.
    match Box::pin(decompression.oneshot(request)).await {
        Ok(response) => response.map(Body::new),
        Err(error) => {
            tracing::error!(%error, "decompression failed");
            ErrorResponse(ApiError::internal()).into_response()
        }
    }
}

/// Normalizes `Content-Encoding` for the decompression layer: one line, lower case, no `identity`. Also limits the
/// compressed size, since an endless stream can decompress to nothing.
fn normalize_encoding(mut request: Request, limit: usize) -> Request {
    let lines = request.headers().get_all(header::CONTENT_ENCODING).iter();
    let encodings = lines.flat_map(|line| line.to_str().unwrap_or("?").split(',')).map(str::trim);
    let encodings = encodings.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("identity"));
    let names: Vec<String> = encodings.map(str::to_ascii_lowercase).collect();
    let names = names.iter().map(|name| if name == "x-gzip" { "gzip" } else { name }).collect::<Vec<_>>();
    let value = HeaderValue::from_str(&names.join(", "));
    let headers = request.headers_mut();
    headers.remove(header::CONTENT_ENCODING);
    if let Some(value) = value.ok().filter(|_| !names.is_empty()) {
        headers.insert(header::CONTENT_ENCODING, value);
    }
    request.map(|body| Body::new(Limited::new(body, limit)))
}

/// The decompression layer removes the header when it decompresses; a header that is left names an unsupported encoding.
fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(encoding) = headers.get(header::CONTENT_ENCODING) else { return Ok(()) };
    let encoding = encoding.to_str().unwrap_or("?");
    Err(unsupported_media(format!(
        "Content-Encoding '{}' is not supported; use gzip, deflate, br or zstd, one of them.",
        truncate_for_display(encoding)
    )))
}

/// Whether the request has a JSON `Content-Type`; any other type is refused. Browsers send other types, and bodies without
/// a type, to any origin, but JSON only after a CORS preflight.
fn check_type(headers: &HeaderMap) -> Result<bool, ApiError> {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter().peekable();
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
    ApiError::new(ErrorKind::UnsupportedMediaType, message)
}

fn into_api_error(error: BodyError, limit: usize) -> ApiError {
    let is_too_long = match &error {
        BodyError::TooLong => true,
        BodyError::Broken(error) => is_too_long(error),
        BodyError::Refused(_) => false,
    };
    match error {
        BodyError::Refused(error) => error,
        _ if is_too_long && limit == 0 => untyped(),
        _ if is_too_long => too_long(limit),
        _ => ApiError::new(
            ErrorKind::InvalidRequest,
            "The request body could not be read: it was cut off, or is not what its Content-Encoding says.",
        )
        .with_code("invalid_body"),
    }
}

/// Whether the body exceeded the limit on its compressed size.
fn is_too_long(error: &axum::Error) -> bool {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |cause| cause.source()).any(|cause| cause.is::<LengthLimitError>())
}

fn too_long(limit: usize) -> ApiError {
    let message = format!(
        "The request body is larger than the limit of {limit} bytes, as sent or decompressed \
         (server.request_body_limit)."
    );
    ApiError::new(ErrorKind::RequestTooLarge, message)
}
