//! A tool of an MCP server that answers before its work is done.

use serde_json::{Value, json};

use crate::mcp_server::McpServer;

/// What the server answers while its work goes on.
pub fn started() -> Value {
    json!({"content": [{"type": "text", "text": "Started."}], "_meta": {"antwort/async": true}})
}

/// The path of the callback that the server was given last.
pub fn callback(server: &McpServer) -> String {
    callbacks(server).pop().expect("the server was called")
}

/// The paths of the callbacks that the server was given.
pub fn callbacks(server: &McpServer) -> Vec<String> {
    let path = |address: &Value| {
        let expires_at = address["expires_at"].as_i64().unwrap();
        assert!(expires_at > jiff::Timestamp::now().as_second() + 80_000, "{address}");
        let url = address["url"].as_str().unwrap();
        url.strip_prefix("https://gateway.example.com").unwrap_or_else(|| panic!("{url}")).to_owned()
    };
    let calls = server.calls();
    let addresses = calls.iter().filter_map(|call| call.meta.get("antwort/callback"));
    addresses.map(path).collect()
}
