//! Routes to MCP servers: the servers must exist, and their calls must not need approval.

use globset::Glob;

use super::checker::Checker;
use crate::settings::{McpRule, McpServerSettings, McpTrust, OnError, RouteSettings, Settings, mcp_label};

/// The executor of all servers of requests.
const REQUEST_EXECUTOR: &str = "mcp:request";

pub(super) fn check(settings: &Settings, check: &mut Checker<'_>) {
    let (tools, servers) = (&settings.tools, &settings.mcp.servers);
    for (name, route) in &tools.routes {
        if let [_] = route.executors.as_slice() {
            let message = "lists a single executor: list two or more, or none for all";
            check.error(&["tools", "routes", name, "executors"], message);
        }
        for (index, id) in route.executors.iter().enumerate() {
            let Some(label) = mcp_label(id) else { continue };
            let problem = match servers.get(label) {
                None => Some(format!("there is no server `{label}` under mcp.servers")),
                Some(server) => unroutable_reason(server, label, name),
            };
            if let Some(problem) = problem {
                check.error(&["tools", "routes", name, "executors", &index.to_string()], problem);
            }
        }
    }
    for id in tools.executors.keys() {
        let path = ["tools", "executors", id];
        if id == "mcp" {
            check.error(&path, "unknown executor; all servers of requests are `mcp:request`");
        } else if let Some(label) = mcp_label(id).filter(|_| id != REQUEST_EXECUTOR)
            && !servers.contains_key(label)
        {
            check.error(&path, format!("there is no server `{label}` under mcp.servers"));
        }
    }
    let remote = |route: &RouteSettings| route.executors.iter().any(|id| mcp_label(id).is_some());
    let cannot = |on_error: &OnError| match on_error {
        OnError::Fallback(other) => tools.routes.get(other).is_some_and(remote),
        _ => false,
    };
    const INVALID_FALLBACK: &str = "a tool that is routed to MCP servers cannot be a fallback";
    if cannot(&tools.on_error) {
        check.error(&["tools", "on_error"], INVALID_FALLBACK);
    }
    for (name, own) in &tools.overrides {
        if own.on_error.as_ref().is_some_and(cannot) {
            check.error(&["tools", "overrides", name, "on_error"], INVALID_FALLBACK);
        }
    }
}

/// Why calls of a tool of a server can never be routed.
fn unroutable_reason(server: &McpServerSettings, label: &str, tool: &str) -> Option<String> {
    let fits = |pattern: &str| Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(tool));
    let rule = server.rules.iter().find(|(pattern, _)| fits(pattern)).map(|(_, rule)| *rule);
    let allowed = server.allowed_tools.as_ref().is_none_or(|allowed| allowed.iter().any(|glob| fits(glob)));
    let why = match rule {
        _ if !allowed || server.blocked_tools.iter().any(|glob| fits(glob)) => "does not offer this tool",
        Some(McpRule::Deny) => "denies this tool by a rule",
        Some(McpRule::Ask) => "has the rule `ask`, and a routed call cannot wait for approval",
        None if server.trust == Some(McpTrust::Untrusted) => {
            "is untrusted, so that its calls need approval, which a routed call cannot wait for"
        }
        _ => return None,
    };
    Some(format!("mcp.servers.{label} {why}"))
}
