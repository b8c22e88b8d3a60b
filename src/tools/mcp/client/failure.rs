//! The SDK's errors as ours, told apart by whether the server can have worked on the request.

use std::error::Error;

use rmcp::service::{ClientInitializeError, ServiceError};

use super::message_router::MessageRouter;
use super::notices::sanitize_for_error;
use super::streamable::TransportError;
use crate::tools::mcp::error::McpError;

/// Why a request got no answer; `gone` if it is because the connection ended.
pub(super) fn from_request_error(error: ServiceError, gone: impl FnOnce() -> McpError) -> McpError {
    match error {
        ServiceError::TransportSend(error) => from_transport_error(error.error),
        ServiceError::TransportClosed => gone(),
        // Answers of the server have gone another way: these are the SDK's own words, on calls that it gave up when
        // a session was lost.
        ServiceError::McpError(error) => McpError::Broken(sanitize_for_error(&error.message).into()),
        other => McpError::Broken(sanitize_for_error(&other.to_string()).into()),
    }
}

/// Why hands were not shaken.
pub(super) fn from_handshake_error(error: ClientInitializeError, wire: &MessageRouter) -> McpError {
    // Whatever the SDK makes of it, the connection was ended here and for a reason.
    if wire.closed.is_cancelled() {
        return closed_in_handshake(wire);
    }
    match error {
        ClientInitializeError::TransportError { error, .. } => from_transport_error(error.error),
        ClientInitializeError::JsonRpcError(error) => {
            McpError::Protocol { code: i64::from(error.code.0), message: sanitize_for_error(&error.message) }
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            McpError::Connect("it speaks no version of the protocol that the gateway does".into())
        }
        _ => McpError::Connect("the handshake failed".into()),
    }
}

/// Why a connection was ended while hands were shaken.
pub(super) fn closed_in_handshake(wire: &MessageRouter) -> McpError {
    match wire.unknown_version() {
        Some(version) => McpError::UnknownVersion(version.to_owned()),
        None => McpError::Connect(wire.why_closed()),
    }
}

fn from_transport_error(error: Box<dyn Error + Send + Sync>) -> McpError {
    let error = match error.downcast::<McpError>() {
        Ok(ours) => return *ours,
        Err(error) => error,
    };
    match error.downcast::<TransportError>().map(|error| *error) {
        Ok(TransportError::Client(ours)) => ours,
        Ok(TransportError::SessionExpired) => McpError::SessionLost,
        Ok(_) | Err(_) => McpError::Broken("the transport failed".into()),
    }
}
