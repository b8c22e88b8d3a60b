//! Network access of tools: entries that could never match are errors.

use std::net::IpAddr;

use ipnet::IpNet;
use url::Url;

use super::checker::Checker;
use crate::settings::EgressSettings;

pub(super) fn check(egress: &EgressSettings, check: &mut Checker<'_>) {
    for (index, entry) in egress.allow.iter().enumerate() {
        if !is_destination(entry) {
            let message = format!(
                "expected a host, an IP address (either with :port) or a CIDR such as 10.0.0.0/8, found \"{entry}\""
            );
            check.error(&["egress", "allow", &index.to_string()], message);
        }
    }
    domains(&["egress", "allowed_domains"], egress.allowed_domains.as_deref(), check);
    check.require_nonzero(&["egress", "max_response_bytes"], egress.max_response_bytes == 0);
    check.require_nonzero(&["egress", "timeout"], egress.timeout.is_zero());
    if egress.max_redirects > 20 {
        check.error(&["egress", "max_redirects"], "must be at most 20");
    }
}

/// Errors for domains that no URL can have.
pub(super) fn domains(path: &[&str], domains: Option<&[String]>, check: &mut Checker<'_>) {
    for (index, domain) in domains.unwrap_or_default().iter().enumerate() {
        if !is_host(domain) || domain.starts_with('.') {
            let message = format!(
                "expected a domain such as example.com (subdomains are included), found \"{domain}\""
            );
            check.error(&[path, &[&index.to_string()]].concat(), message);
        }
    }
}

/// A host, an address or a CIDR, each with or without `:port`, as `net::egress` parses them.
fn is_destination(text: &str) -> bool {
    if is_network(text) {
        return true;
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !text.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
        && (is_network(bare) || is_host(host))
}

fn is_network(text: &str) -> bool {
    text.parse::<IpNet>().is_ok() || text.parse::<IpAddr>().is_ok()
}

/// Whether this is a host name and nothing else.
fn is_host(name: &str) -> bool {
    let invalid = |c: char| c.is_whitespace() || "/\\?#@*:".contains(c);
    !name.is_empty() && !name.contains(invalid) && Url::parse(&format!("http://{name}/")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::is_destination;

    #[test]
    fn hosts_addresses_and_networks_are_destinations() {
        for good in [
            "localhost",
            "localhost:8080",
            "searxng.internal",
            "127.0.0.1",
            "127.0.0.1:80",
            "10.0.0.0/8",
            "::1",
            "[::1]",
            "[::1]:8080",
            "fd00::/8",
            "my_service",
            "b\u{fc}cher.example",
            "10.0.0.0/8:443",
        ] {
            assert!(is_destination(good), "{good}");
        }
        for bad in [
            "",
            "http://localhost",
            "localhost:0",
            "localhost:http",
            "localhost:99999",
            "10.0.0.0/33",
            "a/b",
            "[::1",
            "[example.com]:80",
            "a b",
            "10.0.0.0/8:http",
            "*.example.com",
        ] {
            assert!(!is_destination(bad), "{bad}");
        }
    }
}
