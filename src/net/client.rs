//! Options of all HTTP clients: proxies, certificate authorities and client certificates.
//!
//! Every client is built from [`HttpClientOptions`], so that no proxy is used and no authority trusted that was not
//! configured. [`ProxyError`] tells failures of a proxy from those of the server behind it.

mod certificates;
mod proxy;
mod proxy_error;

pub(crate) use certificates::{CaCertificates, ClientCertificate};
pub(crate) use proxy::{EnvironmentProxies, PROXY_VARIABLES, is_loopback_url};
pub use proxy::{Proxies, ProxyUrl};
pub use proxy_error::ProxyError;

use reqwest::{ClientBuilder, Url};

/// Connection options of an HTTP client. By default it connects directly and trusts the system's certificate authorities.
#[derive(Debug, Clone, Default)]
pub struct HttpClientOptions {
    /// Proxies to connect through.
    pub proxies: Proxies,
    /// Certificate authorities that are trusted in addition to the system's.
    pub authorities: Vec<CaCertificates>,
    /// Client certificate for servers, and proxies with TLS, that request one.
    pub certificate: Option<ClientCertificate>,
}

impl HttpClientOptions {
    /// A client builder for the one server of a URL.
    pub fn builder_for(&self, url: &Url) -> ClientBuilder {
        let proxy = self.proxies.for_url(url);
        if url.scheme() == "http" && proxy.is_none_or(|proxy| !proxy.is_tls()) {
            // Without TLS the system's certificates need not be read.
            return builder_with_proxy(proxy).tls_certs_only([]);
        }
        self.builder(proxy)
    }

    /// A client builder for any server that is reached through this proxy, or directly.
    pub fn builder(&self, proxy: Option<&ProxyUrl>) -> ClientBuilder {
        let authorities = self.authorities.iter().flat_map(CaCertificates::certificates);
        let builder = builder_with_proxy(proxy).tls_certs_merge(authorities);
        match &self.certificate {
            Some(certificate) => builder.identity(certificate.identity()),
            None => builder,
        }
    }
}

/// A client builder with this proxy or none; proxies of the environment are never used implicitly.
fn builder_with_proxy(proxy: Option<&ProxyUrl>) -> ClientBuilder {
    let builder = reqwest::Client::builder();
    match proxy {
        Some(proxy) => builder.proxy(proxy.to_reqwest()),
        None => builder.no_proxy(),
    }
}
