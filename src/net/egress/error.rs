//! Why a request got no answer. Texts name what the caller asked for, never what it resolved to.

use std::time::Duration;

use crate::net::causes::FailureCause;
use crate::net::client::ProxyError;

/// A request that was refused or failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// The URL cannot be read, or is not of a kind that may be used.
    #[error("the URL is not acceptable: {0}")]
    BadUrl(&'static str),
    /// The host is not among the domains that may be reached.
    #[error("{host} is not among the allowed domains")]
    DomainNotAllowed {
        /// The host of the URL.
        host: String,
    },
    /// The host is an address that may not be reached.
    #[error("the address of {host} is not allowed")]
    AddressNotAllowed {
        /// The host of the URL.
        host: String,
    },
    /// The host is a name, and has no addresses but some that may not be reached. To callers that is the same as a name
    /// that does not exist, or they could ask which names there are in the gateway's network; the log says it.
    #[error("no connection to {host}")]
    NameNotAllowed {
        /// The host of the URL.
        host: String,
    },
    /// There is no such host, nobody listens, or it could not be agreed on a cipher. Nothing was sent.
    #[error("no connection to {host}")]
    Connect {
        /// The host of the URL.
        host: String,
        /// For the log.
        #[source]
        cause: FailureCause,
    },
    /// The proxy that leads to the host failed. Nothing has reached the host.
    #[error("no connection to {host}: {error}")]
    Proxy {
        /// The host of the URL.
        host: String,
        /// What went wrong.
        error: ProxyError,
        /// For the log.
        #[source]
        cause: FailureCause,
    },
    /// The answer was not there in time. The server may have acted on the request.
    #[error("no answer within {} s", after.as_secs_f64())]
    Timeout {
        /// How long was waited.
        after: Duration,
        /// For the log.
        #[source]
        cause: FailureCause,
    },
    /// The connection broke. The server may have acted on the request.
    #[error("the connection to {host} broke")]
    Broken {
        /// The host of the URL.
        host: String,
        /// For the log.
        #[source]
        cause: FailureCause,
    },
    /// The answer is larger than it may be.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// Bytes.
        limit: usize,
    },
    /// One redirect led to the next.
    #[error("more than {limit} redirects")]
    TooManyRedirects {
        /// How many are followed.
        limit: usize,
    },
    /// No client could be made, for instance because the system has no certificates.
    #[error("outgoing connections are not possible")]
    NoClient,
}

impl EgressError {
    /// Whether the rules forbid it, rather than that it failed.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::BadUrl(_)
                | Self::DomainNotAllowed { .. }
                | Self::AddressNotAllowed { .. }
                | Self::NameNotAllowed { .. }
        )
    }

    /// The same, of a URL to which a server redirected: its host is the server's to tell, not the caller's.
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
