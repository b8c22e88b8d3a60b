//! How HTTP clients of the gateway connect: by which proxy, trusting which authorities, showing which certificate.
//!
//! Every client is made from [`HttpClientOptions`], so that no proxy is used, and no authority trusted, that was not
//! configured. Whether a proxy failed or the server behind it, [`ProxyError`] says.

mod certificates;
mod proxy;
mod proxy_error;

pub(crate) use certificates::{CaCertificates, ClientCertificate};
pub(crate) use proxy::{EnvironmentProxies, PROXY_VARIABLES, is_loopback_url};
pub use proxy::{Proxies, ProxyUrl};
pub use proxy_error::ProxyError;

use reqwest::{ClientBuilder, Url};

/// What all connections of a client have in common. By default it connects directly and trusts the system's
/// authorities.
#[derive(Debug, Clone, Default)]
pub struct HttpClientOptions {
    /// The proxies on the way.
    pub proxies: Proxies,
    /// Authorities that are trusted beside those of the system.
    pub authorities: Vec<CaCertificates>,
    /// What is shown to servers, and proxies with TLS, that ask for a certificate.
    pub certificate: Option<ClientCertificate>,
}

impl HttpClientOptions {
    /// A builder of clients for the one server of a URL.
    pub fn builder_for(&self, url: &Url) -> ClientBuilder {
        let proxy = self.proxies.for_url(url);
        if url.scheme() == "http" && proxy.is_none_or(|proxy| !proxy.is_tls()) {
            // Without TLS there is no need to read the system's certificates.
            return through(proxy).tls_certs_only([]);
        }
        self.builder(proxy)
    }

    /// A builder of clients for any server that is reached through this proxy, or directly.
    pub fn builder(&self, proxy: Option<&ProxyUrl>) -> ClientBuilder {
        let authorities = self.authorities.iter().flat_map(CaCertificates::certificates);
        let builder = through(proxy).tls_certs_merge(authorities);
        match &self.certificate {
            Some(certificate) => builder.identity(certificate.identity()),
            None => builder,
        }
    }
}

/// Either way, proxies that the environment names are not looked for.
fn through(proxy: Option<&ProxyUrl>) -> ClientBuilder {
    let builder = reqwest::Client::builder();
    match proxy {
        Some(proxy) => builder.proxy(proxy.to_reqwest()),
        None => builder.no_proxy(),
    }
}
