//! The router: which handler and which middleware serve the routes of `route_table`.

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::{from_fn, from_fn_with_state, map_request_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowHeaders, AllowOrigin, Any, CorsLayer};
use tower_http::decompression::RequestDecompressionLayer;

use super::error::ErrorResponse;
use super::route_table::API_PREFIXES;
use super::{
    AppState, access, admin, agents, body, cancel, compact, conversation_items, conversations, drain, health,
    input_tokens, mcp, models, openapi, origin, pass_through, request_context, responses, tools, websocket,
};
use crate::protocol::error::{ApiError, ErrorKind};
use crate::protocol::parse::truncate_for_display;

/// Response headers that CORS exposes to scripts.
const EXPOSED_HEADERS: &[&str] = &[
    "x-request-id",
    "retry-after",
    "x-should-retry",
    "antwort-ignored-fields",
    "antwort-client-profile",
    "antwort-omitted-tools",
    "antwort-token-count",
    "idempotent-replayed",
    "openai-processing-ms",
];

/// The router with all routes and middleware.
pub(crate) fn router(app: AppState) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics));
    if app.serves_api {
        router = router.route("/openapi.yaml", get(openapi::yaml)).route("/openapi.json", get(openapi::json));
    }
    let prefixes = if app.serves_api { API_PREFIXES } else { &[] };
    for prefix in prefixes {
        for (path, methods) in api() {
            router = router.route(&format!("{prefix}{path}"), methods);
        }
    }
    // One `ServiceBuilder` for several layers: axum boxes the service after each call of `layer`, and clones it for each
    // request.
    let checks = ServiceBuilder::new()
        // Before authorization by route: a handshake creates responses, and does not list them.
        .layer(from_fn_with_state(app.clone(), websocket::intercept))
        .layer(from_fn_with_state(app.clone(), access::authorize))
        // Before decompression, which expects normalized names of encodings.
        .layer(map_request_with_state(app.clone(), body::normalize_encoding))
        // Innermost: only authorized requests are decompressed.
        .layer(RequestDecompressionLayer::new().pass_through_unaccepted(true));
    let mut router = router
        .route_layer(checks)
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        // A panic in a handler is answered with 500; runs have their own guard.
        .layer(CatchPanicLayer::custom(|_| ErrorResponse(ApiError::internal()).into_response()));
    if !app.access.cors_origins.is_empty() {
        // Before authorization: a CORS preflight carries no key.
        router = router.layer(cors(&app.access.cors_origins));
    }
    let outermost = ServiceBuilder::new()
        .layer(map_response(no_sniff))
        // Adds the request id and writes the access log line for every response.
        .layer(from_fn_with_state(app.clone(), request_context::observe_request))
        .layer(from_fn(drain::drain_unread_body))
        // Before CORS: preflights of origins that are not allowed are refused, too.
        .layer(from_fn_with_state(app.clone(), origin::check));
    router.layer(outermost).with_state(app)
}

fn api() -> Vec<(&'static str, MethodRouter<AppState>)> {
    vec![
        ("/responses", post(responses::create).get(responses::list_all)),
        ("/responses/compact", post(compact::compact)),
        ("/responses/input_tokens", post(input_tokens::count)),
        ("/responses/{id}", get(responses::retrieve).merge(delete(responses::delete))),
        ("/responses/{id}/cancel", post(cancel::cancel)),
        ("/responses/{id}/input_items", get(responses::input_items)),
        ("/conversations", post(conversations::create)),
        (
            "/conversations/{id}",
            get(conversations::retrieve).post(conversations::update).merge(delete(conversations::delete)),
        ),
        ("/conversations/{id}/items", post(conversation_items::create).get(conversation_items::list)),
        (
            "/conversations/{id}/items/{item_id}",
            get(conversation_items::retrieve).merge(delete(conversation_items::delete)),
        ),
        ("/admin/data", delete(admin::erase)),
        ("/models", get(models::list)),
        ("/models/{*model}", get(models::retrieve)),
        ("/chat/completions", post(pass_through::chat)),
        ("/embeddings", post(pass_through::embeddings)),
        ("/tools", get(tools::list)),
        ("/tools/refresh", post(tools::refresh)),
        ("/tools/{name}", get(tools::retrieve)),
        ("/tools/{name}/execute", post(tools::execute)),
        ("/tool_cache", delete(tools::purge_cache)),
        ("/mcp/servers", get(mcp::servers)),
        ("/agents", get(agents::list)),
        ("/agents/{id}", get(agents::retrieve)),
    ]
}

fn cors(origins: &[String]) -> CorsLayer {
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        // Mirrored, as `*` does not cover `Authorization`.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED_HEADERS.iter().copied().map(HeaderName::from_static).collect::<Vec<_>>());
    if origins.iter().any(|origin| origin == "*") {
        return layer.allow_origin(Any);
    }
    let origins = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok());
    layer.allow_origin(AllowOrigin::list(origins))
}

async fn no_sniff(mut response: Response) -> Response {
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn not_found(request: Request) -> ErrorResponse {
    ErrorResponse(
        ApiError::new(
            ErrorKind::NotFound,
            format!(
                "Unknown request URL: {} {}. See /openapi.yaml for what is served.",
                request.method(),
                truncate_for_display(request.uri().path())
            ),
        )
        .with_code("unknown_url"),
    )
}

async fn method_not_allowed(request: Request) -> ErrorResponse {
    ErrorResponse(ApiError::new(
        ErrorKind::MethodNotAllowed,
        format!("{} is not allowed for {}.", request.method(), truncate_for_display(request.uri().path())),
    ))
}
