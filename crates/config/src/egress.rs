//! Network access of tools.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::network;
use super::units::{self, MIB};
use antwort_net::client::{HttpClientOptions, ProxyUrl};

/// Network access of tools.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EgressSettings {
    /// Hosts and CIDRs that may be reached though they are private, loopback or link-local.
    pub allow: Vec<String>,
    /// Allowed domains, with their subdomains; absent: all public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_domains: Option<Vec<String>>,
    /// Maximum redirects; each is checked.
    pub max_redirects: usize,
    /// Maximum bytes of one response.
    #[serde(with = "units::ByteSize")]
    pub max_response_bytes: usize,
    /// Timeout of one request.
    #[serde(with = "units::HumanDuration")]
    pub timeout: Duration,
    /// The HTTP proxy for everything but this machine; absent: as `network.proxy`.
    #[serde(deserialize_with = "network::proxy", skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyUrl>,
    /// A PEM file of trusted certificate authorities, besides the system's and those of `tls.ca_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The two settings above, combined with those for all clients.
    #[serde(skip)]
    pub http: HttpClientOptions,
}

impl Default for EgressSettings {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            allowed_domains: None,
            max_redirects: 5,
            max_response_bytes: 5 * MIB,
            timeout: Duration::from_secs(30),
            proxy: None,
            ca_file: None,
            http: HttpClientOptions::default(),
        }
    }
}
