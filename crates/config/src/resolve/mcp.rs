//! MCP servers: URL or command, headers and credentials, limits.

use std::time::Duration;

use url::Url;

use super::checker::{Checker, has_credentials, parse_http};
use super::egress;
use super::tools::{TOOL_NAME_RULE, globs, is_tool_name};
use crate::settings::{McpServerSettings, McpSettings, McpTransport};
use antwort_protocol::tool::BUILTIN_SERVER_LABEL;

mod auth;

pub(super) fn check(mcp: &McpSettings, check: &mut Checker<'_>) {
    for (label, server) in &mcp.servers {
        check_server(label, server, check);
    }
    let (requests, sampling) = (&mcp.requests, &mcp.sampling);
    for (path, zero) in [
        (["mcp", "tool_ttl"].as_slice(), mcp.tool_ttl.is_zero()),
        (&["mcp", "list_timeout"], mcp.list_timeout.is_zero()),
        (&["mcp", "max_message_bytes"], mcp.max_message_bytes == 0),
        (&["mcp", "requests", "timeout"], requests.timeout.is_zero()),
        (&["mcp", "requests", "max_time"], requests.max_time.is_zero()),
        (&["mcp", "requests", "max_in_flight"], requests.max_in_flight == 0),
        (&["mcp", "requests", "max_servers"], requests.max_servers == 0),
        (&["mcp", "requests", "max_tools"], requests.max_tools == 0),
        (&["mcp", "sessions", "max"], mcp.sessions.max == 0),
        (&["mcp", "sessions", "idle_timeout"], mcp.sessions.idle_timeout.is_zero()),
        (&["mcp", "sessions", "max_list_bytes"], mcp.sessions.max_list_bytes == 0),
        (&["mcp", "approvals", "expires_after"], mcp.approvals.expires_after.is_zero()),
        (&["mcp", "sampling", "max_requests"], sampling.max_requests == 0),
        (&["mcp", "sampling", "max_tokens"], sampling.max_tokens == 0),
        (&["mcp", "tasks", "max_polls_per_second"], mcp.tasks.max_polls_per_second == 0),
    ] {
        check.require_nonzero(path, zero);
    }
    if requests.max_time < requests.timeout {
        check.error(&["mcp", "requests", "max_time"], MAX_TIME_BELOW_TIMEOUT);
    }
    egress::domains(&["mcp", "requests", "allowed_domains"], requests.allowed_domains.as_deref(), check);
    match sampling.model.as_deref() {
        Some("") => check.error(&["mcp", "sampling", "model"], "is empty"),
        None if sampling.enabled => {
            check.missing(&["mcp", "sampling", "model"], "is missing: the model that servers may call");
        }
        _ => {}
    }
}

const MAX_TIME_BELOW_TIMEOUT: &str = "is less than timeout, so timeout has no effect";

fn check_server(label: &str, server: &McpServerSettings, check: &mut Checker<'_>) {
    let key_path = |key| ["mcp", "servers", label, key];
    if !is_tool_name(label) {
        check.error(&["mcp", "servers", label], TOOL_NAME_RULE);
    } else if label == BUILTIN_SERVER_LABEL {
        check.error(
            &["mcp", "servers", label],
            "is reserved for the gateway's own tools: choose another label",
        );
    }
    match (&server.url, &server.command) {
        (Some(_), Some(_)) => {
            check.error(&["mcp", "servers", label], "has both `url` and `command`: one is enough");
        }
        (None, None) => check.missing(&["mcp", "servers", label], "needs a `url`, or a `command` to start"),
        (Some(url), None) => check_remote(label, url, server, check),
        (None, Some(command)) => check_stdio(label, command, server, check),
    }
    let zero = |time: Option<Duration>| time.is_some_and(|time| time.is_zero());
    check.require_nonzero(&key_path("timeout"), zero(server.timeout));
    check.require_nonzero(&key_path("max_time"), zero(server.max_time));
    check.require_nonzero(&key_path("start_timeout"), zero(server.start_timeout));
    check.require_nonzero(&key_path("tool_ttl"), zero(server.tool_ttl));
    check.require_nonzero(&key_path("max_in_flight"), server.max_in_flight == Some(0));
    if server.timeout.zip(server.max_time).is_some_and(|(timeout, max)| max < timeout) {
        check.error(&key_path("max_time"), MAX_TIME_BELOW_TIMEOUT);
    }
    globs(&key_path("allowed_tools"), server.allowed_tools.as_deref(), check);
    globs(&key_path("blocked_tools"), Some(&server.blocked_tools), check);
    for pattern in server.rules.keys() {
        if let Some(wrong) = super::tools::glob(pattern) {
            check.error(&["mcp", "servers", label, "rules", pattern], wrong);
        }
    }
    for (index, what) in server.context.iter().enumerate() {
        if server.context.iter().take(index).any(|other| other == what) {
            check.error(&["mcp", "servers", label, "context", &index.to_string()], "is a duplicate");
        }
    }
    if let Some(tenants) = &server.tenants {
        if tenants.is_empty() {
            check.error(&key_path("tenants"), "is empty, so no tenant may use it: omit it for all tenants");
        }
        for (index, _) in tenants.iter().enumerate().filter(|(_, tenant)| tenant.is_empty()) {
            let path = ["mcp", "servers", label, "tenants", &index.to_string()];
            check.error(&path, "the name of a tenant is empty");
        }
    }
}

/// The URL is never quoted in an error: it may contain a key.
fn check_remote(label: &str, url: &str, server: &McpServerSettings, check: &mut Checker<'_>) {
    let key_path = |key| ["mcp", "servers", label, key];
    if server.transport == Some(McpTransport::Stdio) {
        check.error(&key_path("transport"), "`stdio` needs a `command` instead of a `url`");
    }
    for (key, is_set) in [
        ("args", !server.args.is_empty()),
        ("env", !server.env.is_empty()),
        ("cwd", server.cwd.is_some()),
        ("start_timeout", server.start_timeout.is_some()),
    ] {
        if is_set {
            check.error(&key_path(key), "is for servers with a `command`");
        }
    }
    if let Some(problem) = server_url(parse_http(url).as_ref(), server.transport) {
        check.error(&key_path("url"), problem);
    }
    auth::check(label, server, check);
}

fn server_url(url: Option<&Url>, transport: Option<McpTransport>) -> Option<&'static str> {
    let Some(url) = url else {
        return Some("expected an http or https URL, such as https://example.com/mcp");
    };
    if has_credentials(url) {
        return Some("must not hold a user or password: use `auth` or `headers`");
    }
    if url.fragment().is_some() {
        return Some("must not have `#`");
    }
    if transport != Some(McpTransport::JsonRpc) {
        return None;
    }
    if url.query().is_some() {
        Some("must not have `?`: /rpc is appended to it")
    } else if url.path().ends_with("/rpc") {
        Some("must not end in /rpc, which is appended to it")
    } else {
        None
    }
}

fn check_stdio(label: &str, command: &str, server: &McpServerSettings, check: &mut Checker<'_>) {
    let key_path = |key| ["mcp", "servers", label, key];
    if command.is_empty() || command.contains('\0') {
        check.error(&key_path("command"), "expected the name or path of a program");
    }
    if server.transport.is_some_and(|transport| transport != McpTransport::Stdio) {
        check.error(&key_path("transport"), "a `command` requires `stdio`");
    }
    if !server.headers.is_empty() {
        check
            .error(&key_path("headers"), "are for servers with a `url`; a program gets its secrets by `env`");
    }
    if !matches!(server.auth, crate::settings::McpAuth::None) {
        check.error(&key_path("auth"), "is for servers with a `url`; a program gets its secrets by `env`");
    }
    for (index, _) in server.args.iter().enumerate().filter(|(_, argument)| argument.contains('\0')) {
        check.error(&["mcp", "servers", label, "args", &index.to_string()], NUL);
    }
    for (name, value) in &server.env {
        let path = ["mcp", "servers", label, "env", name];
        if name.is_empty() || name.contains(['=', '\0']) {
            check.error(&path, "is not a valid variable name");
        }
        if secrecy::ExposeSecret::expose_secret(value).contains('\0') {
            check.error(&path, NUL);
        }
    }
    if server.cwd.as_ref().is_some_and(|folder| folder.as_os_str().is_empty()) {
        check.error(&key_path("cwd"), "is empty: omit it for the gateway's working directory");
    }
}

const NUL: &str = "contains a NUL character";
