//! Egress rules: the operator's two lists, and the check of URLs and addresses against them. Pure.
//!
//! A request must pass both lists: `allowed_domains` restricts the host of the URL, `allow` permits addresses that are not
//! public. Neither overrides the other.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use reqwest::Url;

use super::address::is_public;
use super::error::EgressError;

/// An invalid entry of a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{list}: '{entry}' {problem}")]
pub struct InvalidRule {
    /// The list: `allow` or `allowed_domains`.
    pub list: &'static str,
    /// The entry as it was written.
    pub entry: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// Both lists, parsed.
#[derive(Debug)]
pub(super) struct EgressRules {
    allowed: Vec<AllowEntry>,
    domains: Option<Vec<String>>,
}

/// An entry of `allow`.
#[derive(Debug)]
struct AllowEntry {
    target: AllowTarget,
    /// `None`: any port.
    port: Option<u16>,
}

#[derive(Debug)]
enum AllowTarget {
    /// A host name as [`Host`] writes it; allows all its addresses.
    Host(String),
    Net(IpNet),
}

/// The host of a URL: lower case, in ASCII, without the dot of the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    /// A name, to be resolved.
    Name(String),
    Address(IpAddr),
}

impl EgressRules {
    /// Parses both lists.
    pub(super) fn parse(allow: &[String], domains: Option<&[String]>) -> Result<Self, InvalidRule> {
        let allowed = allow.iter().map(|entry| AllowEntry::parse(entry)).collect::<Result<_, _>>()?;
        let parse_all =
            |list: &[String]| list.iter().map(|entry| parse_domain(entry)).collect::<Result<_, _>>();
        Ok(Self { allowed, domains: domains.map(parse_all).transpose()? })
    }

    /// Checks a URL before DNS resolution.
    pub(super) fn check_url(&self, url: &Url) -> Result<(), EgressError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(EgressError::BadUrl("only http and https are allowed"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EgressError::BadUrl("it must not hold a user or password"));
        }
        let host = Host::from_url(url).ok_or(EgressError::BadUrl("it has no host"))?;
        let port = url.port_or_known_default().unwrap_or_default();
        if port == 0 {
            return Err(EgressError::BadUrl("port 0 cannot be reached"));
        }
        if !self.in_domains(&host) {
            return Err(EgressError::DomainNotAllowed { host: host.to_string() });
        }
        let known = host.known_addresses();
        if !known.is_empty() && !known.iter().any(|address| self.may_connect(&host, *address, Some(port))) {
            return Err(EgressError::AddressNotAllowed { host: host.to_string() });
        }
        Ok(())
    }

    /// Whether a host may be connected to at one of its addresses. `port` is `None` for any port that no entry names.
    pub(super) fn may_connect(&self, host: &Host, address: IpAddr, port: Option<u16>) -> bool {
        if is_public(address) {
            return true;
        }
        let address = address.to_canonical();
        self.allowed.iter().any(|entry| {
            entry.port.is_none_or(|only| Some(only) == port)
                && match &entry.target {
                    AllowTarget::Net(net) => net.contains(&address),
                    AllowTarget::Host(allowed) => matches!(host, Host::Name(name) if name == allowed),
                }
        })
    }

    /// Whether an entry of `allow` matches the host of a URL, without DNS resolution.
    pub(super) fn is_allowlisted(&self, url: &Url) -> bool {
        let Some(host) = Host::from_url(url) else { return false };
        let known = host.known_addresses();
        self.allowed.iter().any(|entry| {
            (entry.port.is_none() || entry.port == url.port_or_known_default())
                && match &entry.target {
                    AllowTarget::Net(net) => {
                        known.iter().any(|address| net.contains(&address.to_canonical()))
                    }
                    AllowTarget::Host(allowed) => matches!(&host, Host::Name(name) if name == allowed),
                }
        })
    }

    /// The ports that entries of `allow` name.
    pub(super) fn ports(&self) -> impl Iterator<Item = u16> {
        self.allowed.iter().filter_map(|entry| entry.port)
    }

    fn in_domains(&self, host: &Host) -> bool {
        let Some(domains) = &self.domains else { return true };
        let host = host.to_string();
        domains.iter().any(|domain| is_within(&host, domain))
    }
}

impl AllowEntry {
    fn parse(entry: &str) -> Result<Self, InvalidRule> {
        let bad = |problem| InvalidRule { list: "allow", entry: entry.to_owned(), problem };
        if let Some(net) = parse_net(entry) {
            return Ok(Self { target: AllowTarget::Net(net), port: None });
        }
        let (target, port) = match entry.rsplit_once(':') {
            Some((target, port)) if !entry.ends_with(']') => {
                let port = port.parse().ok().filter(|port| *port != 0);
                (target, Some(port.ok_or_else(|| bad("has no port from 1 to 65535 behind its colon"))?))
            }
            _ => (entry, None),
        };
        let bare = target.strip_prefix('[').and_then(|target| target.strip_suffix(']')).unwrap_or(target);
        if let Some(net) = parse_net(bare) {
            return Ok(Self { target: AllowTarget::Net(net), port });
        }
        if target.contains('/') {
            return Err(bad("is not a CIDR"));
        }
        match parse_host(target) {
            Some(Host::Name(name)) => Ok(Self { target: AllowTarget::Host(name), port }),
            // An address in a spelling that only URLs have, such as 127.1.
            Some(Host::Address(address)) => Ok(Self { target: AllowTarget::Net(address.into()), port }),
            None => Err(bad("is not a host, address or CIDR")),
        }
    }
}

/// Parses an address or CIDR. An IPv4-mapped IPv6 address becomes IPv4, like the addresses that it is compared with.
fn parse_net(text: &str) -> Option<IpNet> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical().into());
    }
    text.parse().ok()
}

/// Parses an entry of `allowed_domains`.
fn parse_domain(entry: &str) -> Result<String, InvalidRule> {
    let bad = |problem| InvalidRule { list: "allowed_domains", entry: entry.to_owned(), problem };
    if entry.starts_with("*.") || entry.starts_with('.') {
        return Err(bad("must be a domain without a wildcard; its subdomains are included"));
    }
    let host = parse_host(entry).ok_or_else(|| bad("is not a domain"))?;
    Ok(host.to_string())
}

/// The domains, with their subdomains, that both lists of `allowed_domains` allow. Invalid entries are in neither.
pub fn intersect_domains(one: &[String], other: &[String]) -> Vec<String> {
    let is_below = |domain: &String, list: &[String]| {
        let Ok(name) = parse_domain(domain) else { return false };
        list.iter().filter_map(|above| parse_domain(above).ok()).any(|above| is_within(&name, &above))
    };
    let narrower = one.iter().filter(|domain| is_below(domain, other));
    narrower.chain(other.iter().filter(|domain| is_below(domain, one))).cloned().collect()
}

/// Whether a host is a domain or one of its subdomains. The dot keeps `evilexample.com` out of `example.com`.
fn is_within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Parses a host as a URL parser does, which normalizes case, international names and spellings of addresses.
fn parse_host(text: &str) -> Option<Host> {
    let foreign = |c: char| c.is_whitespace() || matches!(c, '/' | '\\' | '?' | '#' | '@' | '*');
    // A colon is part of an address in brackets and of nothing else.
    if text.contains(foreign) || (text.contains(':') && !text.starts_with('[')) {
        return None;
    }
    Host::from_url(&Url::parse(&format!("http://{text}/")).ok()?)
}

impl Host {
    /// The host of an `http` or `https` URL.
    pub(super) fn from_url(url: &Url) -> Option<Self> {
        let text = url.host_str()?;
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse() {
            return Some(Self::Address(address));
        }
        Self::from_name(text)
    }

    /// A name as it is passed to a resolver.
    pub(super) fn from_name(text: &str) -> Option<Self> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        (!name.is_empty()).then_some(Self::Name(name))
    }

    /// The addresses that are known without DNS resolution. The resolver is used all the same: this only rejects URLs early
    /// that are checked long before they are used.
    fn known_addresses(&self) -> Vec<IpAddr> {
        match self {
            Self::Address(address) => vec![*address],
            Self::Name(name) if name == "localhost" || name.ends_with(".localhost") => {
                vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
            }
            Self::Name(name) if METADATA_HOSTS.contains(&name.as_str()) => {
                vec![Ipv4Addr::new(169, 254, 169, 254).into()]
            }
            Self::Name(_) => Vec::new(),
        }
    }
}

/// Host names of cloud metadata services, which serve credentials.
const METADATA_HOSTS: &[&str] =
    &["metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"];

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrower_list_never_admits_what_the_wider_does_not() {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (general, narrow, both) in [
            ("example.com", "mcp.example.com evil.net evilexample.com", "mcp.example.com"),
            ("a.example.com EXAMPLE.org", "example.com x.example.org", "a.example.com x.example.org"),
            ("10.0.0.1", "10.0.0.1", "10.0.0.1 10.0.0.1"),
            ("", "example.com", ""),
            ("example.com", "", ""),
        ] {
            assert_eq!(
                intersect_domains(&list(general), &list(narrow)),
                list(both),
                "{general} and {narrow}"
            );
        }
    }
}
