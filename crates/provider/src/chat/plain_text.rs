//! Text that a stream has in place of a chunk: often why the server fails.

use crate::errors::ProviderError;
use crate::upstream_error::UpstreamError;

/// Bytes of a text that are kept: more than a client is shown of a message.
const MAX_BYTES: usize = 4096;

/// What makes a text read like an error, in lower case.
const ERROR_WORDS: &[&str] = &[
    "error",
    "fail",
    "timed out",
    "timeout",
    "exception",
    "out of memory",
    "unavailable",
    "overloaded",
    "abort",
    "refused",
    "denied",
    "internal",
];

/// A text that may be an error message. One that reads like an error counts unless the model has finished. Servers also send
/// words of no importance: these count only where there is no answer at all.
#[derive(Debug)]
pub(super) struct PlainText {
    text: String,
    is_error: bool,
}

impl PlainText {
    /// `None` for words such as `ping`, for other JSON values and for web pages.
    pub(super) fn read(data: &str) -> Option<Self> {
        if data.starts_with(['<', '[', '{']) {
            return None;
        }
        let text: String = data.chars().take(MAX_BYTES / 4).collect();
        let lower = text.to_ascii_lowercase();
        let is_error = ERROR_WORDS.iter().any(|words| lower.contains(*words));
        let is_message = is_error || text.contains(char::is_whitespace);
        is_message.then_some(Self { text, is_error })
    }

    /// Whether it reads like an error.
    pub(super) fn is_error(&self) -> bool {
        self.is_error
    }

    pub(super) fn to_error(&self) -> ProviderError {
        UpstreamError::parse(&self.text).into_error(None, None)
    }
}

/// The error of a body that is no chat completion: in a list, or as plain text.
pub(super) fn told_in_place_of(body: &str) -> Option<ProviderError> {
    let body = body.trim();
    if body.starts_with('[') {
        let listed = UpstreamError::parse(body);
        return (!listed.is_empty()).then(|| listed.into_error(None, None));
    }
    PlainText::read(body).map(|text| text.to_error())
}
