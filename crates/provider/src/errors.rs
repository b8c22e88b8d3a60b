//! Errors of providers, and their mapping to API errors.
//!
//! One table: statuses that the client can act on are kept (400, 404, 422, 429), all others become 502, 503 or 504. An
//! upstream 401 concerns the gateway's own credentials and becomes 502.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use antwort_config::ProviderSettings;
use antwort_net::causes::{self, ConnectFailure, FailureCause};
use antwort_net::client::ProxyError;
use antwort_protocol::error::{ApiError, ErrorBody, ErrorKind};

/// A failed call of a provider.
///
/// `Display` and `Debug` are for logs: both print [`Self::for_log`].
#[derive(Clone, thiserror::Error)]
#[error("{}", self.for_log())]
pub struct ProviderError {
    /// What went wrong: the API error follows from it.
    pub kind: ProviderErrorKind,
    /// A message for the client: without URLs, headers and keys.
    pub message: String,
    /// The provider's `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The provider's `error.code` or `error.type`, if it is a string.
    pub code: Option<String>,
    /// The call was retried before it failed.
    pub retried: bool,
    /// The cause, for the log only.
    pub cause: Option<Box<FailureCause>>,
}

/// The cause of a failed connection, from the error of an HTTP client. `is_connect`: it was not established.
pub(super) fn transport_cause(error: &dyn Error, is_connect: bool, is_timeout: bool) -> Box<FailureCause> {
    let kind = if is_connect { ConnectFailure::from_error(error).kind() } else { "cut" };
    let mut text = causes::chain(error);
    if is_connect && is_timeout {
        text.push_str(" (timeouts.connect)");
    }
    Box::new(FailureCause::new(kind, text))
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderErrorKind {
    /// The connection failed.
    Connect,
    /// The connection was not established in time.
    ConnectTimeout,
    /// The proxy failed; nothing was sent to the provider.
    Proxy(ProxyError),
    /// No response headers, or no first byte of the body, in time.
    FirstByteTimeout,
    /// No further chunk in time.
    IdleTimeout,
    /// The call as a whole exceeded its timeout.
    TotalTimeout,
    /// An error status, 400 to 599, of the response or reported within a 200 response.
    Status(u16),
    /// The prompt exceeds the model's context window.
    ContextLength,
    /// The provider reported an error without a status within a 200 response.
    Reported,
    /// The connection ended before the answer did.
    Cut,
    /// A reused connection ended before the response began: the server may have closed it while it was idle.
    Stale,
    /// The response is a redirect, which is not followed.
    Redirect,
    /// The response violates the protocol.
    Malformed,
    /// The request holds something that this provider does not support; nothing was sent.
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
    /// The text for logs: without the provider's own message, which may quote the conversation.
    pub fn for_log(&self) -> String {
        match self.kind {
            ProviderErrorKind::Status(_) | ProviderErrorKind::Reported | ProviderErrorKind::ContextLength => {
                format!("{:?}", self.kind)
            }
            kind => format!("{kind:?}: {}", self.message),
        }
    }

    /// An error without details.
    pub fn new(kind: ProviderErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, code: None, retried: false, cause: None }
    }

    /// The kind in logs and metrics, from a fixed set.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self.kind {
            ProviderErrorKind::Connect => self.cause.as_ref().map_or("connect", |cause| cause.kind),
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
            ProviderErrorKind::Cut | ProviderErrorKind::Stale => "cut",
            ProviderErrorKind::Proxy(_) => "proxy",
            ProviderErrorKind::Malformed | ProviderErrorKind::Redirect => "malformed",
            ProviderErrorKind::Unsupported { .. } => "unsupported",
        }
    }

    /// Whether the request is at fault rather than the provider, so that it is no warning for operators.
    pub fn is_about_request(&self) -> bool {
        matches!(
            self.kind,
            ProviderErrorKind::Status(400 | 404 | 413 | 415 | 422)
                | ProviderErrorKind::ContextLength
                | ProviderErrorKind::Unsupported { .. }
        )
    }

    /// Whether the server has not even the path that was asked for: the URL of the configuration is wrong.
    pub(crate) fn is_unknown_path(&self) -> bool {
        self.kind == ProviderErrorKind::Status(404) && is_unknown_path(&self.message, self.code.as_deref())
    }

    /// The cause, for the log.
    pub fn cause_for_log(&self) -> Option<&str> {
        match (&self.cause, self.kind) {
            (Some(cause), _) => Some(&cause.text),
            // The gateway's own message about an invalid answer.
            (None, ProviderErrorKind::Malformed | ProviderErrorKind::Redirect | ProviderErrorKind::Cut) => {
                Some(&self.message)
            }
            (None, _) => None,
        }
    }

    /// Recognises overflows of the context in the words that the configuration has for them. What an operator has seen a
    /// server say counts whatever else the words are used for, but never in an error about credentials or rates.
    pub(super) fn apply_patterns(&mut self, settings: &ProviderSettings) {
        let patterns = &settings.errors.context_overflow;
        let may_be = self.is_reported() && !matches!(self.upstream_status(), Some(401 | 403 | 429));
        if may_be && patterns.iter().any(|pattern| pattern.is_match(&self.message)) {
            self.kind = ProviderErrorKind::ContextLength;
        }
    }

    /// Whether it is an error that the provider has told.
    pub(super) fn is_reported(&self) -> bool {
        matches!(
            self.kind,
            ProviderErrorKind::Status(_) | ProviderErrorKind::ContextLength | ProviderErrorKind::Reported
        )
    }

    /// The provider's HTTP status.
    pub fn upstream_status(&self) -> Option<u16> {
        match self.kind {
            ProviderErrorKind::Status(status) => Some(status),
            _ => None,
        }
    }

    /// The failure of a proxy on the way to the provider, with its own text as the message.
    pub(crate) fn from_proxy(error: ProxyError) -> Self {
        Self::new(ProviderErrorKind::Proxy(error), error.to_string())
    }

    /// Whether the provider answered at all, even with an error.
    pub fn is_upstream_response(&self) -> bool {
        matches!(
            self.kind,
            ProviderErrorKind::Status(_)
                | ProviderErrorKind::ContextLength
                | ProviderErrorKind::Reported
                | ProviderErrorKind::Redirect
                | ProviderErrorKind::Malformed
        )
    }

    /// The `error` object of a response that fails after its stream has begun.
    pub fn into_body(self) -> ErrorBody {
        ApiError::from(self).body
    }
}

/// The HTTP error for the client, if its response has not begun.
impl From<ProviderError> for ApiError {
    fn from(error: ProviderError) -> Self {
        let ours = |kind, code: &'static str, message: &str| Self::new(kind, message).with_code(code);
        let ProviderError { kind, message, retry_after, code, retried, cause: _ } = error;
        let mut api_error = match kind {
            ProviderErrorKind::Connect => ours(
                ErrorKind::UpstreamError,
                "upstream_unreachable",
                "The model provider cannot be reached.",
            ),
            ProviderErrorKind::ConnectTimeout => ours(
                ErrorKind::UpstreamTimeout,
                "upstream_connect_timeout",
                "The model provider did not accept a connection in time.",
            ),
            ProviderErrorKind::Proxy(error) => ours(
                ErrorKind::UpstreamError,
                "upstream_proxy_error",
                &format!("The model provider cannot be reached: {error}."),
            ),
            ProviderErrorKind::FirstByteTimeout => ours(
                ErrorKind::UpstreamTimeout,
                "upstream_first_byte_timeout",
                "The model provider did not begin to answer in time.",
            ),
            ProviderErrorKind::IdleTimeout => ours(
                ErrorKind::UpstreamTimeout,
                "upstream_idle_timeout",
                "The model provider stopped sending before its answer was complete (idle timeout).",
            ),
            ProviderErrorKind::TotalTimeout => ours(
                ErrorKind::UpstreamTimeout,
                "upstream_total_timeout",
                "The model provider took too long to complete its answer.",
            ),
            ProviderErrorKind::Cut | ProviderErrorKind::Stale => ours(
                ErrorKind::UpstreamError,
                "upstream_disconnected",
                "The model provider closed the connection before its answer was complete.",
            ),
            ProviderErrorKind::Malformed => ours(ErrorKind::UpstreamError, "upstream_malformed", &message),
            ProviderErrorKind::Redirect => {
                ours(ErrorKind::UpstreamError, "upstream_malformed", &message).without_retry()
            }
            ProviderErrorKind::Reported => ours(ErrorKind::UpstreamError, "upstream_error", &message),
            ProviderErrorKind::Status(status) => by_status(status, message, code),
            ProviderErrorKind::ContextLength => {
                Self::invalid("context_length_exceeded", "input", message).without_retry()
            }
            ProviderErrorKind::Unsupported { param } => Self::unsupported(param, message),
        };
        api_error.retry_after = retry_after;
        if retried {
            // SDKs retry on their own: without this, their retries and the gateway's would multiply.
            api_error.should_retry = Some(false);
        }
        api_error
    }
}

/// The API error for a status of the provider.
fn by_status(status: u16, message: String, code: Option<String>) -> ApiError {
    let kind = match status {
        400 => ErrorKind::InvalidRequest,
        413 => ErrorKind::RequestTooLarge,
        415 => ErrorKind::UnsupportedMediaType,
        422 => ErrorKind::UnprocessableRequest,
        // These concern the gateway's credentials; passed on, SDKs would blame the client's own key.
        402 => {
            let message =
                "The model provider wants to be paid; the operator of the gateway must settle the account.";
            let unpaid = ApiError::new(ErrorKind::UpstreamError, message);
            return unpaid.with_code("upstream_billing_error").without_retry();
        }
        401 | 403 | 407 => {
            let message = "The model provider refused the gateway's credentials; the operator of the gateway must correct them.";
            let refused = ApiError::new(ErrorKind::UpstreamError, message);
            return refused.with_code("upstream_auth_error").without_retry();
        }
        404 if is_unknown_path(&message, code.as_deref()) => {
            let message = "The model provider does not serve the path that it was asked for; the operator of the gateway must correct \
                           its URL, which mostly ends with '/v1'.";
            let misplaced = ApiError::new(ErrorKind::UpstreamError, message);
            return misplaced.with_code("upstream_unknown_path").without_retry();
        }
        404 => {
            let missing = ApiError::new(ErrorKind::NotFound, message);
            return missing.with_code("model_not_found").with_param("model");
        }
        429 => {
            let quota_exhausted = code.as_deref() == Some("insufficient_quota");
            let mut api_error = with_provider_code(ApiError::new(ErrorKind::RateLimited, message), code);
            // Waiting does not restore an exhausted quota.
            api_error.should_retry = quota_exhausted.then_some(false);
            return api_error;
        }
        503 | 529 => return ApiError::new(ErrorKind::UpstreamUnavailable, message),
        408 | 504 => return ApiError::new(ErrorKind::UpstreamTimeout, message),
        _ => return ApiError::new(ErrorKind::UpstreamError, message),
    };
    with_provider_code(ApiError::new(kind, message).with_code("upstream_rejected_request"), code)
}

/// How the message begins of a 404 without any, such as a web page.
const WITHOUT_WORDS: &str = "the model provider answered with status 404 without";

/// For the log, which has the URL beside it.
pub(super) const UNKNOWN_PATH: &str =
    "the server does not know this path: the provider's url mostly ends with /v1";

/// What servers say of a path that they do not have, as their frameworks word it: those of Python, Go, and Node, Azure's, and
/// llama.cpp. That a model is missing they say in a sentence of their own.
fn is_unknown_path(message: &str, code: Option<&str>) -> bool {
    if code.is_some_and(|code| code.to_ascii_lowercase().contains("model")) {
        return false;
    }
    let message = message.trim().trim_end_matches('.').to_ascii_lowercase();
    let whole = ["not found", "404 page not found", "page not found", "file not found", "resource not found"];
    let names_path = message.contains("/chat/completions") && !message.contains("model");
    whole.contains(&message.as_str()) || names_path || message.starts_with(WITHOUT_WORDS)
}

fn with_provider_code(error: ApiError, code: Option<String>) -> ApiError {
    match code {
        Some(code) => error.with_code(code),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antwort_config::ErrorPattern;

    fn api_error(kind: ProviderErrorKind) -> (u16, String) {
        let error = ApiError::from(ProviderError::new(kind, "words"));
        (error.kind.status(), error.code().to_owned())
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
            (ProviderErrorKind::Stale, 502, "upstream_disconnected"),
            (ProviderErrorKind::Malformed, 502, "upstream_malformed"),
            (ProviderErrorKind::Reported, 502, "upstream_error"),
            (ProviderErrorKind::ContextLength, 400, "context_length_exceeded"),
            (ProviderErrorKind::Unsupported { param: "input" }, 400, "unsupported_parameter"),
            (ProviderErrorKind::Status(400), 400, "upstream_rejected_request"),
            (ProviderErrorKind::Status(401), 502, "upstream_auth_error"),
            (ProviderErrorKind::Status(402), 502, "upstream_billing_error"),
            (ProviderErrorKind::Status(403), 502, "upstream_auth_error"),
            (ProviderErrorKind::Redirect, 502, "upstream_malformed"),
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
            assert_eq!(api_error(kind), (status, code.to_owned()), "{kind:?}");
        }
    }

    /// A URL without `/v1` was told to clients as a model that does not exist.
    #[test]
    fn a_path_that_a_server_does_not_have_is_no_missing_model() {
        let told = |message: &str| ProviderError::new(ProviderErrorKind::Status(404), message);
        for message in [
            "404 page not found",
            "Not Found",
            "File Not Found",
            "Resource not found.",
            "Cannot POST /chat/completions",
            "Invalid URL (POST /chat/completions)",
            "no route /chat/completions",
            "The model provider answered with status 404 without an error message.",
        ] {
            let error = told(message);
            assert!(error.is_unknown_path(), "{message}");
            let named = ProviderError { code: Some("model_not_found".to_owned()), ..error.clone() };
            assert_eq!(ApiError::from(named).code(), "model_not_found", "{message}");
            let error = ApiError::from(error);
            assert_eq!((error.kind.status(), error.code()), (502, "upstream_unknown_path"), "{message}");
        }
        for message in [
            "model 'x' not found, try pulling it first",
            "The model `x` does not exist.",
            "No endpoints found for x.",
            "This is not a chat model and thus not supported in the v1/chat/completions endpoint.",
        ] {
            let error = told(message);
            assert!(!error.is_unknown_path(), "{message}");
            assert_eq!(ApiError::from(error).code(), "model_not_found", "{message}");
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
    fn the_operators_words_for_an_overflow_count_but_for_credentials_and_rates() {
        let mut settings = ProviderSettings::default();
        settings.errors.context_overflow =
            vec![ErrorPattern::new("quota of pages|rate limit of pages").unwrap()];
        let kind = |kind, message: &str| {
            let mut error = ProviderError::new(kind, message);
            error.apply_patterns(&settings);
            error.kind
        };
        for message in ["Quota of pages is used up", "rate limit of pages"] {
            for status in [400, 402, 404, 413, 500] {
                let found = kind(ProviderErrorKind::Status(status), message);
                assert_eq!(found, ProviderErrorKind::ContextLength, "{status}");
            }
            assert_eq!(kind(ProviderErrorKind::Reported, message), ProviderErrorKind::ContextLength);
            for other in [401, 403, 429].map(ProviderErrorKind::Status) {
                assert_eq!(kind(other, message), other);
            }
            assert_eq!(kind(ProviderErrorKind::Cut, message), ProviderErrorKind::Cut);
        }
        let other = ProviderErrorKind::Status(400);
        assert_eq!(kind(other, "something else"), other);
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
    fn what_only_the_operator_or_another_prompt_can_mend_is_not_to_be_tried_again() {
        for kind in [
            ProviderErrorKind::Redirect,
            ProviderErrorKind::Status(401),
            ProviderErrorKind::Status(402),
            ProviderErrorKind::Status(403),
            ProviderErrorKind::ContextLength,
        ] {
            let told = ApiError::from(ProviderError::new(kind, "words"));
            assert_eq!(told.should_retry, Some(false), "{kind:?}");
        }
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
