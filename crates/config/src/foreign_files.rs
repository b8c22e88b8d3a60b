//! Files of other programs, recognised by their content, so that nobody reads one as a configuration of antwort.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};

/// Maximum bytes of a file; those of programs have kilobytes.
const MAX_BYTES: u64 = 4 << 20;

/// The text of a file, read with a bound.
///
/// # Errors
/// If it cannot be read, is too long or no text.
pub fn read(file: &Path) -> Result<String, String> {
    let mut content = Vec::new();
    let read = File::open(file).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut content));
    read.map_err(|error| format!("cannot read the file: {error}"))?;
    if content.len() as u64 > MAX_BYTES {
        return Err(format!("the file has more than {} MiB", MAX_BYTES >> 20));
    }
    String::from_utf8(content).map_err(|_| "the file is not UTF-8 text".to_owned())
}

/// What a text is, in words, if `antwort config import` can translate it.
pub(crate) fn kind(text: &str) -> Option<&'static str> {
    if is_go_agents(text) {
        return Some("an agent file of go-agents");
    }
    is_mcp_servers(text).then_some("a list of MCP servers")
}

/// Whether a text is an agent file of go-agents.
pub fn is_go_agents(text: &str) -> bool {
    let known =
        |file: &Map<String, Value>| file.contains_key("transport") || file.contains_key("system_prompt");
    serde_json::from_str(text).is_ok_and(|value: Value| value.as_object().is_some_and(known))
}

/// Whether a text is a list of MCP servers.
pub fn is_mcp_servers(text: &str) -> bool {
    serde_json::from_str(text).is_ok_and(|value: Value| value.get("mcpServers").is_some_and(Value::is_object))
}
