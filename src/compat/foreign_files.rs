//! Files of other programs, recognised by their content, so that nobody reads one as a configuration of antwort.

use serde_json::{Map, Value};

/// What a text is, in words, if `antwort config import` can translate it.
pub(crate) fn kind(text: &str) -> Option<&'static str> {
    if is_go_agents(text) {
        return Some("an agent file of go-agents");
    }
    is_mcp_servers(text).then_some("a list of MCP servers")
}

/// Whether a text is an agent file of go-agents.
pub(crate) fn is_go_agents(text: &str) -> bool {
    let known =
        |file: &Map<String, Value>| file.contains_key("transport") || file.contains_key("system_prompt");
    serde_json::from_str(text).is_ok_and(|value: Value| value.as_object().is_some_and(known))
}

/// Whether a text is a list of MCP servers.
pub(crate) fn is_mcp_servers(text: &str) -> bool {
    serde_json::from_str(text).is_ok_and(|value: Value| value.get("mcpServers").is_some_and(Value::is_object))
}
