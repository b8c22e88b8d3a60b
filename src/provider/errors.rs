//! What can go wrong with a provider, and what clients are told of it.
//!
//! One table holds it all: the status class is kept where the client can act on it (400, 404, 422, 429),
//! and turned into 502, 503 or 504 where it cannot. The gateway's own credentials are never the client's
//! business: an upstream 401 is our 502.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::net::causes::{self, ConnectFailure};
use crate::net::client::ProxyError;
use crate::protocol::error::{ApiError, ErrorBody};

/// Why a provider did not answer, or not to the end.
///
/// Its `Display` and `Debug` are for logs: they say neither more nor less than [`Self::for_log`].
#[derive(Clone, thiserror::Error)]
#[error("{}", self.for_log())]
pub struct ProviderError {
    /// What happened.
    pub kind: ProviderErrorKind,
    /// In words fit for the client: no URL, no header, no key.
    pub message: String,
    /// What the provider asked for by `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The provider's own `error.code` or `error.type`, where it gave one as a string.
    pub code: Option<String>,
    /// The call was made more than once before this was given up.
    pub retried: bool,
    /// For the log alone: why, where more is known than what kind of failure it is.
    pub cause: Option<Box<TransportCause>>,
}

/// Why a connection failed, for the log: it may name what clients are not told of.
#[derive(Clone)]
pub struct TransportCause {
    /// Of a connection that could not be made: what kind.
    kind: Option<&'static str>,
    /// The causes, or the time limit that was over.
    text: Arc<str>,
}

impl TransportCause {
    /// Of an error of the HTTP library.
    pub(super) fn from_reqwest(error: &reqwest::Error) -> Box<Self> {
        let kind = error.is_connect().then(|| ConnectFailure::from_reqwest(error).kind());
        let mut text = causes::chain(error);
        if error.is_connect() && error.is_timeout() {
            text.push_str(" (timeouts.connect)");
        }
        Box::new(Self { kind, text: text.into() })
    }

    /// A time limit, by the name of its setting.
    pub(super) fn from_timeout(setting: &'static str, after: Duration) -> Box<Self> {
        Box::new(Self { kind: None, text: format!("{setting}, {} s", after.as_secs_f64()).into() })
    }
}

/// What happened to an upstream call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderErrorKind {
    /// No connection could be made.
    Connect,
    /// No connection was made in time.
    ConnectTimeout,
    /// The proxy on the way to the provider failed; nothing was sent to the provider.
    Proxy(ProxyError),
    /// No response headers, or no first byte of the body, in time.
    FirstByteTimeout,
    /// A gap between two chunks was too long.
    IdleTimeout,
    /// The call as a whole took too long.
    TotalTimeout,
    /// The provider answered with this status, 400 to 599, or said within a 200 answer that it would have.
    Status(u16),
    /// The prompt does not fit into the model's context.
    ContextLength,
    /// The provider said within a 200 answer that it failed.
    Reported,
    /// The connection ended before the answer did.
    Cut,
    /// The answer is not what the protocol allows.
    Malformed,
    /// The request holds something that cannot be said to this provider; nothing was sent.
    Unsupported {
        /// The request parameter at fault.
        param: &'static str,
    },
}

impl fmt::Debug for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.for_log())
    }
}

impl ProviderError {
    /// For the log: the provider's own words may quote what was said, and stay with the client.
    pub fn for_log(&self) -> String {
        match self.kind {
            ProviderErrorKind::Status(_) | ProviderErrorKind::Reported | ProviderErrorKind::ContextLength => {
                format!("{:?}", self.kind)
            }
            kind => format!("{kind:?}: {}", self.message),
        }
    }

    /// A failure without particulars.
    pub fn new(kind: ProviderErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, code: None, retried: false, cause: None }
    }

    /// Names the kind of failure in logs and metrics: one of few words.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            ProviderErrorKind::Connect => {
                self.cause.as_ref().and_then(|cause| cause.kind).unwrap_or("connect")
            }
            ProviderErrorKind::ConnectTimeout => "connect_timeout",
            ProviderErrorKind::FirstByteTimeout => "first_byte_timeout",
            ProviderErrorKind::IdleTimeout => "idle_timeout",
            ProviderErrorKind::TotalTimeout => "total_timeout",
            ProviderErrorKind::Status(401..=403 | 407) => "credentials",
            ProviderErrorKind::Status(429) => "rate_limit",
            ProviderErrorKind::Status(..500) => "status_4xx",
            ProviderErrorKind::Status(_) => "status_5xx",
            ProviderErrorKind::ContextLength => "context_length",
            ProviderErrorKind::Reported => "reported",
            ProviderErrorKind::Cut => "cut",
            ProviderErrorKind::Proxy(_) => "proxy",
            ProviderErrorKind::Malformed => "malformed",
            ProviderErrorKind::Unsupported { .. } => "unsupported",
        }
    }

    /// Whether it is about the request rather than the provider: operators need not be warned of it.
    pub fn is_about_request(&self) -> bool {
        matches!(
            self.kind,
            ProviderErrorKind::Status(400 | 404 | 413 | 415 | 422)
                | ProviderErrorKind::ContextLength
                | ProviderErrorKind::Unsupported { .. }
        )
    }

    /// Why, for the log.
    pub fn cause_for_log(&self) -> Option<&str> {
        match (&self.cause, self.kind) {
            (Some(cause), _) => Some(&cause.text),
            // Our own words, of what cannot be read.
            (None, ProviderErrorKind::Malformed | ProviderErrorKind::Cut) => Some(&self.message),
            (None, _) => None,
        }
    }

    /// The status that the provider answered with.
    pub fn upstream_status(&self) -> Option<u16> {
        match self.kind {
            ProviderErrorKind::Status(status) => Some(status),
            _ => None,
        }
    }

    /// A failure of the proxy on the way.
    pub fn from_proxy(error: ProxyError) -> Self {
        Self::new(ProviderErrorKind::Proxy(error), error.to_string())
    }

    /// Whether the provider answered at all, if only to refuse.
    pub fn is_upstream_response(&self) -> bool {
        matches!(
            self.kind,
            ProviderErrorKind::Status(_)
                | ProviderErrorKind::ContextLength
                | ProviderErrorKind::Reported
                | ProviderErrorKind::Malformed
        )
    }

    /// The `error` object of a response that fails when its stream has begun.
    pub fn into_body(self) -> ErrorBody {
        ApiError::from(self).body
    }
}

/// What the client is told when nothing was sent to it yet.
impl From<ProviderError> for ApiError {
    fn from(error: ProviderError) -> Self {
        let ours =
            |status, code: &'static str, message: &str| Self::new(status, "server_error", code, message);
        let ProviderError { kind, message, retry_after, code, retried, cause: _ } = error;
        let mut told = match kind {
            ProviderErrorKind::Connect => {
                ours(502, "upstream_unreachable", "The model provider cannot be reached.")
            }
            ProviderErrorKind::ConnectTimeout => ours(
                504,
                "upstream_connect_timeout",
                "The model provider did not accept a connection in time.",
            ),
            ProviderErrorKind::Proxy(error) => {
                ours(502, "upstream_proxy_error", &format!("The model provider cannot be reached: {error}."))
            }
            ProviderErrorKind::FirstByteTimeout => ours(
                504,
                "upstream_first_byte_timeout",
                "The model provider did not begin to answer in time.",
            ),
            ProviderErrorKind::IdleTimeout => {
                ours(504, "upstream_idle_timeout", "The model provider stopped in the middle of its answer.")
            }
            ProviderErrorKind::TotalTimeout => ours(
                504,
                "upstream_total_timeout",
                "The model provider took too long to complete its answer.",
            ),
            ProviderErrorKind::Cut => ours(
                502,
                "upstream_disconnected",
                "The model provider broke off in the middle of its answer.",
            ),
            ProviderErrorKind::Malformed => ours(502, "upstream_malformed", &message),
            ProviderErrorKind::Reported => ours(502, "upstream_error", &message),
            ProviderErrorKind::Status(status) => by_status(status, message, code),
            ProviderErrorKind::ContextLength => Self::invalid("context_length_exceeded", "input", message),
            ProviderErrorKind::Unsupported { param } => Self::unsupported(param, message),
        };
        told.retry_after = retry_after;
        if retried {
            // SDKs make three tries of their own: without this, each of them would be three of ours.
            told.should_retry = Some(false);
        }
        told
    }
}

/// The client's view of a status that the provider answered with.
fn by_status(status: u16, message: String, code: Option<String>) -> ApiError {
    let ours =
        |status, code: &'static str, message: String| ApiError::new(status, "server_error", code, message);
    match status {
        400 | 413 | 415 | 422 => {
            let code = code.unwrap_or_else(|| "upstream_rejected_request".to_owned());
            ApiError::new(status, "invalid_request_error", code, message)
        }
        // Neither says anything about the client's own key, and SDKs would read them that way.
        401 | 402 | 403 | 407 => ours(
            502,
            "upstream_auth_error",
            "The model provider refused the gateway's credentials. Whoever runs the gateway must look into it."
                .to_owned(),
        ),
        404 => ApiError::new(404, "invalid_request_error", "model_not_found", message).with_param("model"),
        429 => {
            let spent = code.as_deref() == Some("insufficient_quota");
            let code = code.unwrap_or_else(|| "rate_limit_exceeded".to_owned());
            let mut told = ApiError::new(429, "rate_limit_error", code, message);
            // Waiting does not refill an account.
            told.should_retry = spent.then_some(false);
            told
        }
        503 | 529 => ours(503, "upstream_unavailable", message),
        408 | 504 => ours(504, "upstream_timeout", message),
        _ => ours(502, "upstream_error", message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: ProviderErrorKind) -> (u16, String) {
        let told = ApiError::from(ProviderError::new(kind, "words"));
        (told.status, told.code().to_owned())
    }

    #[test]
    fn every_failure_has_its_status_and_code() {
        let rows = [
            (ProviderErrorKind::Connect, 502, "upstream_unreachable"),
            (ProviderErrorKind::ConnectTimeout, 504, "upstream_connect_timeout"),
            (ProviderErrorKind::Proxy(ProxyError::Refused), 502, "upstream_proxy_error"),
            (ProviderErrorKind::FirstByteTimeout, 504, "upstream_first_byte_timeout"),
            (ProviderErrorKind::IdleTimeout, 504, "upstream_idle_timeout"),
            (ProviderErrorKind::TotalTimeout, 504, "upstream_total_timeout"),
            (ProviderErrorKind::Cut, 502, "upstream_disconnected"),
            (ProviderErrorKind::Malformed, 502, "upstream_malformed"),
            (ProviderErrorKind::Reported, 502, "upstream_error"),
            (ProviderErrorKind::ContextLength, 400, "context_length_exceeded"),
            (ProviderErrorKind::Unsupported { param: "input" }, 400, "unsupported_parameter"),
            (ProviderErrorKind::Status(400), 400, "upstream_rejected_request"),
            (ProviderErrorKind::Status(401), 502, "upstream_auth_error"),
            (ProviderErrorKind::Status(403), 502, "upstream_auth_error"),
            (ProviderErrorKind::Status(404), 404, "model_not_found"),
            (ProviderErrorKind::Status(408), 504, "upstream_timeout"),
            (ProviderErrorKind::Status(409), 502, "upstream_error"),
            (ProviderErrorKind::Status(422), 422, "upstream_rejected_request"),
            (ProviderErrorKind::Status(429), 429, "rate_limit_exceeded"),
            (ProviderErrorKind::Status(500), 502, "upstream_error"),
            (ProviderErrorKind::Status(502), 502, "upstream_error"),
            (ProviderErrorKind::Status(503), 503, "upstream_unavailable"),
            (ProviderErrorKind::Status(504), 504, "upstream_timeout"),
            (ProviderErrorKind::Status(529), 503, "upstream_unavailable"),
        ];
        for (kind, status, code) in rows {
            assert_eq!(told(kind), (status, code.to_owned()), "{kind:?}");
        }
    }

    #[test]
    fn no_log_has_a_providers_words() {
        for kind in
            [ProviderErrorKind::Status(400), ProviderErrorKind::Reported, ProviderErrorKind::ContextLength]
        {
            let error = ProviderError::new(kind, "you said INPUTTEXT9");
            let logged = format!("{error} {error:?} {:?} {}", Some(&error), error.for_log());
            assert!(!logged.contains("INPUTTEXT9") && logged.contains(&format!("{kind:?}")), "{logged}");
        }
    }

    #[test]
    fn an_upstream_401_says_nothing_of_what_the_provider_said() {
        let error =
            ProviderError::new(ProviderErrorKind::Status(401), "Incorrect API key provided: sk-secret");
        assert!(!ApiError::from(error).body.message.contains("sk-"));
    }

    #[test]
    fn a_rate_limit_keeps_its_wait_and_its_code() {
        let error = ProviderError {
            retry_after: Some(Duration::from_secs(7)),
            code: Some("insufficient_quota".to_owned()),
            ..ProviderError::new(ProviderErrorKind::Status(429), "words")
        };
        let told = ApiError::from(error);
        assert_eq!((told.code(), told.retry_after), ("insufficient_quota", Some(Duration::from_secs(7))));
        assert_eq!(told.should_retry, Some(false));
    }

    #[test]
    fn what_was_tried_several_times_is_not_to_be_tried_again_by_the_client() {
        for kind in [
            ProviderErrorKind::Status(429),
            ProviderErrorKind::Status(503),
            ProviderErrorKind::Connect,
            ProviderErrorKind::Cut,
        ] {
            let once = ProviderError {
                retry_after: Some(Duration::from_secs(7)),
                ..ProviderError::new(kind, "words")
            };
            let often = ProviderError { retried: true, ..once.clone() };
            let (once, often) = (ApiError::from(once), ApiError::from(often));
            assert_eq!((once.should_retry, often.should_retry), (None, Some(false)), "{kind:?}");
            assert_eq!(often.retry_after, Some(Duration::from_secs(7)), "{kind:?}");
        }
    }
}
