//! Options of all HTTP clients: proxies, certificate authorities and client certificates.
//!
//! Every client is built from [`HttpClientOptions`], so that no proxy is used and no authority trusted that was not
//! configured. [`ProxyError`] tells failures of a proxy from those of the server behind it.

mod certificates;
mod proxy;
mod proxy_error;

pub use certificates::{CaCertificates, ClientCertificate};
pub use proxy::{EnvironmentProxies, PROXY_VARIABLES, is_loopback_url};
pub use proxy::{Proxies, ProxyUrl};
pub use proxy_error::ProxyError;

use std::sync::Arc;

use reqwest::{ClientBuilder, Url};
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls_platform_verifier::Verifier;

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

    /// TLS as the clients of [`Self::builder`] have it, for other clients.
    pub fn rustls_config(&self, protocols: &[&[u8]]) -> Result<ClientConfig, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let authorities = self.authorities.iter().flat_map(CaCertificates::der);
        let verifier = Verifier::new_with_extra_roots(authorities, Arc::clone(&provider));
        let verifier = verifier.map_err(|error| error.to_string())?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &self.certificate {
            Some(certificate) => {
                let (chain, key) = certificate.chain_and_key();
                builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
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
