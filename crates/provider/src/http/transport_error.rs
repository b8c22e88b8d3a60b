//! Failures of a connection, of either HTTP client.

use std::error::Error;

use crate::errors::transport_cause;
use crate::{ProviderError, ProviderErrorKind};
use antwort_http1::Http1Error;

/// A failure of the connection. The library's own text is not passed on, as it may contain the URL.
pub(super) fn transport_error(error: &reqwest::Error) -> ProviderError {
    let kind = match (error.is_connect(), error.is_timeout()) {
        (true, true) => ProviderErrorKind::ConnectTimeout,
        (true, false) => ProviderErrorKind::Connect,
        (false, true) => ProviderErrorKind::FirstByteTimeout,
        (false, false) => ProviderErrorKind::Cut,
    };
    with_cause(kind, error)
}

/// The same, of the lean client.
pub(super) fn http1_error(error: &Http1Error) -> ProviderError {
    let kind = match (error.is_connect_timeout(), error.is_connect(), error.is_stale()) {
        (true, ..) => ProviderErrorKind::ConnectTimeout,
        (false, true, _) => ProviderErrorKind::Connect,
        (false, false, true) => ProviderErrorKind::Stale,
        (false, false, false) => ProviderErrorKind::Cut,
    };
    with_cause(kind, error)
}

fn with_cause(kind: ProviderErrorKind, error: &dyn Error) -> ProviderError {
    let is_timeout = kind == ProviderErrorKind::ConnectTimeout;
    let is_connect = is_timeout || kind == ProviderErrorKind::Connect;
    let cause = Some(transport_cause(error, is_connect, is_timeout));
    ProviderError { cause, ..ProviderError::new(kind, "the connection failed") }
}
