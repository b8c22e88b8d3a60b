//! Failures of a proxy, as distinguished from those of the server behind it.

use std::error::Error;

use hyper::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use tower::Service;

/// The HTTP client's error for a failed tunnel. The library does not export this type by name.
type TunnelError = <Tunnel<HttpConnector> as Service<Uri>>::Error;

/// A failure between the gateway and a proxy. Nothing was sent to the server behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// No connection to the proxy: its name, its port or its TLS is wrong.
    #[error("the proxy cannot be reached")]
    Unreachable,
    /// The proxy answered 407.
    #[error("the proxy refused the gateway's credentials for it (407)")]
    Credentials,
    /// The proxy answered neither 200 nor 407.
    #[error("the proxy opened no connection to the server")]
    Refused,
    /// The proxy closed the connection, or did not answer with HTTP.
    #[error("the proxy closed the connection, or its answer is not HTTP")]
    Broken,
}

impl ProxyError {
    /// The proxy's failure in an error of a request that went through it; `None`: the proxy is not at fault.
    ///
    /// `tunnelled`: the server is reached with TLS, and so through a tunnel (CONNECT).
    pub fn from_reqwest(error: &reqwest::Error, tunnelled: bool) -> Option<Self> {
        if !tunnelled {
            // The only connection is the one to the proxy.
            return (error.is_connect() && !error.is_timeout()).then_some(Self::Unreachable);
        }
        let mut source = error.source();
        while let Some(error) = source {
            if let Some(error) = error.downcast_ref::<TunnelError>() {
                return Some(Self::from_tunnel(error));
            }
            source = error.source();
        }
        None
    }

    /// By the library's texts, as its variants are private; a test pins them.
    fn from_tunnel(error: &TunnelError) -> Self {
        let text = error.to_string();
        if text.ends_with("proxy authorization required") {
            Self::Credentials
        } else if text.ends_with("failed to create underlying connection") {
            Self::Unreachable
        } else if text.ends_with("unsuccessful") {
            Self::Refused
        } else {
            Self::Broken
        }
    }
}
