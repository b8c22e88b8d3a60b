//! Converts errors of the SDK to [`McpError`], by whether the server may have processed the request.

use std::error::Error;

use rmcp::service::{ClientInitializeError, ServiceError};

use super::message_router::MessageRouter;
use super::notices::sanitize_for_error;
use super::streamable::TransportError;
use crate::error::McpError;

/// Why a request failed; `gone` supplies the error if the connection was closed.
pub(super) fn from_request_error(error: ServiceError, gone: impl FnOnce() -> McpError) -> McpError {
    match error {
        ServiceError::TransportSend(error) => from_transport_error(error.error),
        ServiceError::TransportClosed => gone(),
        // Not from the server, whose responses bypass the SDK: the SDK reports calls that it aborted because a session
        // was lost.
        ServiceError::McpError(error) => McpError::Broken(sanitize_for_error(&error.message).into()),
        other => McpError::Broken(sanitize_for_error(&other.to_string()).into()),
    }
}

/// Why initialization failed.
pub(super) fn from_handshake_error(error: ClientInitializeError, router: &MessageRouter) -> McpError {
    // The router closed the connection, so its reason is more precise than the SDK's error.
    if router.closed.is_cancelled() {
        return closed_in_handshake(router);
    }
    match error {
        ClientInitializeError::TransportError { error, .. } => from_transport_error(error.error),
        ClientInitializeError::JsonRpcError(error) => {
            McpError::Protocol { code: i64::from(error.code.0), message: sanitize_for_error(&error.message) }
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            McpError::Connect("the server supports no MCP version that the gateway supports".into())
        }
        _ => McpError::Connect("initialization failed".into()),
    }
}

/// Why the connection was closed during initialization.
pub(super) fn closed_in_handshake(router: &MessageRouter) -> McpError {
    match router.unknown_version() {
        Some(version) => McpError::UnknownVersion(version.to_owned()),
        None => McpError::Connect(router.why_closed()),
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
