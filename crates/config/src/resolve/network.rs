//! Proxies, certificate authorities and client certificates. The files are read here, so that errors name their keys.

use std::path::Path;
use std::sync::Arc;

use url::Url;

use super::checker::Checker;
use crate::interpolate::Lookup;
use crate::network::{NetworkSettings, ProxySource, TlsSettings};
use crate::provider::ProviderSettings;
use crate::settings::EgressSettings;
use antwort_net::client::{
    CaCertificates, ClientCertificate, EnvironmentProxies, HttpClientOptions, Proxies, is_loopback_url,
};

/// The options of every client without its own.
pub(super) fn for_all_clients(
    network: &NetworkSettings,
    tls: &TlsSettings,
    environment: Lookup<'_>,
    check: &mut Checker<'_>,
) -> HttpClientOptions {
    let proxies = match network.proxy {
        ProxySource::None => Proxies::Direct,
        ProxySource::Environment => match EnvironmentProxies::from_lookup(environment) {
            Ok(proxies) => Proxies::Environment(Arc::new(proxies)),
            Err((variable, problem)) => {
                check.error(&["network", "proxy"], format!("the variable {variable}: {problem}"));
                Proxies::Direct
            }
        },
    };
    let authorities = authorities(&["tls", "ca_file"], tls.ca_file.as_deref(), check);
    HttpClientOptions { proxies, authorities: authorities.into_iter().collect(), certificate: None }
}

/// The options of a provider.
pub(super) fn provider(name: &str, settings: &mut ProviderSettings, url: &Url, check: &mut Checker<'_>) {
    let key_path = |key| ["providers", name, key];
    if let Some(proxy) = &settings.proxy {
        if is_loopback_url(url) {
            check.error(
                &key_path("proxy"),
                "cannot be used: `url` is this machine, and the proxy's localhost is another",
            );
        }
        settings.http.proxies = Proxies::All(proxy.clone());
    }
    let to_proxy = settings.http.proxies.for_url(url).is_some_and(|proxy| proxy.is_tls());
    if url.scheme() == "http" {
        for (key, file) in [("ca_file", &settings.ca_file), ("client_cert", &settings.client_cert)] {
            if file.is_some() && !to_proxy {
                check.error(&key_path(key), "has no effect: `url` begins with http://, so there is no TLS");
            }
        }
    }
    settings.http.authorities.extend(authorities(&key_path("ca_file"), settings.ca_file.as_deref(), check));
    settings.http.certificate = match (&settings.client_cert, &settings.client_key) {
        (Some(certificate), Some(key)) => client_certificate(name, certificate, key, check),
        (Some(_), None) => {
            check.error(&key_path("client_cert"), "requires client_key, the file with its private key");
            None
        }
        (None, Some(_)) => {
            check.error(&key_path("client_key"), "requires client_cert, the file with its certificate");
            None
        }
        (None, None) => None,
    };
}

/// The options of tools and MCP servers.
pub(super) fn egress(settings: &mut EgressSettings, clients: &HttpClientOptions, check: &mut Checker<'_>) {
    settings.http = clients.clone();
    if let Some(proxy) = &settings.proxy {
        settings.http.proxies = Proxies::All(proxy.clone());
    }
    let own = authorities(&["egress", "ca_file"], settings.ca_file.as_deref(), check);
    settings.http.authorities.extend(own);
}

/// The certificate authorities of a file, if one is configured.
fn authorities(path: &[&str], file: Option<&Path>, check: &mut Checker<'_>) -> Option<CaCertificates> {
    let pem = read(path, file?, check)?;
    CaCertificates::from_pem(&pem).map_err(|problem| check.error(path, problem.to_string())).ok()
}

fn client_certificate(
    name: &str,
    certificate: &Path,
    key: &Path,
    check: &mut Checker<'_>,
) -> Option<ClientCertificate> {
    let key_path = |key| ["providers", name, key];
    let (certificate, key) =
        (read(&key_path("client_cert"), certificate, check), read(&key_path("client_key"), key, check));
    let read = ClientCertificate::from_pem(&certificate?, &key?);
    read.map_err(|problem| {
        let key = if problem.is_about_certificate() { "client_cert" } else { "client_key" };
        check.error(&key_path(key), problem.to_string());
    })
    .ok()
}

/// The content of a file. If the content was configured instead of the path, as with `file:`, the error does not quote
/// it.
fn read(path: &[&str], file: &Path, check: &mut Checker<'_>) -> Option<Vec<u8>> {
    let shown = file.to_string_lossy();
    if shown.contains('\n') || shown.contains("-----BEGIN") {
        check.error(path, "expected the path of a PEM file, found its content: omit `file:`");
        return None;
    }
    check
        .contents
        .read(path, file)
        .map_err(|error| check.error(path, format!("cannot read {shown}: {error}")))
        .ok()
}
