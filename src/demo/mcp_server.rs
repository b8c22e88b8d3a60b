//! The demo's MCP server, of a travel agency: two tools that only read, and one whose calls a person must allow.

#![expect(clippy::indexing_slicing, reason = "a JSON value indexed by what it lacks is null")]

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::trip::{BOOK, FORECAST, TRAINS};

/// Serves the Streamable HTTP transport at `/mcp` until `shutdown`.
pub(super) async fn serve(listener: TcpListener, shutdown: CancellationToken) {
    let service = axum::Router::new().route("/mcp", post(message));
    let served = axum::serve(listener, service).with_graceful_shutdown(shutdown.cancelled_owned()).await;
    if let Err(error) = served {
        tracing::error!(%error, "the demo's MCP server stopped");
    }
}

/// One JSON-RPC message.
async fn message(Json(message): Json<Value>) -> Response {
    if message.get("id").is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    let outcome = match message["method"].as_str().unwrap_or_default() {
        "initialize" => Ok(json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "antwort-demo-travel", "version": env!("CARGO_PKG_VERSION")}})),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": tools()})),
        "tools/call" => call(&message["params"]).await,
        _ => Err(json!({"code": -32601, "message": "method not found"})),
    };
    let mut reply = json!({"jsonrpc": "2.0", "id": message["id"]});
    match outcome {
        Ok(result) => reply["result"] = result,
        Err(error) => reply["error"] = error,
    }
    Json(reply).into_response()
}

fn tools() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let day = json!({"type": "string", "enum": ["today", "tomorrow"], "default": "tomorrow"});
    json!([
        {"name": FORECAST, "description": "The weather of a city", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "required": ["city"],
                "properties": {"city": text("Name of the city"), "day": day}}},
        {"name": TRAINS, "description": "Trains between two cities", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "required": ["from", "to"],
                "properties": {"from": text("Where the journey begins"), "to": text("Where it ends"), "day": day}}},
        {"name": BOOK, "description": "Books seats in a train and charges the traveller's card",
            "annotations": {"readOnlyHint": false, "destructiveHint": true},
            "inputSchema": {"type": "object", "required": ["train", "departure"], "properties": {
                "train": text("Number of the train"), "departure": text("Time of departure, HH:MM"),
                "seats": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1}}}},
    ])
}

/// Every tool takes a time of its own, so that calls can be told apart in a picture of the run.
async fn call(params: &Value) -> Result<Value, Value> {
    let arguments = &params["arguments"];
    let word = |name: &str| arguments[name].as_str().unwrap_or("?").to_owned();
    let day = arguments["day"].as_str().unwrap_or("tomorrow");
    let (takes, text) = match params["name"].as_str().unwrap_or_default() {
        FORECAST => (400, format!("{}, {day}: sunny, 14 degrees.", word("city"))),
        TRAINS => (
            900,
            format!(
                "{} to {}: train 62 at 08:01, 6 h 34 min, free seats; train 64 at 11:57, full.",
                word("from"),
                word("to")
            ),
        ),
        BOOK => {
            (300, format!("Train {} at {} is booked, reference DEMO-4711.", word("train"), word("departure")))
        }
        _ => return Err(json!({"code": -32602, "message": "unknown tool"})),
    };
    tokio::time::sleep(Duration::from_millis(takes)).await;
    Ok(json!({"content": [{"type": "text", "text": text}], "isError": false}))
}
