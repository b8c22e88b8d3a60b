//! What tools may reach on the network: entries that could never match are refused.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;

use super::Check;
use crate::config::settings::EgressSettings;

pub(super) fn check(egress: &EgressSettings, check: &mut Check<'_>) {
    for (index, entry) in egress.allow.iter().enumerate() {
        if !is_destination(entry) {
            let message = format!(
                "expected a host, an IP address (either with :port) or a CIDR such as 10.0.0.0/8, found \"{entry}\""
            );
            check.wrong(&["egress", "allow", &index.to_string()], message);
        }
    }
    for (index, domain) in egress.allowed_domains.iter().flatten().enumerate() {
        if !is_host(domain.strip_prefix("*.").unwrap_or(domain)) {
            let message = format!("expected a domain such as example.com, found \"{domain}\"");
            check.wrong(&["egress", "allowed_domains", &index.to_string()], message);
        }
    }
    check.above_zero(&["egress", "max_response_bytes"], egress.max_response_bytes == 0);
    check.above_zero(&["egress", "timeout"], egress.timeout.is_zero());
    if egress.max_redirects > 20 {
        check.wrong(&["egress", "max_redirects"], "must be at most 20");
    }
}

/// `host`, `host:port`, an IP address with or without port, or a CIDR.
fn is_destination(text: &str) -> bool {
    if text.parse::<IpNet>().is_ok() || text.parse::<IpAddr>().is_ok() {
        return true;
    }
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    if let Some((address, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        let port = rest.strip_prefix(':');
        return address.parse::<Ipv6Addr>().is_ok() && (rest.is_empty() || port.is_some_and(is_port));
    }
    match text.split_once(':') {
        Some((host, port)) => is_host(host) && is_port(port),
        None => is_host(text),
    }
}

/// A host name, or an address that reads like one.
fn is_host(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
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
            "a..b",
            "-a",
            "a/b",
            "[::1",
            "[example.com]:80",
            "a b",
            "*.example.com",
        ] {
            assert!(!is_destination(bad), "{bad}");
        }
    }
}
