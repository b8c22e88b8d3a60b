//! DNS resolution that returns only allowed addresses.
//!
//! The check is here and not before the request, because the client connects to exactly the addresses that are returned
//! here: DNS rebinding gains nothing.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::rules::{EgressRules, Host};

/// A DNS resolver: the system's, or a test's.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// The addresses of a host; empty if it does not exist.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The operating system's resolver.
pub(crate) struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|found| found.ip()).collect())
    }
}

/// A resolver for the HTTP client that drops addresses which may not be connected to.
pub(super) struct GuardedResolver {
    pub(crate) resolver: Arc<dyn Resolver>,
    pub rules: Arc<EgressRules>,
    /// The port that its client connects to. A resolver is not told the port, so every port that a rule names has a client
    /// of its own; `None`: any port that no rule names.
    pub port: Option<u16>,
}

/// The host has addresses, but none of them is allowed.
#[derive(Debug, thiserror::Error)]
#[error("none of the host's addresses is allowed")]
pub(super) struct AddressesRefused;

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (resolver, rules, port) = (Arc::clone(&self.resolver), Arc::clone(&self.rules), self.port);
        Box::pin(async move {
            let Some(host) = Host::from_name(name.as_str()) else { return Err(AddressesRefused.into()) };
            let found = resolver.resolve(name.as_str()).await?;
            let none_found = found.is_empty();
            let allowed: Vec<SocketAddr> = found
                .into_iter()
                .filter(|address| rules.may_connect(&host, *address, port))
                .map(|address| SocketAddr::new(address, 0))
                .collect();
            if allowed.is_empty() && !none_found {
                return Err(AddressesRefused.into());
            }
            let allowed: Addrs = Box::new(allowed.into_iter());
            Ok(allowed)
        })
    }
}
