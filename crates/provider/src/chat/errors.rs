//! Errors of translating to and from chat completions.

use crate::{ProviderError, ProviderErrorKind};

/// The error for something that the provider does not support.
pub(super) fn unsupported(param: &'static str, message: &str) -> ProviderError {
    ProviderError::new(ProviderErrorKind::Unsupported { param }, message)
}

/// The error for data that must be buffered and exceeds the limit.
pub(super) fn limit_exceeded(what: &str, limit: usize) -> ProviderError {
    ProviderError::new(
        ProviderErrorKind::Malformed,
        format!("The model provider sent more than {limit} bytes {what}."),
    )
}
