//! Failures of a proxy, told apart from those of the server behind it.

use std::error::Error;

use hyper::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use tower::Service;

/// What the HTTP client says of a tunnel that it did not get. The library does not name this type.
type TunnelError = <Tunnel<HttpConnector> as Service<Uri>>::Error;

/// What went wrong between the gateway and a proxy. Nothing has reached the server behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// Its name, its port or its TLS: no connection to the proxy came about.
    #[error("the proxy cannot be reached")]
    Unreachable,
    /// It answered 407.
    #[error("the proxy refused the gateway's credentials for it (407)")]
    Credentials,
    /// It answered otherwise than with 200 and 407.
    #[error("the proxy opened no connection to the server")]
    Refused,
    /// It ended the connection, or what it said is no HTTP.
    #[error("the proxy broke off")]
    Broken,
}

impl ProxyError {
    /// What an error says of the proxy that the request went through; `None`: the proxy did its part.
    ///
    /// `tunnelled` is whether the server is spoken to with TLS, for which proxies are asked for a tunnel (CONNECT).
    pub fn from_reqwest(error: &reqwest::Error, tunnelled: bool) -> Option<Self> {
        if !tunnelled {
            // The only connection is that to the proxy.
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

    /// By the library's words, as its variants have no names outside of it; a test holds them.
    fn from_tunnel(error: &TunnelError) -> Self {
        let said = error.to_string();
        let says = |words| said.ends_with(words);
        if says("proxy authorization required") {
            Self::Credentials
        } else if says("failed to create underlying connection") {
            Self::Unreachable
        } else if says("unsuccessful") {
            Self::Refused
        } else {
            Self::Broken
        }
    }
}
