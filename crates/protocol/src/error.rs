//! Errors as clients see them: the kind of error, the body of the API with its four keys, and when to retry.
//!
//! An error has no HTTP status here: [`ErrorKind`] has the table from which a transport takes it.
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

/// Declares the kinds of errors with their rows of the table.
macro_rules! error_kinds {
    ($($(#[$doc:meta])* $kind:ident => ($status:literal, $type:literal, $code:literal),)*) => {
        /// What kind of error it is, for every transport.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ErrorKind {
            $($(#[$doc])* $kind,)*
        }

        impl ErrorKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// The HTTP status, the `type`, and the `code` of errors that have no code of their own.
            const fn row(self) -> (u16, &'static str, &'static str) {
                match self {
                    $(Self::$kind => ($status, $type, $code),)*
                }
            }
        }
    };
}

error_kinds! {
    /// The request is wrong.
    InvalidRequest => (400, "invalid_request_error", "invalid_value"),
    /// The caller is not known.
    Unauthenticated => (401, "invalid_request_error", "invalid_api_key"),
    /// The caller is known and may not do this.
    PermissionDenied => (403, "permission_error", "insufficient_scope"),
    /// There is no such object, or none that the caller may see.
    NotFound => (404, "invalid_request_error", "not_found"),
    /// The object exists and does not have this operation.
    MethodNotAllowed => (405, "invalid_request_error", "method_not_allowed"),
    /// The request did not arrive in time.
    RequestTimeout => (408, "timeout", "request_timeout"),
    /// The object is in use by another request, or the request contradicts an earlier one.
    Conflict => (409, "conflict", "conflict"),
    /// What is asked for was there, and is kept no more.
    Gone => (410, "invalid_request_error", "gone"),
    /// The request is larger than is read.
    RequestTooLarge => (413, "invalid_request_error", "request_too_large"),
    /// The request is in a format that is not read.
    UnsupportedMediaType => (415, "invalid_request_error", "unsupported_media_type"),
    /// The provider could read the request and refused it.
    UnprocessableRequest => (422, "invalid_request_error", "upstream_rejected_request"),
    /// An MCP server that the request needs failed.
    ConnectorUnavailable => (424, "external_connector_error", "mcp_server_unavailable"),
    /// A protocol that the connection cannot be switched to.
    UpgradeNotServed => (426, "invalid_request_error", "websocket_not_served"),
    /// The provider's rate limit or quota is reached.
    RateLimited => (429, "rate_limit_error", "rate_limit_exceeded"),
    /// A bug or failure of the gateway.
    Internal => (500, "server_error", "internal_error"),
    /// The model did not do what the request demands.
    ModelError => (500, "model_error", "model_error"),
    /// The provider failed.
    UpstreamError => (502, "server_error", "upstream_error"),
    /// The model wrote no summary.
    CompactionFailed => (502, "model_error", "compaction_failed"),
    /// The provider has no capacity.
    UpstreamUnavailable => (503, "server_error", "upstream_unavailable"),
    /// A shutdown ended what was begun.
    Aborted => (503, "server_error", "server_shutting_down"),
    /// The gateway takes nothing more for now.
    Unavailable => (503, "service_unavailable_error", "server_is_overloaded"),
    /// The provider took too long.
    UpstreamTimeout => (504, "server_error", "upstream_timeout"),
}

impl ErrorKind {
    /// The HTTP status of an answer that is this error, 400 to 599.
    pub const fn status(self) -> u16 {
        self.row().0
    }

    /// The `type` of the error object.
    pub(crate) const fn type_name(self) -> &'static str {
        self.row().1
    }

    /// The `code`, unless the error has one of its own.
    pub const fn default_code(self) -> &'static str {
        self.row().2
    }
}

/// An error with which a request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// The kind, from which transports take the status.
    pub kind: ErrorKind,
    /// What is sent as `{"error": …}`.
    pub body: ErrorBody,
    /// Sent as `Retry-After`, in whole seconds.
    pub retry_after: Option<Duration>,
    /// Overrides the SDKs' own decision by `x-should-retry`.
    pub should_retry: Option<bool>,
}

impl ApiError {
    /// An error with the default code of its kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            body: ErrorBody {
                message: message.into(),
                kind: kind.type_name().into(),
                param: None,
                code: Some(kind.default_code().into()),
            },
            retry_after: None,
            should_retry: None,
        }
    }

    /// The same error with another code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<Cow<'static, str>>) -> Self {
        self.body.code = Some(code.into());
        self
    }

    /// The same error, which the client should not try again.
    #[must_use]
    pub fn without_retry(self) -> Self {
        Self { should_retry: Some(false), ..self }
    }

    /// 400 `invalid_request_error`: the request is wrong.
    pub fn invalid(code: &'static str, param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidRequest, message).with_code(code).with_param(param)
    }

    /// 400 for a part of the API that this gateway does not support.
    pub fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid("unsupported_parameter", param, message)
    }

    /// 404: no such object, or none that the caller may see.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// 500: a bug or failure of the gateway; details are logged, not sent.
    pub fn internal() -> Self {
        Self::new(
            ErrorKind::Internal,
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
        write!(f, "{} {}: {}", self.kind.status(), self.code(), self.body.message)
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_row_of_the_api_and_errors_are_made_from_it() {
        const TYPES: &[&str] = &[
            "conflict",
            "external_connector_error",
            "invalid_request_error",
            "model_error",
            "permission_error",
            "rate_limit_error",
            "server_error",
            "service_unavailable_error",
            "timeout",
        ];
        for kind in ErrorKind::ALL {
            let error = ApiError::new(*kind, "words");
            assert!((400..600).contains(&kind.status()), "{kind:?}");
            assert!(TYPES.contains(&kind.type_name()), "{kind:?}");
            assert_eq!((&*error.body.kind, error.code()), (kind.type_name(), kind.default_code()));
            assert_eq!(error.to_string(), format!("{} {}: words", kind.status(), kind.default_code()));
            let same = ErrorKind::ALL.iter().filter(|other| other.row() == kind.row());
            assert_eq!(same.count(), 1, "{kind:?} is there twice");
        }
        assert_eq!(
            ApiError::new(ErrorKind::NotFound, "").with_code("model_not_found").code(),
            "model_not_found"
        );
    }
}
