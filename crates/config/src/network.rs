//! Proxies and certificate authorities of all clients of the gateway.

use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use antwort_net::client::ProxyUrl;

/// Proxies.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkSettings {
    /// The proxy of clients that have no `proxy` of their own.
    pub proxy: ProxySource,
}

/// The source of proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProxySource {
    /// No proxies.
    #[default]
    None,
    /// From `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`.
    Environment,
}

/// Implemented by hand: a derived error would quote the value, and a URL in the wrong place may hold a password.
impl<'de> Deserialize<'de> for ProxySource {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match String::deserialize(from)?.as_str() {
            "none" => Ok(Self::None),
            "environment" => Ok(Self::Environment),
            _ => Err(D::Error::custom(
                "expected none or environment; set proxy URLs in providers.<name>.proxy and egress.proxy",
            )),
        }
    }
}

/// Trusted certificate authorities.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSettings {
    /// A PEM file of certificate authorities that all clients trust, besides the system's.
    pub ca_file: Option<PathBuf>,
}

/// An IP network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr(pub IpNet);

impl Serialize for Cidr {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Cidr {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let one = || text.parse::<IpAddr>().ok().map(|address| address.to_canonical().into());
        let net = text.parse().ok().or_else(one).ok_or_else(|| {
            D::Error::custom(format!(
                "expected an IP address, or a CIDR such as 10.0.0.0/8, found \"{text}\""
            ))
        })?;
        Ok(Self(net))
    }
}

/// Deserializes the URL of a proxy.
pub(super) fn proxy<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ProxyUrl>, D::Error> {
    let text = String::deserialize(from)?;
    ProxyUrl::parse(&text).map(Some).map_err(D::Error::custom)
}
