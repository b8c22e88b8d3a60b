//! Server-side tools: names and globs, requirements of the built-in tools, limits.

use std::collections::BTreeMap;
use std::time::Duration;

use globset::Glob;
use secrecy::ExposeSecret;

use super::checker::{Checker, has_credentials, parse_http};
use crate::settings::{
    AsyncMode, OnError, RouteSettings, RouteStrategy, SearchProvider, ToolOverride, ToolsSettings,
};

pub(super) fn check(tools: &ToolsSettings, public_url: Option<&str>, check: &mut Checker<'_>) {
    globs(&["tools", "allowed_tools"], tools.allowed_tools.as_deref(), check);
    globs(&["tools", "blocked_tools"], Some(&tools.blocked_tools), check);
    globs(&["tools", "cache", "never"], Some(&tools.cache.never), check);
    for (tenant, lists) in &tools.tenants {
        globs(&["tools", "tenants", tenant, "allowed_tools"], lists.allowed_tools.as_deref(), check);
        globs(&["tools", "tenants", tenant, "blocked_tools"], Some(&lists.blocked_tools), check);
    }
    limits(tools, check);
    overrides(&tools.overrides, &tools.on_error, check);
    callbacks(tools, public_url, check);
    for (id, executor) in &tools.executors {
        check.require_nonzero(
            &["tools", "executors", id, "timeout"],
            executor.timeout.is_some_and(|t| t.is_zero()),
        );
        check.require_nonzero(&["tools", "executors", id, "max_parallel"], executor.max_parallel == Some(0));
    }
    for (name, route) in &tools.routes {
        one_route(name, route, check);
    }
    builtin(tools, check);
    for (name, mock) in &tools.mock {
        if !is_tool_name(name) {
            check.error(&["tools", "mock", name], TOOL_NAME_RULE);
        }
        if mock.parameters.as_ref().is_some_and(|schema| !schema.is_object()) {
            let path = ["tools", "mock", name, "parameters"];
            check.error(&path, "expected a JSON Schema: a section of keys");
        }
    }
}

/// Callbacks need an address. Tools of the embedding program report their results in the process.
fn callbacks(tools: &ToolsSettings, public_url: Option<&str>, check: &mut Checker<'_>) {
    const NEEDS_URL: &str = "needs `server.public_url` (ANTWORT_PUBLIC_URL), where the result is reported";
    match public_url.map(parse_http) {
        None => {}
        Some(Some(url)) if url.query().is_none() && url.fragment().is_none() && !has_credentials(&url) => return,
        Some(_) => check.error(
            &["server", "public_url"],
            "expected an http or https URL without user, query and fragment, such as https://gateway.example.com",
        ),
    }
    for (name, own) in &tools.overrides {
        // `label__name` is a tool of an MCP server.
        if own.asynchronous == Some(AsyncMode::Allow) && name.contains("__") {
            check.error(&["tools", "overrides", name, "async"], NEEDS_URL);
        }
    }
    for (name, _) in tools.mock.iter().filter(|(_, mock)| mock.asynchronous) {
        check.error(&["tools", "mock", name, "async"], NEEDS_URL);
    }
}

/// The error for an invalid name.
pub(super) const TOOL_NAME_RULE: &str = "a name has 1 to 64 letters, digits, `_` or `-`";

/// Whether this is a valid tool name for models and clients.
pub(super) fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Errors for patterns that can never match.
pub(super) fn globs(path: &[&str], patterns: Option<&[String]>, check: &mut Checker<'_>) {
    for (index, pattern) in patterns.unwrap_or_default().iter().enumerate() {
        if let Some(wrong) = glob(pattern) {
            check.error(&[path, &[&index.to_string()]].concat(), wrong);
        }
    }
}

/// The error of a pattern.
pub(super) fn glob(pattern: &str) -> Option<String> {
    match Glob::new(pattern) {
        Ok(_) if pattern.is_empty() => Some("is empty; `*` stands for all tools".to_owned()),
        Ok(_) => None,
        Err(error) => Some(format!("expected a pattern such as `get_*`: {}", error.kind())),
    }
}

fn limits(tools: &ToolsSettings, check: &mut Checker<'_>) {
    for (path, value) in [
        (["tools", "max_parallel"].as_slice(), tools.max_parallel),
        (&["tools", "results", "max_bytes"], tools.results.max_bytes),
        (&["tools", "results", "max_stored_bytes"], tools.results.max_stored_bytes),
        (&["tools", "results", "store_bytes"], tools.results.store_bytes),
        (&["tools", "cache", "max_bytes"], tools.cache.max_bytes),
        (&["tools", "builtin", "file_read", "max_bytes"], tools.builtin.file_read.max_bytes),
    ] {
        check.require_nonzero(path, value == 0);
    }
    for (path, value) in [
        (["tools", "timeout"].as_slice(), tools.timeout),
        (&["tools", "results", "store_ttl"], tools.results.store_ttl),
        (&["tools", "retry", "delay"], tools.retry.delay),
        (&["tools", "retry", "max_delay"], tools.retry.max_delay),
        (&["tools", "breaker", "open_for"], tools.breaker.open_for),
    ] {
        check.require_nonzero(path, value.is_zero());
    }
    if tools.results.max_bytes > tools.results.max_stored_bytes {
        let message = "is more than tools.results.max_stored_bytes, so it limits nothing";
        check.error(&["tools", "results", "max_bytes"], message);
    }
    retries(&["tools", "retry", "max"], tools.retry.max, check);
    for (name, ttl) in &tools.cache.ttl {
        if ttl.is_zero() {
            let message = "must be more than 0; tools.cache.never names tools that are not cached";
            check.error(&["tools", "cache", "ttl", name], message);
        }
    }
}

fn retries(path: &[&str], max: u32, check: &mut Checker<'_>) {
    if max > 10 {
        check.error(path, "must be at most 10");
    }
}

fn overrides(overrides: &BTreeMap<String, ToolOverride>, general: &OnError, check: &mut Checker<'_>) {
    for (name, own) in overrides {
        let key_path = |key| ["tools", "overrides", name, key];
        if name.is_empty() {
            check.error(&["tools", "overrides", name], "the name of a tool is missing");
        }
        let zero = |value: Option<Duration>| value.is_some_and(|value| value.is_zero());
        check.require_nonzero(&key_path("timeout"), zero(own.timeout));
        check.require_nonzero(&key_path("max_parallel"), own.max_parallel == Some(0));
        check.require_nonzero(&key_path("max_calls"), own.max_calls == Some(0));
        check.require_nonzero(&key_path("max_result_bytes"), own.max_result_bytes == Some(0));
        if own.serial && own.max_parallel.is_some_and(|max| max > 1) {
            check.error(&key_path("max_parallel"), "contradicts `serial`, which means one call at a time");
        }
        if own.cacheable == Some(false) && own.cache_per_user {
            check.error(&key_path("cache_per_user"), "contradicts `cacheable: false`");
        }
        if let Some(retry) = &own.retry {
            retries(&["tools", "overrides", name, "retry", "max"], retry.max, check);
            check.require_nonzero(&["tools", "overrides", name, "retry", "delay"], retry.delay.is_zero());
            check.require_nonzero(
                &["tools", "overrides", name, "retry", "max_delay"],
                retry.max_delay.is_zero(),
            );
        }
        if let Some(breaker) = &own.breaker {
            check.require_nonzero(
                &["tools", "overrides", name, "breaker", "open_for"],
                breaker.open_for.is_zero(),
            );
        }
        if has_fallback_cycle(name, overrides) {
            check.error(&key_path("on_error"), "falls back to itself, directly or through other tools");
        }
    }
    if let OnError::Fallback(tool) = general
        && overrides.get(tool).is_none_or(|own| own.on_error.is_none())
    {
        let message = format!(
            "{tool} would fall back to itself: set tools.overrides.{tool}.on_error, such as `continue`"
        );
        check.error(&["tools", "on_error"], message);
    }
}

/// Whether a tool's chain of fallbacks leads back to it.
fn has_fallback_cycle(name: &str, overrides: &BTreeMap<String, ToolOverride>) -> bool {
    let next = |name: &str| match overrides.get(name).and_then(|own| own.on_error.as_ref()) {
        Some(OnError::Fallback(tool)) => Some(tool.clone()),
        _ => None,
    };
    // A cycle is no longer than the number of overrides.
    let mut steps = std::iter::successors(next(name), |tool| next(tool)).take(overrides.len());
    steps.any(|tool| tool == name)
}

fn one_route(name: &str, route: &RouteSettings, check: &mut Checker<'_>) {
    let key_path = |key| ["tools", "routes", name, key];
    for (index, executor) in route.executors.iter().enumerate() {
        let path = ["tools", "routes", name, "executors", &index.to_string()];
        if executor.is_empty() {
            check.error(&path, "is empty: the id of an executor such as `builtin` or `mcp:docs`");
        } else if route.executors.iter().take(index).any(|other| other == executor) {
            check.error(&path, format!("`{executor}` is a duplicate"));
        }
    }
    if route.strategy != RouteStrategy::Weighted && !route.weights.is_empty() {
        check.error(&key_path("weights"), "require `strategy: weighted`");
    }
    for executor in route.weights.keys() {
        if !route.executors.is_empty() && !route.executors.contains(executor) {
            let path = ["tools", "routes", name, "weights", executor];
            check.error(&path, "is not among the route's executors");
        }
    }
    let all_zero = |weights: &BTreeMap<String, u32>| weights.values().all(|weight| *weight == 0);
    let each_has_one = route.executors.iter().all(|executor| route.weights.contains_key(executor));
    if !route.weights.is_empty() && each_has_one && all_zero(&route.weights) {
        check.error(&key_path("weights"), "are all 0, so that no executor is ever chosen");
    }
}

fn builtin(tools: &ToolsSettings, check: &mut Checker<'_>) {
    let (weather, search, files) =
        (&tools.builtin.get_weather, &tools.builtin.web_search, &tools.builtin.file_read);
    for (name, url) in [("get_weather", Some(&weather.base_url)), ("web_search", search.base_url.as_ref())] {
        if let Some(problem) = url.and_then(|url| base_url(url)) {
            check.error(&["tools", "builtin", name, "base_url"], problem);
        }
    }
    for (index, path) in files.allowed_paths.iter().enumerate() {
        if path.as_os_str().is_empty() {
            let path = ["tools", "builtin", "file_read", "allowed_paths", &index.to_string()];
            check.error(&path, "is empty: write ./ for the working directory");
        }
    }
    for (name, key) in [("get_weather", &weather.api_key), ("web_search", &search.api_key)] {
        if key.as_ref().is_some_and(|key| key.expose_secret().contains(|c: char| c.is_control())) {
            check.error(&["tools", "builtin", name, "api_key"], "contains line ends or control characters");
        }
    }
    // Without `required`, a tool whose key is missing is unavailable with a warning; that is no error.
    if weather.required && weather.api_key.is_none() {
        check.error(&["tools", "builtin", "get_weather", "api_key"], "is missing, and the tool is required");
    }
    let needs = match search.search_provider() {
        Some(SearchProvider::Searxng) if search.base_url.is_none() => Some("base_url"),
        Some(SearchProvider::Brave | SearchProvider::Tavily) if search.api_key.is_none() => Some("api_key"),
        None if search.required => Some("provider"),
        _ => None,
    };
    match needs {
        Some("base_url") => {
            let path = ["tools", "builtin", "web_search", "base_url"];
            check.error(&path, "is missing: the URL of SearXNG, such as http://searxng:8080");
        }
        Some(key) if search.required => {
            let path = ["tools", "builtin", "web_search", key];
            check.error(&path, "is missing, and the tool is required");
        }
        _ => {}
    }
    if files.required && !tools.allow_file_access {
        let message = "is set, yet tools.allow_file_access is false";
        check.error(&["tools", "builtin", "file_read", "required"], message);
    }
    if files.required && files.allowed_paths.is_empty() {
        let path = ["tools", "builtin", "file_read", "allowed_paths"];
        check.error(&path, "is empty, and the tool is required");
    }
}

/// The error of the base URL of an API that tools call.
fn base_url(text: &str) -> Option<&'static str> {
    match parse_http(text) {
        None => Some("expected an http or https URL"),
        Some(url) if has_credentials(&url) => {
            Some("must not hold a user or password: requests of tools are never sent to such a URL")
        }
        Some(url) if url.query().is_some() || url.fragment().is_some() => {
            Some("must not hold a query or fragment")
        }
        Some(_) => None,
    }
}
