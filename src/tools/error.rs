//! Why a call gave no result, and who is to know.

use std::fmt;

use serde::Serialize;

use super::output::OutputMeta;

/// A call that failed. The message is for the model and for clients; the cause is for logs only.
#[derive(Debug)]
pub struct ToolError {
    /// Stable, for programs.
    pub code: ToolErrorCode,
    /// In words, without secrets.
    pub message: String,
    /// Where it went wrong, which decides about retries and fallbacks.
    pub stage: FailureStage,
    /// What a remote server answered with, where that was the failure.
    pub remote: Option<RemoteFailure>,
    /// How the call went until it failed; filled by the layers. `None`: it has not passed them yet.
    pub meta: Option<Box<OutputMeta>>,
    /// Logged, never shown.
    pub cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// An error in the terms of the protocol by which a remote tool is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteFailure {
    /// A JSON-RPC error of this code.
    JsonRpc(i64),
    /// This HTTP status.
    Http(u16),
    /// This HTTP status, with a challenge.
    Challenged(u16, Box<AuthChallenge>),
}

/// What a server wants to be shown, by its `WWW-Authenticate`: a stranger's words, not too long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthChallenge {
    /// The URL of what it says of itself (RFC 9728), where a client learns who can log a user in.
    pub resource_metadata: Option<String>,
    /// The scopes that it asks for, with spaces in between.
    pub scope: Option<String>,
}

/// Where a call went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureStage {
    /// The tool never heard of the call: refused before it, or no connection.
    NotSent,
    /// On the way there or back: it may have had its effect.
    Transport,
    /// The tool itself answered with an error.
    Tool,
    /// The run cannot go on: cancelled, or the store failed. Ends the response.
    Fatal,
}

/// Stable codes of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolErrorCode {
    /// There is no such tool.
    ToolNotFound,
    /// The arguments are no JSON object, or not by the tool's schema.
    InvalidArguments,
    /// Policy forbids the tool, the file, or what it would do.
    AccessDenied,
    /// Policy forbids the host or address.
    DomainNotAllowed,
    /// It took too long.
    ToolTimeout,
    /// It failed.
    ToolExecutionFailed,
    /// It cannot be reached, or failed so often that it is left alone for a while.
    ToolUnavailable,
    /// The run, or the tool within it, has had all its calls.
    ToolCallLimit,
    /// Its result is not by its return schema.
    InvalidResult,
    /// Its result is larger than it may be.
    ResultTooLarge,
    /// It panicked: a bug in the tool.
    ToolPanicked,
    /// The gateway stopped between the call and its result; it may have had its effect.
    OutcomeUnknown,
    /// The run was cancelled.
    Cancelled,
    /// The journal could not be written.
    StorageError,
}

impl ToolErrorCode {
    /// The name on the wire.
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
    /// The tool answered with an error.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::ToolExecutionFailed, FailureStage::Tool, message)
    }

    /// The call was refused before the tool heard of it.
    pub fn refused(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self::new(code, FailureStage::NotSent, message)
    }

    /// An argument is missing or wrong in a way that the schema does not show.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::refused(ToolErrorCode::InvalidArguments, message)
    }

    /// The way there or back failed; the tool may have had its effect.
    pub fn transport(message: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::ToolUnavailable, FailureStage::Transport, message)
    }

    /// The run cannot go on.
    pub fn fatal(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self::new(code, FailureStage::Fatal, message)
    }

    /// Any other.
    pub fn new(code: ToolErrorCode, stage: FailureStage, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), stage, remote: None, meta: None, cause: None }
    }

    /// With what a remote server answered.
    #[must_use]
    pub fn with_remote(mut self, remote: RemoteFailure) -> Self {
        self.remote = Some(remote);
        self
    }

    /// With what caused it, for logs.
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
