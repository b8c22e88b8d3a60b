//! Errors of tool calls: what the model and clients are told, and what only the log has.

use std::fmt;

use serde::Serialize;

use super::output::OutputMeta;

/// A failed call. The message goes to the model and to clients; the cause goes to logs only.
#[derive(Debug)]
pub struct ToolError {
    /// Stable code, for programs.
    pub code: ToolErrorCode,
    /// Description without secrets.
    pub message: String,
    /// Where the call failed, which decides about retries and failover.
    pub stage: FailureStage,
    /// The error of a remote server, if that is the failure.
    pub remote: Option<RemoteFailure>,
    /// How the call was executed until it failed; filled in by the layers, `None` before.
    pub meta: Option<Box<OutputMeta>>,
    /// Logged, never sent to models or clients.
    pub cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A protocol-level error of a remote tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteFailure {
    /// A JSON-RPC error with this code.
    JsonRpc(i64),
    /// An HTTP error status.
    Http(u16),
    /// An HTTP error status with a `WWW-Authenticate` challenge.
    Challenged(u16, Box<AuthChallenge>),
}

/// The challenge in a server's `WWW-Authenticate` header: untrusted text of bounded length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthChallenge {
    /// URL of the protected resource metadata (RFC 9728), which names the authorization servers.
    pub resource_metadata: Option<String>,
    /// Requested scopes, space-separated.
    pub scope: Option<String>,
}

/// Where a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureStage {
    /// The call never reached the tool: rejected before, or no connection.
    NotSent,
    /// The request or response was lost in transit: the call may have had side effects.
    Transport,
    /// The tool returned an error.
    Tool,
    /// The run cannot continue (cancelled, or the store failed): ends the response.
    Fatal,
}

/// Stable error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolErrorCode {
    /// Unknown tool.
    ToolNotFound,
    /// The arguments are not a JSON object or violate the tool's schema.
    InvalidArguments,
    /// Policy forbids the tool, the file or the action.
    AccessDenied,
    /// Egress policy forbids the host or address.
    DomainNotAllowed,
    /// The call timed out.
    ToolTimeout,
    /// The tool failed.
    ToolExecutionFailed,
    /// The tool cannot be reached, or its circuit breaker is open.
    ToolUnavailable,
    /// The limit of tool calls of the run, or of the tool in it, is reached.
    ToolCallLimit,
    /// The result violates the tool's return schema.
    InvalidResult,
    /// The result exceeds the size limit.
    ResultTooLarge,
    /// The tool panicked, which is a bug in the tool.
    ToolPanicked,
    /// The gateway stopped between the call and its result; the call may have had side effects.
    OutcomeUnknown,
    /// The run was cancelled.
    Cancelled,
    /// The journal could not be written.
    StorageError,
}

impl ToolErrorCode {
    /// The code on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ToolNotFound => "tool_not_found",
            Self::InvalidArguments => "invalid_arguments",
            Self::AccessDenied => "access_denied",
            Self::DomainNotAllowed => "domain_not_allowed",
            Self::ToolTimeout => "tool_timeout",
            Self::ToolExecutionFailed => "tool_execution_failed",
            Self::ToolUnavailable => "tool_unavailable",
            Self::ToolCallLimit => "tool_call_limit",
            Self::InvalidResult => "invalid_result",
            Self::ResultTooLarge => "result_too_large",
            Self::ToolPanicked => "tool_panicked",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Cancelled => "cancelled",
            Self::StorageError => "storage_error",
        }
    }
}

impl ToolError {
    /// The tool returned an error.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::ToolExecutionFailed, FailureStage::Tool, message)
    }

    /// The call was rejected before it reached the tool.
    pub fn refused(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self::new(code, FailureStage::NotSent, message)
    }

    /// There is no such tool, in the words in which a model is told so.
    pub fn unknown(name: &str) -> Self {
        Self::refused(ToolErrorCode::ToolNotFound, format!("there is no tool '{name}'"))
    }

    /// An argument is missing or invalid in a way that the schema does not express.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::refused(ToolErrorCode::InvalidArguments, message)
    }

    /// The request or response was lost in transit; the call may have had side effects.
    pub fn transport(message: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::ToolUnavailable, FailureStage::Transport, message)
    }

    /// The run cannot continue.
    pub fn fatal(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self::new(code, FailureStage::Fatal, message)
    }

    /// An error with explicit code and stage.
    pub fn new(code: ToolErrorCode, stage: FailureStage, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), stage, remote: None, meta: None, cause: None }
    }

    /// Adds the error of a remote server.
    #[must_use]
    pub fn with_remote(mut self, remote: RemoteFailure) -> Self {
        self.remote = Some(remote);
        self
    }

    /// Adds the cause, for logs.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}

impl std::error::Error for ToolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}
