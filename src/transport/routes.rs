//! The router: which handler and which middleware serve the routes of `route_table`.

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, post};
use tower::ServiceBuilder;
use tower_http::cors::{AllowHeaders, AllowOrigin, Any, CorsLayer};

use super::error::ErrorResponse;
use super::route_table::{API_PREFIXES, PassThroughRoutes};
use super::{
    AppState, access, admin, agents, callbacks, cancel, compact, conversation_items, conversations, health,
    input_tokens, inputs, mcp, middleware, models, openapi, pass_through, responses, tools, traces, ui,
};

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
        router = router
            .route("/openapi.yaml", get(openapi::yaml))
            .route("/openapi.json", get(openapi::json))
            .route("/ui", get(ui::redirect))
            .route("/ui/", get(ui::index))
            .route("/ui/{*path}", get(ui::file))
            .route("/api/a2a/input", post(inputs::answer_a2a));
    }
    let prefixes = if app.serves_api { API_PREFIXES } else { &[] };
    for prefix in prefixes {
        for (path, methods) in api().into_iter().chain(passed_through(&app.access.pass_through)) {
            router = router.route(&format!("{prefix}{path}"), methods);
        }
    }
    let router = router.method_not_allowed_fallback(not_allowed).fallback(not_found);
    let router = if app.access.cors_origins.is_empty() {
        router.layer(from_fn_with_state(app.clone(), middleware::all))
    } else {
        router.layer(
            ServiceBuilder::new()
                .layer(from_fn_with_state(app.clone(), middleware::before_cors))
                .layer(cors(&app.access.cors_origins))
                .layer(from_fn_with_state(app.clone(), middleware::after_cors)),
        )
    };
    router.with_state(app)
}

fn api() -> Vec<(&'static str, MethodRouter<AppState>)> {
    vec![
        ("/responses", post(responses::create).get(responses::list_all)),
        ("/responses/compact", post(compact::compact)),
        ("/responses/input_tokens", post(input_tokens::count)),
        ("/responses/{id}", get(responses::retrieve).merge(delete(responses::delete))),
        ("/responses/{id}/cancel", post(cancel::cancel)),
        ("/responses/{id}/inputs", post(inputs::answer)),
        ("/responses/{id}/input_items", get(responses::input_items)),
        ("/responses/{id}/trace", get(traces::retrieve)),
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
        ("/tools", get(tools::list)),
        ("/tools/refresh", post(tools::refresh)),
        ("/tools/{name}", get(tools::retrieve)),
        ("/tools/{name}/execute", post(tools::execute)),
        ("/tool_callbacks/{token}", post(callbacks::complete)),
        ("/tool_cache", delete(tools::purge_cache)),
        ("/mcp/servers", get(mcp::servers)),
        ("/agents", get(agents::list)),
        ("/agents/{id}", get(agents::retrieve)),
    ]
}

/// The routes whose requests go to providers as they are.
fn passed_through(routes: &PassThroughRoutes) -> impl Iterator<Item = (&str, MethodRouter<AppState>)> {
    let listed = routes.listed.iter().map(|path| (*path, post(pass_through::create)));
    listed.chain(routes.others.iter().map(|path| (path.as_str(), post(pass_through::create_any))))
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

async fn not_found(request: Request) -> ErrorResponse {
    ErrorResponse(access::unknown_url(request.method(), request.uri().path()))
}

async fn not_allowed(request: Request) -> ErrorResponse {
    ErrorResponse(access::method_not_allowed(request.method(), request.uri()))
}
