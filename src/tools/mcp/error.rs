//! What can go wrong with a server, told apart by what may have happened there.

use std::fmt;
use std::time::Duration;

use crate::net::FailureCause;
use crate::net::egress::EgressError;
use crate::telemetry::fields::{CAUSE, KIND, SERVER, URL};
use crate::tools::{AuthChallenge, FailureStage, RemoteFailure, ToolError, ToolErrorCode};

/// Why there is no connection to a server, or no more: in words for whoever wants to use it, with what the log has beyond that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureReason {
    message: String,
    cause: Option<Box<FailureCause>>,
}

impl FailureReason {
    /// Words, and why in the log.
    pub(crate) fn new(told: impl Into<String>, cause: FailureCause) -> Self {
        Self { message: told.into(), cause: Some(Box::new(cause)) }
    }

    /// The words.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// With more behind the words, in both places.
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
    fn from(told: T) -> Self {
        Self { message: told.into(), cause: None }
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

/// Which time limit was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutKind {
    /// Of a connection with its handshake, and of a list of tools.
    List,
    /// Of a call without a sign of life.
    Idle,
}

/// Why a server did not do what it was asked. Messages hold no credentials and no URLs with their queries.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The guard of outgoing requests refused or failed.
    #[error("{0}")]
    Egress(#[from] EgressError),
    /// No connection came about: the program does not start, the handshake failed.
    #[error("the server cannot be reached: {0}")]
    Connect(#[source] FailureReason),
    /// It answered the handshake with a version of the protocol that is not known here.
    #[error("the server speaks version {0} of the protocol, which the gateway does not know")]
    UnknownVersion(String),
    /// The credentials could not be had or were not taken.
    #[error("the server refused the credentials{why}{}", wanted(challenge.as_deref()))]
    Unauthorized {
        /// To be said behind that.
        why: String,
        /// What the server wants to be shown instead.
        challenge: Option<Box<AuthChallenge>>,
    },
    /// The credentials are good, and not for this.
    #[error("the credentials do not reach as far as the server wants{}", wanted(Some(challenge)))]
    InsufficientScope {
        /// What the server wants.
        challenge: Box<AuthChallenge>,
    },
    /// An HTTP error before the request was worked on.
    #[error("the server answered with status {status}")]
    Http {
        /// The status.
        status: u16,
        /// When to come back.
        retry_after: Option<Duration>,
    },
    /// The server knows nothing of the session any more; the request was not worked on.
    #[error("the server has lost the session")]
    SessionLost,
    /// A JSON-RPC error.
    #[error("{message}")]
    Protocol {
        /// Its code.
        code: i64,
        /// Its words.
        message: String,
    },
    /// No sign of life for this long, or none in time at all. The server was told that the call is cancelled.
    #[error("no answer after {}", seconds(*.after))]
    Timeout {
        /// How long.
        after: Duration,
        /// Which limit that was.
        limit: TimeoutKind,
    },
    /// A message was longer than it may be.
    #[error("the server's answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The lists of all sessions take all the room that they may.
    #[error(
        "the tool lists of all MCP sessions would take more than {limit} bytes, which is the limit (mcp.sessions.max_list_bytes)"
    )]
    ListsFull {
        /// The limit.
        limit: usize,
    },
    /// The connection went while an answer was awaited; the request may have had its effect.
    #[error("the connection broke: {0}")]
    Broken(#[source] FailureReason),
    /// The answer is none of the protocol's.
    #[error("the server's answer cannot be read: {0}")]
    Malformed(String),
}

/// What a challenge says, for people.
fn wanted(challenge: Option<&AuthChallenge>) -> String {
    let Some(AuthChallenge { resource_metadata, scope }) = challenge else { return String::new() };
    match (resource_metadata, scope) {
        (Some(place), Some(scope)) => {
            format!("; it wants a login for the scope `{scope}`, and says where at {place}")
        }
        (Some(place), None) => format!("; it wants a login, and says where at {place}"),
        (None, Some(scope)) => format!("; it wants the scope `{scope}`"),
        (None, None) => String::new(),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.0?}", time)
}

impl McpError {
    /// The credentials could not be had, or not be used.
    pub fn unauthorized(why: impl Into<String>) -> Self {
        Self::Unauthorized { why: why.into(), challenge: None }
    }

    /// What happened, for logs: the server's own words may quote what it was sent, arguments and tokens, and are for
    /// whoever sent it.
    pub fn for_log(&self) -> String {
        match self {
            Self::Protocol { code, .. } => format!("JSON-RPC error {code}"),
            Self::Malformed(_) => "the server's answer cannot be read".to_owned(),
            other => other.to_string(),
        }
    }

    /// Why, for the log.
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

    /// Says so in the log, in the name of the request that this is done for. `doing`: what failed.
    pub(crate) fn log(&self, server: &str, doing: &'static str) {
        let FailureCause { kind, url, text } = self.cause();
        tracing::warn!(
            { { SERVER } = server, { KIND } = kind, { URL } = url, { CAUSE } = &*text },
            "{doing}"
        );
    }

    /// Whether the server surely did not work on the request, so that it may be made again.
    pub fn was_not_processed(&self) -> bool {
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
        let before = error.was_not_processed();
        let fault = if before { FailureStage::NotSent } else { FailureStage::Transport };
        let message = error.to_string();
        match &error {
            McpError::Egress(
                refused @ (EgressError::BadUrl(_)
                | EgressError::DomainNotAllowed { .. }
                | EgressError::AddressNotAllowed { .. }),
            ) => Self::refused(ToolErrorCode::DomainNotAllowed, refused.to_string()),
            McpError::Http { status, .. } => {
                let fault = match status {
                    408 | 425 | 429 => fault,
                    // It is there and would not have the call: no reason to call again, nor to leave it alone.
                    400..=499 => FailureStage::Tool,
                    _ => fault,
                };
                Self::new(ToolErrorCode::ToolUnavailable, fault, message)
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
            | McpError::Broken(_) => Self::new(ToolErrorCode::ToolUnavailable, fault, message),
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
