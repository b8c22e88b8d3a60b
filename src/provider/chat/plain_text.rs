//! Text that a stream has in place of a chunk: often why the server fails.

use crate::provider::errors::ProviderError;
use crate::provider::upstream_error::UpstreamError;

/// Bytes of a text that are kept: more than a client is shown of a message.
const MAX_BYTES: usize = 4096;

/// A text that may be an error message. It counts only if the answer does not end as it should: servers also send words of
/// no importance.
#[derive(Debug)]
pub(super) struct PlainText(String);

impl PlainText {
    /// `None` for words such as `ping`, for other JSON values and for web pages.
    pub(super) fn read(data: &str) -> Option<Self> {
        let has_words = data.contains(char::is_whitespace) || data.to_ascii_lowercase().contains("error");
        let is_message = has_words && !data.starts_with(['<', '[', '{']);
        is_message.then(|| Self(data.chars().take(MAX_BYTES / 4).collect()))
    }

    pub(super) fn to_error(&self) -> ProviderError {
        UpstreamError::parse(&self.0).into_error(None, None)
    }
}
