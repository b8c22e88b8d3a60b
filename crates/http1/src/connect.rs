//! Connections to one server: name resolution, TCP and TLS within one timeout.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::either::Either;
use tower::{Service, ServiceExt};
use url::{Host, Url};

use super::connection::Connection;
use super::error::Http1Error;
use antwort_net::client::HttpClientOptions;

/// A peer that answers no probes is gone: a response may be silent for minutes.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 3;
/// How long sent bytes may stay unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes connections to one server.
pub(super) struct Connector {
    /// Resolves the name and tries its addresses, of both families in parallel.
    tcp: HttpConnector,
    /// The URL without path and credentials.
    server: http::Uri,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    timeout: Duration,
}

impl Connector {
    pub(super) fn new(url: &Url, options: &HttpClientOptions, timeout: Duration) -> Result<Self, String> {
        let host = url.host().ok_or("url: has no host")?;
        let port = url.port_or_known_default().ok_or("url: has no port")?;
        let tls = match url.scheme() {
            "http" => None,
            "https" => {
                let config = options.rustls_config(&[b"http/1.1"])?;
                Some((TlsConnector::from(Arc::new(config)), server_name(&host)?))
            }
            _ => return Err("url: expected http:// or https://".to_owned()),
        };
        let server = format!("{}://{host}:{port}/", url.scheme()).parse();
        Ok(Self {
            tcp: tcp_connector(timeout),
            server: server.map_err(|error| format!("url: {error}"))?,
            tls,
            timeout,
        })
    }

    pub(super) async fn connect(&self) -> Result<Connection, Http1Error> {
        let connecting = async {
            let mut tcp = self.tcp.clone();
            let tcp = tcp.ready().await.map_err(|error| Http1Error::Connect(error.into()))?;
            let tcp = tcp.call(self.server.clone()).await;
            let tcp = tcp.map_err(|error| Http1Error::Connect(error.into()))?.into_inner();
            match &self.tls {
                None => Ok(Connection::new(Either::Left(tcp))),
                Some((connector, name)) => {
                    let tls = connector.connect(name.clone(), tcp).await;
                    let tls = tls.map_err(|error| Http1Error::Connect(error.into()))?;
                    Ok(Connection::new(Either::Right(Box::new(tls))))
                }
            }
        };
        timeout(self.timeout, connecting).await.unwrap_or(Err(Http1Error::ConnectTimeout))
    }
}

fn tcp_connector(timeout: Duration) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // Shared by the addresses of a name, so that one that does not answer leaves time for the others.
    tcp.set_connect_timeout(Some(timeout));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE));
    tcp.set_keepalive_retries(Some(KEEPALIVE_PROBES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT));
    tcp
}

fn server_name(host: &Host<&str>) -> Result<ServerName<'static>, String> {
    match host {
        Host::Ipv4(address) => Ok(ServerName::from(IpAddr::from(*address))),
        Host::Ipv6(address) => Ok(ServerName::from(IpAddr::from(*address))),
        Host::Domain(name) => ServerName::try_from((*name).to_owned())
            .map_err(|_| "url: TLS needs the name of a host, or an address".to_owned()),
    }
}
