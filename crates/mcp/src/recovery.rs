//! What errors say about a session: whether the server has lost it, and whether a request was processed. `session/recover`
//! acts on it.

use std::sync::atomic::AtomicU64;

use tokio::sync::Mutex;

use super::backoff::FailureBackoff;
use super::error::McpError;
use antwort_net::egress::EgressError;

/// What an error suggests about the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionDiagnosis {
    /// The session is not affected.
    None,
    /// The session is lost; the request was not processed.
    Lost,
    /// The session may be lost; if so, the request was not processed.
    Refused,
    /// The session may be lost, and the request may have been processed.
    Unclear,
}

/// How a server refuses requests of a lost session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// HTTP status 400 to 499.
    Status,
    /// A JSON-RPC error.
    Protocol(i64, String),
    /// An error that leaves open whether requests were processed.
    Other,
}

/// The recovery state of a session.
#[derive(Default)]
pub(super) struct Recovery {
    /// Held while the session is probed and re-initialized.
    pub(crate) checking: Mutex<()>,
    /// Number of successful probes.
    pub alive: AtomicU64,
    /// Backoff of re-initializations: failed ones, and those without a successful response yet.
    pub(crate) replace_backoff: FailureBackoff,
}

impl Recovery {
    /// Records a successful response: the last re-initialization helped.
    pub(super) fn reset(&self) {
        self.replace_backoff.reset();
    }
}

impl Refusal {
    pub(super) fn from_error(error: &McpError) -> Self {
        match error {
            McpError::SessionLost | McpError::Unauthorized { .. } => Self::Status,
            McpError::Http { status: 400..=499, .. } => Self::Status,
            McpError::Protocol { code, message } => Self::Protocol(*code, message.clone()),
            _ => Self::Other,
        }
    }

    /// Whether a request with this error was refused for the same reason.
    pub(super) fn matches(&self, failed: &McpError) -> bool {
        *self != Self::Other && *self == Self::from_error(failed)
    }
}

impl SessionDiagnosis {
    pub(super) fn from_error(error: &McpError) -> Self {
        /// JSON-RPC internal error, which a call that was executed may return, too.
        const INTERNAL: i64 = -32603;
        match error {
            McpError::SessionLost => Self::Lost,
            // Timeout, size or rate limit: independent of the session.
            McpError::Http { status: 408 | 413 | 425 | 429, .. } => Self::None,
            McpError::Http { status: 400..=499, .. } | McpError::Unauthorized { .. } => Self::Refused,
            McpError::Protocol { code: INTERNAL, .. } => Self::Unclear,
            McpError::Protocol { .. } => Self::Refused,
            McpError::Http { status: 500..=599, .. }
            | McpError::Broken(_)
            | McpError::Malformed(_)
            | McpError::Egress(EgressError::Broken { .. }) => Self::Unclear,
            McpError::Http { .. }
            | McpError::InsufficientScope { .. }
            | McpError::Egress(_)
            | McpError::Connect(_)
            | McpError::UnknownVersion(_)
            | McpError::Timeout { .. }
            | McpError::TooLarge { .. }
            | McpError::ListsFull { .. } => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_refused_alike_was_refused_for_the_session() {
        let protocol = |code, message: &str| McpError::Protocol { code, message: message.into() };
        let http = |status| McpError::Http { status, retry_after: None };
        for (list, call, expected) in [
            (McpError::SessionLost, http(400), true),
            (http(401), McpError::unauthorized(""), true),
            (http(410), http(422), true),
            (http(500), http(500), false),
            (http(502), http(400), false),
            (
                protocol(-32602, "Invalid request parameters"),
                protocol(-32602, "Invalid request parameters"),
                true,
            ),
            (protocol(-32602, "Invalid request parameters"), protocol(-32602, "Unknown tool: x"), false),
            (http(404), protocol(-32602, "Invalid request parameters"), false),
            (McpError::Broken("it ended".into()), McpError::Broken("it ended".into()), false),
        ] {
            assert_eq!(Refusal::from_error(&list).matches(&call), expected, "{list:?} {call:?}");
        }
    }
}
