//! The middleware of all routes, as one layer: axum allocates a service and a future for each layer and request.
//!
//! From the outside in: the request context with access log, metrics and span; draining of unread bodies; the origin check;
//! then CORS, if it is configured; then the guard against panics, WebSocket handshakes, authorization, decompression.

use std::panic::AssertUnwindSafe;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tracing::Instrument;

use super::drain::UnreadBody;
use super::error::ErrorResponse;
use super::request_context::ObservedRequest;
use super::route_table::allowed_methods;
use super::{AppState, access, body, connection_share, origin, response_budget, websocket};
use antwort_protocol::error::{ApiError, ErrorKind};

/// All of it.
pub(super) async fn all(State(app): State<AppState>, request: Request, next: Next) -> Response {
    observe(&app, request, |request| guard(&app, request, next)).await
}

/// What comes before CORS: it sees every response, and preflights of origins that are not allowed are refused, too.
pub(super) async fn before_cors(State(app): State<AppState>, request: Request, next: Next) -> Response {
    observe(&app, request, |request| next.run(request)).await
}

/// What comes after CORS: a preflight carries no key.
pub(super) async fn after_cors(State(app): State<AppState>, request: Request, next: Next) -> Response {
    guard(&app, request, next).await
}

async fn observe<F: Future<Output = Response>>(
    app: &AppState,
    mut request: Request,
    serve: impl FnOnce(Request) -> F,
) -> Response {
    let observed = ObservedRequest::begin(app, &mut request);
    let serving = async {
        let (request, unread) = UnreadBody::watch(request);
        let mut response = match origin::check(app, &request) {
            Ok(()) => serve(request).await,
            Err(refusal) => {
                drop(request);
                refusal.into_response()
            }
        };
        if let Some(unread) = unread {
            unread.drain(&mut response).await;
        }
        response
    };
    let mut response = serving.instrument(observed.span.clone()).await;
    observed.finish(app, &mut response);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A panic in a handler is answered with 500; runs have their own guard.
async fn guard(app: &AppState, request: Request, next: Next) -> Response {
    let served = AssertUnwindSafe(authorized(app, request, next)).catch_unwind().await;
    let served = served.unwrap_or_else(|_panic| Err(ErrorResponse(ApiError::internal())));
    served.unwrap_or_else(IntoResponse::into_response)
}

/// Serves a request if its caller may make it, then reserves the bytes of the response's body, which a slow client may
/// leave unread.
async fn authorized(app: &AppState, mut request: Request, next: Next) -> Result<Response, ErrorResponse> {
    // Before authorization by route: a handshake creates responses, and does not list them.
    if websocket::is_handshake(&request) {
        // Boxed, as few requests are handshakes and the future of each would have room for it.
        return Ok(Box::pin(websocket::upgrade(app, request)).await);
    }
    let caller = match access::authorize(app, &mut request).await {
        Err(ErrorResponse(error)) if error.kind == ErrorKind::MethodNotAllowed => {
            return Ok(method_not_allowed(app, &request, error));
        }
        authorized => authorized?,
    };
    if let Some(caller) = &caller {
        connection_share::acquire(app, request.extensions(), &caller.requester()).await?;
    }
    // Only authorized requests are decompressed.
    let response = body::decompressed(app, request, next).await;
    match caller {
        Some(caller) => response_budget::reserve(app, &caller.requester(), response).await,
        None => Ok(response),
    }
}

/// RFC 9110 15.5.6: 405 must name the methods that the route has.
fn method_not_allowed(app: &AppState, request: &Request, error: ApiError) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
    let mut response = ErrorResponse(error).into_response();
    if let Ok(methods) = HeaderValue::from_str(&allowed_methods(route, &app.access.pass_through)) {
        response.headers_mut().insert(header::ALLOW, methods);
    }
    response
}
