//! JSON-RPC errors of servers.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::notices::sanitize_for_error;
use crate::error::McpError;

/// A response with an error.
#[derive(Deserialize)]
struct ErrorBody<'a> {
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawError {
    #[serde(default)]
    code: Option<Value>,
    #[serde(default)]
    message: Option<String>,
}

/// Converts a JSON-RPC error.
pub(super) fn protocol_error(raw: &RawValue) -> McpError {
    let error: RawError = serde_json::from_str(raw.get()).unwrap_or(RawError { code: None, message: None });
    let code = error.code.and_then(|code| code.as_i64()).unwrap_or(-32603);
    let message = error.message.map_or_else(
        || "the server returned an error without a message".to_owned(),
        |message| sanitize_for_error(&message),
    );
    McpError::Protocol { code, message }
}

/// The JSON-RPC error in a body, if it is one.
pub(super) fn error_in(body: &[u8]) -> Option<McpError> {
    let error = serde_json::from_slice::<ErrorBody<'_>>(body).ok()?.error?;
    let coded: RawError = serde_json::from_str(error.get()).ok()?;
    coded.code?.as_i64()?;
    Some(protocol_error(error))
}

/// The error for valid use of the protocol that the gateway does not support.
pub(super) fn unsupported(what: &str) -> McpError {
    McpError::Protocol { code: -32601, message: sanitize_for_error(&format!("the server {what}")) }
}
