//! A small MCP server (streamable HTTP).

use crate::answer::{Answer, error, json_answer, respond};
use hyper::Response;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) static CALLS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn answer(body: &[u8]) -> Response<Answer> {
    let Ok(call) = serde_json::from_slice::<Value>(body) else { return error(400, "bad JSON") };
    let args = &call["params"]["arguments"];
    let result = match call["method"].as_str().unwrap_or("") {
        "initialize" => json!({
            "protocolVersion": call["params"]["protocolVersion"].as_str().unwrap_or("2025-06-18"),
            "capabilities": {"tools": {}}, "serverInfo": {"name": "mock-mcp", "version": "1"}}),
        "ping" => json!({}),
        "tools/list" => json!({"tools": [
            {"name": "add", "description": "Adds two integers", "inputSchema": {"type": "object", "properties": {
                "a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}},
            {"name": "weather", "description": "The weather of a city", "inputSchema": {"type": "object",
                "properties": {"city": {"type": "string"}}, "required": ["city"]}}]}),
        "tools/call" => {
            CALLS.fetch_add(1, Relaxed);
            let text = match call["params"]["name"].as_str() {
                Some("add") => {
                    (args["a"].as_i64().unwrap_or(0) + args["b"].as_i64().unwrap_or(0)).to_string()
                }
                _ => format!("sunny in {}", args["city"].as_str().unwrap_or("?")),
            };
            json!({"content": [{"type": "text", "text": text}], "isError": false})
        }
        _ if call["id"].is_null() => return respond(202, false, Answer::new(Arc::default(), None, None)),
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            return json_answer(200, &json!({"jsonrpc": "2.0", "id": call["id"], "error": error}));
        }
    };
    json_answer(200, &json!({"jsonrpc": "2.0", "id": call["id"], "result": result}))
}
