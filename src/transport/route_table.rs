//! The table of all routes, with the authorization that each requires.

use axum::http::Method;

use crate::config::settings::Scope;

/// The authorization that a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// No key.
    Public,
    /// A key with this scope.
    Requires(Scope),
}

/// All API routes, without their prefix. A test compares the OpenAPI document with them.
pub const API_ROUTES: &[(Method, &str, Access)] = &[
    (Method::POST, "/responses", Access::Requires(Scope::ResponsesCreate)),
    (Method::GET, "/responses", Access::Requires(Scope::ResponsesRead)),
    (Method::POST, "/responses/compact", Access::Requires(Scope::ResponsesCreate)),
    (Method::POST, "/responses/input_tokens", Access::Requires(Scope::ResponsesCreate)),
    (Method::GET, "/responses/{id}", Access::Requires(Scope::ResponsesRead)),
    (Method::DELETE, "/responses/{id}", Access::Requires(Scope::ResponsesDelete)),
    (Method::POST, "/responses/{id}/cancel", Access::Requires(Scope::ResponsesCreate)),
    (Method::POST, "/responses/{id}/inputs", Access::Requires(Scope::ResponsesCreate)),
    (Method::GET, "/responses/{id}/input_items", Access::Requires(Scope::ResponsesRead)),
    (Method::GET, "/responses/{id}/trace", Access::Requires(Scope::ResponsesRead)),
    (Method::POST, "/conversations", Access::Requires(Scope::ResponsesCreate)),
    (Method::GET, "/conversations/{id}", Access::Requires(Scope::ResponsesRead)),
    (Method::POST, "/conversations/{id}", Access::Requires(Scope::ResponsesCreate)),
    (Method::DELETE, "/conversations/{id}", Access::Requires(Scope::ResponsesDelete)),
    (Method::POST, "/conversations/{id}/items", Access::Requires(Scope::ResponsesCreate)),
    (Method::GET, "/conversations/{id}/items", Access::Requires(Scope::ResponsesRead)),
    (Method::GET, "/conversations/{id}/items/{item_id}", Access::Requires(Scope::ResponsesRead)),
    (Method::DELETE, "/conversations/{id}/items/{item_id}", Access::Requires(Scope::ResponsesDelete)),
    (Method::GET, "/models", Access::Requires(Scope::ModelsRead)),
    (Method::GET, "/models/{*model}", Access::Requires(Scope::ModelsRead)),
    (Method::POST, "/chat/completions", Access::Requires(Scope::ChatCreate)),
    (Method::POST, "/embeddings", Access::Requires(Scope::EmbeddingsCreate)),
    (Method::GET, "/tools", Access::Requires(Scope::ToolsRead)),
    (Method::POST, "/tools/refresh", Access::Requires(Scope::ToolsAdmin)),
    (Method::GET, "/tools/{name}", Access::Requires(Scope::ToolsRead)),
    (Method::POST, "/tools/{name}/execute", Access::Requires(Scope::ToolsExecute)),
    (Method::POST, "/tool_callbacks/{token}", Access::Public),
    (Method::DELETE, "/tool_cache", Access::Requires(Scope::ToolsAdmin)),
    (Method::GET, "/mcp/servers", Access::Requires(Scope::McpAdmin)),
    (Method::DELETE, "/admin/data", Access::Requires(Scope::DataAdmin)),
    (Method::GET, "/agents", Access::Requires(Scope::AgentsRead)),
    (Method::GET, "/agents/{id}", Access::Requires(Scope::AgentsRead)),
];

/// Routes outside the API: probes, metrics, documents.
pub const SERVICE_ROUTES: &[(Method, &str, Access)] = &[
    (Method::GET, "/healthz", Access::Public),
    (Method::GET, "/readyz", Access::Public),
    (Method::GET, "/metrics", Access::Requires(Scope::MetricsRead)),
    (Method::GET, "/openapi.yaml", Access::Public),
    (Method::GET, "/openapi.json", Access::Public),
    (Method::POST, "/api/a2a/input", Access::Requires(Scope::ResponsesCreate)),
];

/// The web page: no part of the API, and so not in the OpenAPI document.
const PAGE_ROUTES: &[(Method, &str, Access)] = &[
    (Method::GET, "/ui", Access::Public),
    (Method::GET, "/ui/", Access::Public),
    (Method::GET, "/ui/{*path}", Access::Public),
];

/// Prefixes of the API: base URLs of clients end in `/v1`, in nothing, or in `/openai/v1` as Azure's do.
pub const API_PREFIXES: &[&str] = &["/v1", "", "/openai/v1"];

/// The authorization of a route; `None` if no table lists it.
pub(super) fn access_of(method: &Method, route: &str) -> Option<Access> {
    // HEAD requires the same as GET.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    entries(route).find(|(listed, _)| *listed == method).map(|(_, access)| access)
}

/// The methods of a route, as the header `Allow` lists them.
pub(super) fn allowed_methods(route: &str) -> String {
    let mut allowed = Vec::new();
    for (method, _) in entries(route) {
        allowed.push(method.as_str());
        if method == Method::GET {
            allowed.push(Method::HEAD.as_str());
        }
    }
    allowed.join(",")
}

/// The methods of a route with their authorization.
fn entries(route: &str) -> impl Iterator<Item = (&'static Method, Access)> {
    let of = |table: &'static [(Method, &'static str, Access)], path| {
        table
            .iter()
            .filter(move |(_, listed, _)| *listed == path)
            .map(|(method, _, access)| (method, *access))
    };
    let api = API_PREFIXES.iter().filter_map(move |prefix| route.strip_prefix(prefix));
    of(SERVICE_ROUTES, route)
        .chain(of(PAGE_ROUTES, route))
        .chain(api.flat_map(move |path| of(API_ROUTES, path)))
}
