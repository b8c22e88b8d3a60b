//! Names to addresses, of which only those come back that may be connected to.
//!
//! The check stands here and not before the request because the addresses that are given out here are the ones
//! that are connected to: a name that answers differently the next time gains nothing.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::rules::{EgressRules, Host};

/// Looks up names. The system's way unless a test brings another.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// The addresses of a host; it has none where there is no such host.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the operating system.
pub(crate) struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|found| found.ip()).collect())
    }
}

/// A resolver as the HTTP client wants it, which keeps back what may not be connected to.
pub(super) struct GuardedResolver {
    pub resolver: Arc<dyn Resolver>,
    pub rules: Arc<EgressRules>,
    /// The port that its client connects to. A resolver is not told it, so every port that a rule names has a
    /// client of its own; `None`: any port that no rule names.
    pub port: Option<u16>,
}

/// A host has addresses, and none of them may be connected to.
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
            let open: Vec<SocketAddr> = found
                .into_iter()
                .filter(|address| rules.may_connect(&host, *address, port))
                .map(|address| SocketAddr::new(address, 0))
                .collect();
            if open.is_empty() && !none_found {
                return Err(AddressesRefused.into());
            }
            let open: Addrs = Box::new(open.into_iter());
            Ok(open)
        })
    }
}
