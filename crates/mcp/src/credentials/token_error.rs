//! Why there is no token.

use crate::error::{FailureReason, McpError};
use antwort_net::FailureCause;
use antwort_net::egress::EgressError;

/// Why there is no token. Contains no secrets and, but for an error code, no text of remote servers.
#[derive(Debug, Clone)]
pub(super) enum TokenError {
    /// The request was refused, or the response has no valid token.
    Refused(String),
    /// Egress policy forbids the request.
    Forbidden(EgressError),
    /// The server did not answer.
    Unreachable(FailureReason),
}

impl TokenError {
    pub(super) fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }

    /// The error of a request to `service`. The tool call that needs the token was not made, so it may be retried.
    pub(super) fn from_egress(service: &str, error: EgressError) -> Self {
        // A forbidden host name is reported like one that does not exist, so that names cannot be probed.
        if error.is_refusal() && !matches!(error, EgressError::NameNotAllowed { .. }) {
            Self::Forbidden(error)
        } else {
            let message = format!("{service}: {error}");
            Self::Unreachable(match FailureCause::find_in(&error) {
                Some(cause) => FailureReason::new(message, cause.clone()),
                None => message.into(),
            })
        }
    }
}

impl From<TokenError> for McpError {
    fn from(failure: TokenError) -> Self {
        match failure {
            TokenError::Refused(why) => Self::unauthorized(format!(": {why}")),
            TokenError::Forbidden(error) => Self::Egress(error),
            TokenError::Unreachable(why) => Self::Connect(why),
        }
    }
}
