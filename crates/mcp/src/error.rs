//! Errors of MCP servers, distinguished by whether the server may have processed the request.

use std::fmt;
use std::time::Duration;

use antwort_net::FailureCause;
use antwort_net::egress::EgressError;
use antwort_telemetry::fields::{CAUSE, KIND, SERVER, URL};
use antwort_tools::{AuthChallenge, FailureStage, RemoteFailure, ToolError, ToolErrorCode};

/// The kind of failure of a program that could not be started.
pub(super) const PROGRAM_NOT_STARTED: &str = "program_not_started";
/// The same of one that has exited.
pub(super) const PROGRAM_ENDED: &str = "program_ended";
/// The same of one that was not ready in time.
pub(super) const START_TIMEOUT: &str = "start_timeout";

/// Why there is no connection to a server: a message for callers and a cause for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureReason {
    message: String,
    cause: Option<Box<FailureCause>>,
}

impl FailureReason {
    /// A message with a cause for the log.
    pub(crate) fn new(message: impl Into<String>, cause: FailureCause) -> Self {
        Self { message: message.into(), cause: Some(Box::new(cause)) }
    }

    /// The message for callers.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The message for operators: of a program, with its name and the tail of its stderr.
    pub(super) fn for_operators(&self) -> String {
        match self.program_details() {
            Some(details) => format!("{}: {details}", self.message),
            None => self.message.clone(),
        }
    }

    fn program_details(&self) -> Option<&str> {
        let cause = self.cause.as_ref()?;
        [PROGRAM_NOT_STARTED, PROGRAM_ENDED, START_TIMEOUT].contains(&cause.kind).then_some(&*cause.text)
    }

    /// Appends text to the message and to the cause.
    #[must_use]
    pub(super) fn and(mut self, more: &str) -> Self {
        self.message.push_str(more);
        if let Some(cause) = &mut self.cause {
            cause.text = format!("{}{more}", cause.text).into();
        }
        self
    }
}

impl<T: Into<String>> From<T> for FailureReason {
    fn from(message: T) -> Self {
        Self { message: message.into(), cause: None }
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FailureReason {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

/// The kind of timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutKind {
    /// Connecting or initializing over HTTP, or listing tools (`mcp.list_timeout`).
    List,
    /// A call without response or progress.
    Idle,
}

/// An error of an MCP server. Messages contain neither credentials nor query strings of URLs.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The egress policy refused the request, or the HTTP request failed.
    #[error("{0}")]
    Egress(#[from] EgressError),
    /// Connecting failed: the program did not start, or initialization failed.
    #[error("the server cannot be reached: {0}")]
    Connect(#[source] FailureReason),
    /// The server answered `initialize` with an unsupported protocol version.
    #[error("the server uses MCP version {0}, which the gateway does not support")]
    UnknownVersion(String),
    /// The credentials could not be obtained or were rejected.
    #[error("the server refused the credentials{why}{}", challenge_text(challenge.as_deref()))]
    Unauthorized {
        /// Appended to the message.
        why: String,
        /// The server's challenge.
        challenge: Option<Box<AuthChallenge>>,
    },
    /// The credentials are valid but lack a scope.
    #[error("the credentials lack a scope that the server requires{}", challenge_text(Some(challenge)))]
    InsufficientScope {
        /// The server's challenge.
        challenge: Box<AuthChallenge>,
    },
    /// An HTTP error status; the request was not processed.
    #[error("the server answered with status {status}")]
    Http {
        /// HTTP status.
        status: u16,
        /// `Retry-After` of the response.
        retry_after: Option<Duration>,
    },
    /// The server does not know the session any more; the request was not processed.
    #[error("the server has lost the session")]
    SessionLost,
    /// A JSON-RPC error.
    #[error("{message}")]
    Protocol {
        /// JSON-RPC error code.
        code: i64,
        /// Message of the server.
        message: String,
    },
    /// A timeout. For calls a cancellation was sent to the server.
    #[error("no answer after {}", seconds(*.after))]
    Timeout {
        /// The limit.
        after: Duration,
        /// Which timeout.
        limit: TimeoutKind,
    },
    /// A message exceeded `mcp.max_message_bytes`.
    #[error("the server's response is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The memory limit of tool lists is reached.
    #[error(
        "the tool lists of all MCP sessions would take more than {limit} bytes, which is the limit (mcp.sessions.max_list_bytes)"
    )]
    ListsFull {
        /// The limit.
        limit: usize,
    },
    /// The connection was lost while waiting for a response; the request may have had side effects.
    #[error("the connection was lost: {0}")]
    Broken(#[source] FailureReason),
    /// The response violates the protocol.
    #[error("the server's response is invalid: {0}")]
    Malformed(String),
}

/// A challenge as the end of an error message.
fn challenge_text(challenge: Option<&AuthChallenge>) -> String {
    let Some(AuthChallenge { resource_metadata, scope }) = challenge else { return String::new() };
    match (resource_metadata, scope) {
        (Some(url), Some(scope)) => {
            format!("; log in for the scope `{scope}`, see {url}")
        }
        (Some(url), None) => format!("; log in, see {url}"),
        (None, Some(scope)) => format!("; the scope `{scope}` is required"),
        (None, None) => String::new(),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.0?}", time)
}

impl McpError {
    /// The credentials could not be obtained or are invalid.
    pub fn unauthorized(why: impl Into<String>) -> Self {
        Self::Unauthorized { why: why.into(), challenge: None }
    }

    /// The error for operators: of a program, with its name and the tail of its stderr.
    pub fn for_operators(&self) -> String {
        match self {
            Self::Connect(reason) | Self::Broken(reason) => match reason.program_details() {
                Some(details) => format!("{self}: {details}"),
                None => self.to_string(),
            },
            other => other.to_string(),
        }
    }

    /// The error for logs: without the server's own text, which may quote arguments or tokens.
    pub fn for_log(&self) -> String {
        match self {
            Self::Protocol { code, .. } => format!("JSON-RPC error {code}"),
            Self::Malformed(_) => "the server's response is invalid".to_owned(),
            other => other.to_string(),
        }
    }

    /// The cause, for the log.
    pub fn cause(&self) -> FailureCause {
        if let Some(cause) = FailureCause::find_in(self) {
            return cause.clone();
        }
        let text = |kind| FailureCause::new(kind, self.for_log());
        match self {
            Self::Egress(_) => text("not_allowed"),
            Self::Connect(_) | Self::UnknownVersion(_) => text("connect"),
            Self::Unauthorized { .. } | Self::InsufficientScope { .. } => text("credentials"),
            Self::Http { status: 429, .. } => text("rate_limit"),
            Self::Http { status: ..500, .. } => text("status_4xx"),
            Self::Http { .. } => text("status_5xx"),
            Self::SessionLost => text("session_lost"),
            Self::Protocol { .. } => text("reported"),
            Self::Timeout { after, limit } => {
                let (kind, setting) = match limit {
                    TimeoutKind::List => ("list_timeout", "mcp.list_timeout"),
                    TimeoutKind::Idle => {
                        ("idle_timeout", "mcp.servers.<name>.timeout or mcp.requests.timeout")
                    }
                };
                FailureCause::new(kind, format!("{setting}, {} s", after.as_secs_f64()))
            }
            Self::TooLarge { .. } | Self::ListsFull { .. } => text("too_large"),
            Self::Broken(_) => text("cut"),
            Self::Malformed(_) => text("malformed"),
        }
    }

    /// Logs the error as a warning with this message.
    pub fn log(&self, server: &str, message: &'static str) {
        let FailureCause { kind, url, text } = self.cause();
        tracing::warn!(
            { { SERVER } = server, { KIND } = kind, { URL } = url, { CAUSE } = &*text },
            "{message}"
        );
    }

    /// Whether the server certainly did not process the request, so that it may be repeated.
    pub(crate) fn was_not_processed(&self) -> bool {
        match self {
            Self::Connect(_)
            | Self::UnknownVersion(_)
            | Self::Unauthorized { .. }
            | Self::InsufficientScope { .. }
            | Self::SessionLost
            | Self::ListsFull { .. } => true,
            Self::Http { status, .. } => matches!(status, 400..=499 | 503),
            Self::Egress(error) => !matches!(error, EgressError::Broken { .. } | EgressError::Timeout { .. }),
            Self::Protocol { .. }
            | Self::Timeout { .. }
            | Self::TooLarge { .. }
            | Self::Broken(_)
            | Self::Malformed(_) => false,
        }
    }
}

impl From<McpError> for ToolError {
    fn from(error: McpError) -> Self {
        let not_processed = error.was_not_processed();
        let stage = if not_processed { FailureStage::NotSent } else { FailureStage::Transport };
        let message = error.to_string();
        match &error {
            McpError::Egress(
                refused @ (EgressError::BadUrl(_)
                | EgressError::DomainNotAllowed { .. }
                | EgressError::AddressNotAllowed { .. }),
            ) => Self::refused(ToolErrorCode::DomainNotAllowed, refused.to_string()),
            McpError::Http { status, .. } => {
                let stage = match status {
                    408 | 425 | 429 => stage,
                    // The server is reachable and refused the call: neither a retry nor an open circuit would help.
                    400..=499 => FailureStage::Tool,
                    _ => stage,
                };
                Self::new(ToolErrorCode::ToolUnavailable, stage, message)
                    .with_remote(RemoteFailure::Http(*status))
            }
            McpError::Unauthorized { challenge, .. } => {
                let remote = challenge
                    .clone()
                    .map_or(RemoteFailure::Http(401), |what| RemoteFailure::Challenged(401, what));
                Self::new(ToolErrorCode::AccessDenied, FailureStage::Tool, message).with_remote(remote)
            }
            McpError::InsufficientScope { challenge } => {
                Self::new(ToolErrorCode::AccessDenied, FailureStage::Tool, message)
                    .with_remote(RemoteFailure::Challenged(403, challenge.clone()))
            }
            McpError::Protocol { code, .. } => {
                Self::failed(message).with_remote(RemoteFailure::JsonRpc(*code))
            }
            McpError::Timeout { .. } => {
                Self::new(ToolErrorCode::ToolTimeout, FailureStage::Transport, message)
            }
            McpError::TooLarge { .. } => {
                Self::new(ToolErrorCode::ResultTooLarge, FailureStage::Tool, message)
            }
            McpError::Malformed(_) => {
                Self::new(ToolErrorCode::InvalidResult, FailureStage::Transport, message)
            }
            McpError::Egress(_)
            | McpError::Connect(_)
            | McpError::UnknownVersion(_)
            | McpError::SessionLost
            | McpError::ListsFull { .. }
            | McpError::Broken(_) => Self::new(ToolErrorCode::ToolUnavailable, stage, message),
        }
        .with_cause(error.cause())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_a_call_has_none_of_the_servers_words() {
        for error in [
            McpError::Protocol { code: -32602, message: "bad argument SECRET".into() },
            McpError::Malformed("invalid type: string \"SECRET\"".into()),
        ] {
            let error = ToolError::from(error);
            assert!(error.message.contains("SECRET"), "the model reads them");
            let logged = error.cause.as_deref().map(ToString::to_string).unwrap();
            assert!(!logged.is_empty() && !logged.contains("SECRET"), "{logged}");
        }
    }
}
