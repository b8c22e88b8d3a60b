//! Failures of a connection, of either HTTP client.

use std::time::Duration;

use crate::net::http1::Http1Error;
use crate::provider::errors::{http1_cause, transport_cause};
use crate::provider::{ProviderError, ProviderErrorKind};

/// A failure of the connection. The library's own text is not passed on, as it may contain the URL.
pub(super) fn transport_error(error: &reqwest::Error) -> ProviderError {
    let kind = match (error.is_connect(), error.is_timeout()) {
        (true, true) => ProviderErrorKind::ConnectTimeout,
        (true, false) => ProviderErrorKind::Connect,
        (false, true) => ProviderErrorKind::FirstByteTimeout,
        (false, false) => ProviderErrorKind::Cut,
    };
    ProviderError { cause: Some(transport_cause(error)), ..ProviderError::new(kind, "the connection failed") }
}

/// The same, of the lean client.
pub(super) fn http1_error(error: &Http1Error) -> ProviderError {
    let kind = match (error.is_connect_timeout(), error.is_connect()) {
        (true, _) => ProviderErrorKind::ConnectTimeout,
        (false, true) => ProviderErrorKind::Connect,
        (false, false) => ProviderErrorKind::Cut,
    };
    ProviderError {
        cause: Some(http1_cause(error)),
        // A server that closed an idle connection is not in trouble: a retry need not wait.
        retry_after: error.is_stale().then_some(Duration::ZERO),
        ..ProviderError::new(kind, "the connection failed")
    }
}
