//! Errors of the egress guard. Their texts name the requested host, never the addresses that it resolved to.

use std::time::Duration;

use crate::causes::FailureCause;
use crate::client::ProxyError;

/// A request that was denied or failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// The URL is invalid or not allowed.
    #[error("the URL is not allowed: {0}")]
    BadUrl(&'static str),
    /// The host is not within the allowed domains.
    #[error("{host} is not among the allowed domains")]
    DomainNotAllowed {
        /// The host of the URL.
        host: String,
    },
    /// The host is an address that is not allowed.
    #[error(
        "the address of {host} is not allowed; the operator can allow it with egress.allow (ANTWORT_EGRESS_ALLOW)"
    )]
    AddressNotAllowed {
        /// The host of the URL.
        host: String,
    },
    /// The host is a name whose addresses are all denied. Its text is that of a name that does not exist: callers must not be
    /// able to probe which names exist in the gateway's network. The log has the reason.
    #[error("no connection to {host}")]
    NameNotAllowed {
        /// The host of the URL.
        host: String,
    },
    /// No connection: DNS, TCP or TLS failed. Nothing was sent.
    #[error("no connection to {host}")]
    Connect {
        /// The host of the URL.
        host: String,
        /// For the log.
        #[source]
        cause: FailureCause,
    },
    /// The proxy failed. Nothing was sent to the host.
    #[error("no connection to {host}: {error}")]
    Proxy {
        /// The host of the URL.
        host: String,
        /// The proxy's failure.
        error: ProxyError,
        /// For the log.
        #[source]
        cause: FailureCause,
    },
    /// No complete response in time. The server may have processed the request.
    #[error("no answer within {} s", after.as_secs_f64())]
    Timeout {
        /// The timeout.
        after: Duration,
        /// For the log.
        #[source]
        cause: FailureCause,
    },
    /// The connection was lost. The server may have processed the request.
    #[error("the connection to {host} was lost")]
    Broken {
        /// The host of the URL.
        host: String,
        /// For the log.
        #[source]
        cause: FailureCause,
    },
    /// The response exceeds the size limit.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The redirect limit was exceeded.
    #[error("more than {limit} redirects")]
    TooManyRedirects {
        /// The limit.
        limit: usize,
    },
    /// The HTTP client could not be built, for example because the system has no certificates.
    #[error("outgoing connections are not possible: the HTTP client could not be built")]
    NoClient,
}

impl EgressError {
    /// Whether the rules deny the request, as opposed to a failure.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::BadUrl(_)
                | Self::DomainNotAllowed { .. }
                | Self::AddressNotAllowed { .. }
                | Self::NameNotAllowed { .. }
        )
    }

    /// The same error for the target of a redirect, without its host, which the caller must not learn.
    pub(super) fn for_redirect(self) -> Self {
        let host = || "a redirect's target".to_owned();
        match self {
            Self::DomainNotAllowed { .. } => Self::DomainNotAllowed { host: host() },
            Self::AddressNotAllowed { .. } => Self::AddressNotAllowed { host: host() },
            Self::NameNotAllowed { .. } => Self::NameNotAllowed { host: host() },
            Self::Connect { cause, .. } => Self::Connect { host: host(), cause },
            Self::Proxy { error, cause, .. } => Self::Proxy { host: host(), error, cause },
            Self::Broken { cause, .. } => Self::Broken { host: host(), cause },
            other => other,
        }
    }
}
