//! Errors as clients see them: the body of the API with its four keys, the HTTP status, and when to retry.
//!
//! Messages are written for people. A provider's message is quoted only if it helps and cannot contain a secret.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The `error` object: in HTTP bodies, in `error` events and in failed responses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What went wrong and what to do about it.
    pub message: String,
    /// The class of the error, such as `invalid_request_error`.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// Path of the offending parameter, such as `input[2].content[0].image_url`.
    pub param: Option<String>,
    /// Stable machine-readable code.
    pub code: Option<Cow<'static, str>>,
}

/// An error with which a request is answered, and its HTTP status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status, 400 to 599.
    pub status: u16,
    /// What is sent as `{"error": …}`.
    pub body: ErrorBody,
    /// Sent as `Retry-After`, in whole seconds.
    pub retry_after: Option<Duration>,
    /// Overrides the SDKs' own decision by `x-should-retry`.
    pub should_retry: Option<bool>,
}

impl ApiError {
    /// An error with an explicit status and class.
    pub fn new(
        status: u16,
        kind: &'static str,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            status,
            body: ErrorBody {
                message: message.into(),
                kind: kind.into(),
                param: None,
                code: Some(code.into()),
            },
            retry_after: None,
            should_retry: None,
        }
    }

    /// 400 `invalid_request_error`: the request is wrong.
    pub fn invalid(code: &'static str, param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", code, message).with_param(param)
    }

    /// 400 for a part of the API that this gateway does not support.
    pub fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid("unsupported_parameter", param, message)
    }

    /// 404: no such object, or none that the caller may see.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(404, "invalid_request_error", "not_found", message)
    }

    /// 500: a bug or failure of the gateway; details are logged, not sent.
    pub fn internal() -> Self {
        Self::new(
            500,
            "server_error",
            "internal_error",
            "The gateway failed to process the request. The x-request-id of this response names it in the logs.",
        )
    }

    /// The same error, naming the parameter at fault.
    #[must_use]
    pub fn with_param(mut self, param: impl Into<String>) -> Self {
        self.body.param = Some(param.into());
        self
    }

    /// The same error, telling the client how long to wait.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The stable code, or `""`.
    pub fn code(&self) -> &str {
        self.body.code.as_deref().unwrap_or_default()
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.status, self.code(), self.body.message)
    }
}

impl std::error::Error for ApiError {}
