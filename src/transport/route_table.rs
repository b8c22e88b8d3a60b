//! The table of all routes, with the authorization that each requires.

use axum::http::Method;

use antwort_config::settings::PASSED_BY_DEFAULT;
use antwort_identity::Scope;

/// The authorization that a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// No key.
    Public,
    /// A key with this scope. If the route shows or changes what belongs to tenants, a key that has it by `*` reaches its own
    /// tenant's alone (`Principal::reach`).
    Requires(Scope),
    /// A key with this scope, for what all tenants share: with keys of several tenants, `*` does not count.
    Operates(Scope),
}

/// All API routes, without their prefix. A test compares `openapi.yaml` with them.
pub(crate) const API_ROUTES: &[(Method, &str, Access)] = &[
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
    (Method::POST, "/tools/refresh", Access::Operates(Scope::ToolsAdmin)),
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
pub(crate) const SERVICE_ROUTES: &[(Method, &str, Access)] = &[
    (Method::GET, "/healthz", Access::Public),
    (Method::GET, "/readyz", Access::Public),
    (Method::GET, "/metrics", Access::Operates(Scope::MetricsRead)),
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

/// Prefixes of the API: base URLs of clients end in `/v1`, in nothing, or in `/openai/v1` as Azure's do. A test of the documents has
/// them, too, and asks for every operation below each.
pub(crate) const API_PREFIXES: &[&str] = &["/v1", "", "/openai/v1"];

/// The method of the routes that are passed through.
static POST: Method = Method::POST;

/// The routes of `server.pass_through`, without their prefix.
pub(crate) struct PassThroughRoutes {
    /// Those that [`API_ROUTES`] has, with scopes of their own.
    pub listed: Vec<&'static str>,
    /// All others; the last segment may be `{*path}`.
    pub others: Vec<String>,
}

impl PassThroughRoutes {
    /// `paths`: as in the configuration. A pattern that covers a path with a scope of its own does not take it from that
    /// scope.
    pub(crate) fn new(paths: &[String]) -> Self {
        let covers = |path: &str, listed: &str| match path.strip_suffix('*') {
            Some(start) => listed.starts_with(start),
            None => path == listed,
        };
        let is_listed = |listed: &&str| paths.iter().any(|path| covers(path, listed));
        let others = paths.iter().filter(|path| !PASSED_BY_DEFAULT.contains(&path.as_str()));
        Self {
            listed: PASSED_BY_DEFAULT.into_iter().filter(is_listed).collect(),
            others: others.map(|path| path.replace('*', "{*path}")).collect(),
        }
    }

    /// Whether a route is one of those that no table lists.
    fn has_other(&self, route: &str) -> bool {
        let mut paths = API_PREFIXES.iter().filter_map(|prefix| route.strip_prefix(prefix));
        paths.any(|path| self.others.iter().any(|other| other == path))
    }
}

/// The authorization of a route; `None` if no table lists it.
pub(super) fn access_of(method: &Method, route: &str, passed: &PassThroughRoutes) -> Option<Access> {
    // HEAD requires the same as GET.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    entries(route, passed).find(|(listed, _)| *listed == method).map(|(_, access)| access)
}

/// The methods of a route, as the header `Allow` lists them.
pub(super) fn allowed_methods(route: &str, passed: &PassThroughRoutes) -> String {
    let mut allowed = Vec::new();
    for (method, _) in entries(route, passed) {
        allowed.push(method.as_str());
        if method == Method::GET {
            allowed.push(Method::HEAD.as_str());
        }
    }
    allowed.join(",")
}

/// The methods of a route with their authorization.
fn entries(route: &str, passed: &PassThroughRoutes) -> impl Iterator<Item = (&'static Method, Access)> {
    let of = |table: &'static [(Method, &'static str, Access)], path| {
        table
            .iter()
            .filter(move |(_, listed, _)| *listed == path)
            .map(|(method, _, access)| (method, *access))
    };
    let api = API_PREFIXES.iter().filter_map(move |prefix| route.strip_prefix(prefix));
    let is_passed = passed.has_other(route);
    of(SERVICE_ROUTES, route)
        .chain(of(PAGE_ROUTES, route))
        .chain(api.flat_map(move |path| of(API_ROUTES, path)))
        .chain(is_passed.then_some((&POST, Access::Requires(Scope::PassThroughCreate))))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use antwort_config::settings::RESERVED_SEGMENTS;
    use serde_json::Value;

    use super::super::openapi::OPENAPI_YAML;
    use super::*;

    #[test]
    fn a_pattern_does_not_take_a_path_from_its_scope() {
        let routes = PassThroughRoutes::new(&["/chat/*".into(), "/rerank".into()]);
        assert_eq!(routes.listed, ["/chat/completions"]);
        assert_eq!(routes.others, ["/chat/{*path}", "/rerank"]);
        let access = |route| access_of(&Method::POST, route, &routes);
        for route in ["/v1/rerank", "/openai/v1/chat/{*path}", "/rerank"] {
            assert_eq!(access(route), Some(Access::Requires(Scope::PassThroughCreate)), "{route}");
        }
        assert_eq!(access("/v1/chat/completions"), Some(Access::Requires(Scope::ChatCreate)));
        assert_eq!(access("/v1/score"), None);
        assert_eq!(access_of(&Method::GET, "/v1/rerank", &routes), None);
        assert_eq!(allowed_methods("/v1/rerank", &routes), "POST");
    }

    #[test]
    fn no_path_of_ours_can_be_passed_through() {
        let paths = [API_ROUTES, SERVICE_ROUTES, PAGE_ROUTES].into_iter().flatten().map(|(_, path, _)| *path);
        let own = paths.filter(|path| !PASSED_BY_DEFAULT.contains(path));
        let prefixes = API_PREFIXES.iter().copied().filter(|prefix| !prefix.is_empty());
        let first = |path: &'static str| path.split('/').nth(1).expect("a segment");
        let reserved: BTreeSet<&str> = own.chain(prefixes).map(first).collect();
        assert_eq!(reserved.into_iter().collect::<Vec<_>>(), RESERVED_SEGMENTS);
    }

    #[test]
    fn every_route_is_documented_and_every_documented_path_is_served() {
        let is_open = |access: &Access| *access == Access::Public;
        let api =
            API_ROUTES.iter().map(|(method, path, access)| (method, format!("/v1{path}"), is_open(access)));
        let service =
            SERVICE_ROUTES.iter().map(|(method, path, access)| (method, (*path).to_owned(), is_open(access)));
        let served: BTreeSet<_> = api
            .chain(service)
            .map(|(method, path, open)| (method.to_string(), nameless(&path), open))
            .collect();
        assert_eq!(served, documented(), "method, path, and whether no key is needed");
    }

    #[test]
    fn the_page_on_compatibility_mentions_every_route_and_no_other() {
        let page = include_str!("../../docs/compatibility.md");
        let routes = API_ROUTES.iter().chain(SERVICE_ROUTES);
        let routes: BTreeSet<String> =
            routes.map(|(method, path, _)| format!("`{method} {}`", path.replace("{*", "{"))).collect();
        for route in &routes {
            assert!(page.contains(route), "docs/compatibility.md does not mention {route}");
        }
        let promises = |line: &&str| line.contains("| implemented") || line.contains("| passed through");
        for line in page.lines().filter(promises) {
            let Some(first) = line.strip_prefix("| ").and_then(|line| line.split(" |").next()) else {
                continue;
            };
            if ["`GET ", "`POST ", "`DELETE "].iter().any(|method| first.starts_with(method)) {
                assert!(routes.contains(first), "docs/compatibility.md promises {first}");
            }
        }
    }

    /// A path whose variable parts have no names.
    fn nameless(path: &str) -> String {
        let segments = path.split('/').map(|segment| if segment.starts_with('{') { "{}" } else { segment });
        segments.collect::<Vec<_>>().join("/")
    }

    /// Method, path, and whether it is open, of every operation of `openapi.yaml`.
    fn documented() -> BTreeSet<(String, String, bool)> {
        let document: Value = serde_norway::from_str(OPENAPI_YAML).unwrap();
        let methods = ["get", "post", "put", "patch", "delete"];
        let mut found = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in
                item.as_object().unwrap().iter().filter(|(key, _)| methods.contains(&key.as_str()))
            {
                let is_open = operation["security"].as_array().is_some_and(Vec::is_empty);
                found.insert((method.to_uppercase(), nameless(path), is_open));
            }
        }
        found
    }
}
