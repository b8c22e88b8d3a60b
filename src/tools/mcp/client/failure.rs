//! The SDK's errors as ours, told apart by whether the server can have worked on the request.

use std::error::Error;

use rmcp::service::{ClientInitializeError, ServiceError};

use super::notices::told;
use super::streamable::TransportError;
use super::wire::Wire;
use crate::tools::mcp::error::McpError;

/// Why a request got no answer; `gone` if it is because the connection ended.
pub(super) fn of_request(error: ServiceError, gone: impl FnOnce() -> McpError) -> McpError {
    match error {
        ServiceError::TransportSend(error) => of_transport(error.error),
        ServiceError::TransportClosed => gone(),
        // Answers of the server have gone another way: these are the SDK's own words, on calls that it gave up when
        // a session was lost.
        ServiceError::McpError(error) => McpError::Broken(told(&error.message)),
        other => McpError::Broken(told(&other.to_string())),
    }
}

/// Why hands were not shaken.
pub(super) fn of_handshake(error: ClientInitializeError, wire: &Wire) -> McpError {
    match error {
        ClientInitializeError::TransportError { error, .. } => of_transport(error.error),
        ClientInitializeError::JsonRpcError(error) => {
            McpError::Protocol { code: i64::from(error.code.0), message: told(&error.message) }
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            McpError::Connect("it speaks no version of the protocol that the gateway does".to_owned())
        }
        ClientInitializeError::ConnectionClosed(_) if wire.closed.is_cancelled() => {
            McpError::Connect(wire.why_closed())
        }
        _ => McpError::Connect("the handshake failed".to_owned()),
    }
}

fn of_transport(error: Box<dyn Error + Send + Sync>) -> McpError {
    let error = match error.downcast::<McpError>() {
        Ok(ours) => return *ours,
        Err(error) => error,
    };
    match error.downcast::<TransportError>().map(|error| *error) {
        Ok(TransportError::Client(ours)) => ours,
        // Both came of a 404; nothing else is sent again or given up before it is sent.
        Ok(TransportError::SessionExpired | TransportError::ReinitializationFailed(_)) => {
            McpError::SessionLost
        }
        Ok(TransportError::SessionRecoveryTimeout) => {
            McpError::Broken("the session was lost in the middle of the call".to_owned())
        }
        Ok(_) | Err(_) => McpError::Broken("the transport failed".to_owned()),
    }
}
