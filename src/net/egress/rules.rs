//! What may be reached: the operator's two lists, and the judgement of a URL or an address by them. Pure.
//!
//! The lists are two walls and a request has to pass both: `allowed_domains` is about the name in the URL, `allow`
//! about addresses that are not public. What one opens the other still closes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use reqwest::Url;

use super::address::is_public;
use super::error::EgressError;

/// An entry of a list that cannot be read.
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

/// Both lists, read.
#[derive(Debug)]
pub(super) struct EgressRules {
    open: Vec<AllowEntry>,
    domains: Option<Vec<String>>,
}

/// An entry of `allow`.
#[derive(Debug)]
struct AllowEntry {
    place: AllowTarget,
    /// `None`: any.
    port: Option<u16>,
}

#[derive(Debug)]
enum AllowTarget {
    /// The host of a URL as [`Host`] writes it; opens whatever address it has.
    Host(String),
    Net(IpNet),
}

/// The host of a URL: lower case, in ASCII, without the dot of the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    /// To be resolved.
    Name(String),
    /// As it is.
    Address(IpAddr),
}

impl EgressRules {
    /// Reads both lists.
    pub(super) fn parse(allow: &[String], domains: Option<&[String]>) -> Result<Self, InvalidRule> {
        let open = allow.iter().map(|entry| AllowEntry::parse(entry)).collect::<Result<_, _>>()?;
        let read_all = |list: &[String]| list.iter().map(|entry| domain(entry)).collect::<Result<_, _>>();
        Ok(Self { open, domains: domains.map(read_all).transpose()? })
    }

    /// Judges what a URL says of itself, before any name is resolved.
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

    /// Whether a host may be connected to at an address that it has. `port` is `None` for any that no entry names.
    pub(super) fn may_connect(&self, host: &Host, address: IpAddr, port: Option<u16>) -> bool {
        if is_public(address) {
            return true;
        }
        let address = address.to_canonical();
        self.open.iter().any(|opening| {
            opening.port.is_none_or(|only| Some(only) == port)
                && match &opening.place {
                    AllowTarget::Net(net) => net.contains(&address),
                    AllowTarget::Host(open) => matches!(host, Host::Name(name) if name == open),
                }
        })
    }

    /// Whether an entry opens what a URL names, before any name is resolved.
    pub(super) fn is_allowlisted(&self, url: &Url) -> bool {
        let Some(host) = Host::from_url(url) else { return false };
        let known = host.known_addresses();
        self.open.iter().any(|opening| {
            (opening.port.is_none() || opening.port == url.port_or_known_default())
                && match &opening.place {
                    AllowTarget::Net(net) => {
                        known.iter().any(|address| net.contains(&address.to_canonical()))
                    }
                    AllowTarget::Host(open) => matches!(&host, Host::Name(name) if name == open),
                }
        })
    }

    /// The ports that entries name.
    pub(super) fn ports(&self) -> impl Iterator<Item = u16> {
        self.open.iter().filter_map(|opening| opening.port)
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
        if let Some(net) = net(entry) {
            return Ok(Self { place: AllowTarget::Net(net), port: None });
        }
        let (place, port) = match entry.rsplit_once(':') {
            Some((place, port)) if !entry.ends_with(']') => {
                let port = port.parse().ok().filter(|port| *port != 0);
                (place, Some(port.ok_or_else(|| bad("has no port from 1 to 65535 behind its colon"))?))
            }
            _ => (entry, None),
        };
        let bare = place.strip_prefix('[').and_then(|place| place.strip_suffix(']')).unwrap_or(place);
        if let Some(net) = net(bare) {
            return Ok(Self { place: AllowTarget::Net(net), port });
        }
        if place.contains('/') {
            return Err(bad("is no CIDR"));
        }
        match read_host(place) {
            Some(Host::Name(name)) => Ok(Self { place: AllowTarget::Host(name), port }),
            // An address in a spelling that only URLs have, such as 127.1.
            Some(Host::Address(address)) => Ok(Self { place: AllowTarget::Net(address.into()), port }),
            None => Err(bad("is no host, address or CIDR")),
        }
    }
}

/// An address or CIDR; one of IPv4 that is written within IPv6 becomes IPv4, as the addresses it is held against.
fn net(text: &str) -> Option<IpNet> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical().into());
    }
    text.parse().ok()
}

/// An entry of `allowed_domains`.
fn domain(entry: &str) -> Result<String, InvalidRule> {
    let bad = |problem| InvalidRule { list: "allowed_domains", entry: entry.to_owned(), problem };
    if entry.starts_with("*.") || entry.starts_with('.') {
        return Err(bad("must be a domain alone; what is below it is included"));
    }
    let host = read_host(entry).ok_or_else(|| bad("is no domain"))?;
    Ok(host.to_string())
}

/// The domains that are in both lists of `allowed_domains`, each with what is below it. What cannot be read is in
/// neither.
pub(crate) fn intersect_domains(one: &[String], other: &[String]) -> Vec<String> {
    let below = |domain: &String, list: &[String]| {
        let Ok(name) = self::domain(domain) else { return false };
        list.iter().filter_map(|above| self::domain(above).ok()).any(|above| is_within(&name, &above))
    };
    let narrower = one.iter().filter(|domain| below(domain, other));
    narrower.chain(other.iter().filter(|domain| below(domain, one))).cloned().collect()
}

/// Whether a host is a domain or below it. The dot keeps `evilexample.com` out of `example.com`.
fn is_within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Reads a host as it would be read in a URL: case, international names and spellings of addresses come out the same.
fn read_host(text: &str) -> Option<Host> {
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

    /// A name as a resolver is asked for it.
    pub(super) fn from_name(text: &str) -> Option<Self> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        (!name.is_empty()).then_some(Self::Name(name))
    }

    /// The addresses that need no resolver to be known. A resolver is asked all the same: this only lets URLs be
    /// refused that are checked long before they are used.
    fn known_addresses(&self) -> Vec<IpAddr> {
        match self {
            Self::Address(address) => vec![*address],
            Self::Name(name) if name == "localhost" || name.ends_with(".localhost") => {
                vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
            }
            Self::Name(name) if METADATA.contains(&name.as_str()) => {
                vec![Ipv4Addr::new(169, 254, 169, 254).into()]
            }
            Self::Name(_) => Vec::new(),
        }
    }
}

/// Names by which clouds serve the credentials of their machines.
const METADATA: &[&str] =
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
