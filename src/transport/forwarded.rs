//! Client address and host of a request behind trusted proxies: `Forwarded` (RFC 7239), `X-Forwarded-For`,
//! `X-Forwarded-Host`.
//!
//! Every proxy appends the address of its peer, so only the right end of the list is reliable: it is walked from the right
//! while the addresses are those of trusted proxies; anything left of the first untrusted address can be forged. An entry
//! that cannot be parsed ends the walk, and is never an error.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, header};
use ipnet::IpNet;

use super::authority::Authority;
use super::connection_share::Peer;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Client address and host of a request, as far as they can be trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RequestOrigin {
    /// The client's address; if a trusted proxy does not report it, that proxy's address.
    pub address: Option<IpAddr>,
    /// The requested host as the outermost trusted proxy reports it.
    pub host: Option<String>,
}

/// The result of walking a chain of proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProxyChain {
    address: IpAddr,
    /// Number of trusted entries, from the right.
    hops: usize,
}

impl RequestOrigin {
    /// By the connection's peer and, if that is a trusted proxy, by the headers.
    pub(super) fn from_request(request: &Request, trusted: &[IpNet]) -> Self {
        let Some(Peer { address, .. }) = request.extensions().get::<Peer>() else { return Self::default() };
        let peer = address.to_canonical();
        if !contains(trusted, peer) {
            return Self { address: Some(peer), host: None };
        }
        Self::from_headers(peer, request.headers(), trusted)
    }

    /// A proxy that sets one of the headers passes on the others as the client sent them. If both are present and differ,
    /// neither is trusted.
    fn from_headers(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> Self {
        let standard = ForwardedElement::read(headers).map(|elements| {
            let walked = walk_chain(peer, elements.iter().rev().map(|element| element.address), trusted);
            let host = walked.hops.checked_sub(1).and_then(|last| elements.iter().nth_back(last)?.host);
            (walked.address, host)
        });
        let x_forwarded_for = headers.contains_key(FORWARDED_FOR).then(|| {
            walk_chain(peer, entries(headers, &FORWARDED_FOR).map(|entry| entry.and_then(node)), trusted)
        });
        let address =
            match (standard.map(|(address, _)| address), x_forwarded_for.map(|walked| walked.address)) {
                (Some(one), Some(other)) if one != other => peer,
                (one, other) => one.or(other).unwrap_or(peer),
            };
        let x_forwarded_host = x_forwarded_host(headers, x_forwarded_for.map_or(0, |walked| walked.hops));
        let host = match (standard.and_then(|(_, host)| host), x_forwarded_host) {
            (Some(one), Some(other)) if !one.eq_ignore_ascii_case(other) => None,
            (one, other) => one.or(other),
        };
        let host = host.filter(|host| Authority::parse(host).is_some());
        Self { address: Some(address), host: host.map(str::to_owned) }
    }
}

/// Walks a chain from the right; `None` is an entry that is not an address.
fn walk_chain(peer: IpAddr, chain: impl Iterator<Item = Option<IpAddr>>, trusted: &[IpNet]) -> ProxyChain {
    let mut walked = ProxyChain { address: peer, hops: 0 };
    for entry in chain {
        let Some(address) = entry else { break };
        walked = ProxyChain { address, hops: walked.hops + 1 };
        if !contains(trusted, address) {
            break;
        }
    }
    walked
}

fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

/// The entries of a list header, from the right, over all its lines; `None` is a line that is not text.
fn entries<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = Option<&'a str>> + use<'a> {
    let lines: Vec<_> = headers.get_all(name).iter().collect();
    lines.into_iter().rev().flat_map(|line| {
        let text = line.to_str().ok();
        let entries = text.into_iter().flat_map(|text| text.rsplit(',').map(str::trim)).map(Some);
        // Empty list elements are ignored (RFC 9110 5.6.1).
        entries.filter(|entry| *entry != Some("")).chain(text.is_none().then_some(None))
    })
}

/// The host of `X-Forwarded-Host`. If proxies appended several, the one at the position of the trusted client address.
fn x_forwarded_host(headers: &HeaderMap, hops: usize) -> Option<&str> {
    let mut hosts = entries(headers, &FORWARDED_HOST);
    let (last, next) = (hosts.next()??, hosts.next());
    match next {
        None => Some(last),
        Some(_) => entries(headers, &FORWARDED_HOST).nth(hops.checked_sub(1)?)?,
    }
}

struct ForwardedElement<'a> {
    address: Option<IpAddr>,
    host: Option<&'a str>,
}

impl<'a> ForwardedElement<'a> {
    /// All elements; none if the header is malformed anywhere, since an open quote may hide its right end.
    fn read(headers: &'a HeaderMap) -> Option<Vec<Self>> {
        let mut lines = headers.get_all(header::FORWARDED).iter().peekable();
        lines.peek()?;
        let mut elements = Vec::new();
        for line in lines {
            let Some(more) = line.to_str().ok().and_then(Self::read_line) else { return Some(Vec::new()) };
            elements.extend(more);
        }
        Some(elements)
    }

    fn read_line(line: &'a str) -> Option<Vec<Self>> {
        let elements = split(line, ',')?.into_iter().filter(|element| !element.is_empty());
        elements.map(Self::read_element).collect()
    }

    fn read_element(element: &'a str) -> Option<Self> {
        let (mut client, mut host) = (None, None);
        for pair in split(element, ';')?.into_iter().filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=')?;
            let value = match value.strip_prefix('"') {
                // Addresses and hosts contain no characters that need escaping.
                Some(quoted) => quoted.strip_suffix('"').filter(|value| !value.contains(['"', '\\']))?,
                None => value,
            };
            let place = match name.to_ascii_lowercase().as_str() {
                "for" => &mut client,
                "host" => &mut host,
                _ => continue,
            };
            if place.replace(value).is_some() {
                return None;
            }
        }
        Some(Self { address: client.and_then(node), host })
    }
}

/// Splits at a character outside of quotes; `None` if a quote is not closed.
fn split(text: &str, at: char) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (index, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            letter if letter == at && !quoted => {
                parts.push(text.get(start..index)?.trim());
                start = index + letter.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(text.get(start..)?.trim());
    (!quoted).then_some(parts)
}

/// The address of a hop, with or without a port. `unknown`, obfuscated names (`_secret`) and `unix:` sockets have none.
fn node(text: &str) -> Option<IpAddr> {
    let is_port = |port: &str| {
        !port.is_empty() && port.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    let address = if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let fits = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        address.parse::<Ipv6Addr>().ok().filter(|_| fits)?.into()
    } else if let Ok(address) = text.parse::<IpAddr>() {
        address
    } else {
        let (address, port) = text.split_once(':')?;
        address.parse::<Ipv4Addr>().ok().filter(|_| is_port(port))?.into()
    };
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    const PEER: &str = "10.0.0.1";

    /// The address and host of a request that came from [`PEER`], behind whom 10.0.0.0/8 and fd00::/8 are trusted.
    fn origin_of(headers: &[(&str, &str)]) -> (String, Option<String>) {
        from(PEER, headers)
    }

    fn from(peer: &str, headers: &[(&str, &str)]) -> (String, Option<String>) {
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|net| net.parse().expect("a network"));
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request
                .header(*name, axum::http::HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        let mut request = request.body(Body::empty()).expect("a request");
        let address = peer.parse().expect("an address");
        request.extensions_mut().insert(Peer { address, share: std::sync::Arc::default() });
        let origin = RequestOrigin::from_request(&request, &trusted);
        (origin.address.expect("an address").to_string(), origin.host)
    }

    #[test]
    fn the_right_most_address_that_is_not_trusted_is_the_clients() {
        for (header, address) in [
            ("198.51.100.7", "198.51.100.7"),
            ("198.51.100.7, 10.0.0.2", "198.51.100.7"),
            ("8.8.8.8, 198.51.100.7, 10.0.0.2,10.0.0.3", "198.51.100.7"),
            ("8.8.8.8, 10.0.0.9, 198.51.100.7", "198.51.100.7"),
            ("10.0.0.4, 10.0.0.2", "10.0.0.4"),
            ("198.51.100.7:4711", "198.51.100.7"),
            ("2001:db8::7", "2001:db8::7"),
            ("[2001:db8::7]:4711", "2001:db8::7"),
            ("2001:db8::7, fd00::1", "2001:db8::7"),
            ("::ffff:198.51.100.7, ::ffff:10.0.0.2", "198.51.100.7"),
            (" , 198.51.100.7, ", "198.51.100.7"),
            // An entry without an address ends the walk at the proxy before it.
            ("8.8.8.8, unknown", PEER),
            ("8.8.8.8, unknown, 10.0.0.2", "10.0.0.2"),
            ("8.8.8.8, unix:", PEER),
            ("8.8.8.8, _hidden", PEER),
            ("8.8.8.8, 10.0.0.2:", PEER),
            ("8.8.8.8, 1.2.3.4:80:90", PEER),
            ("8.8.8.8, [::1", PEER),
            ("8.8.8.8, [::1]x", PEER),
            ("8.8.8.8, fe80::1%eth0", PEER),
            ("8.8.8.8, 256.1.1.1", PEER),
            ("8.8.8.8, gr\u{fc}n", PEER),
            ("", PEER),
            (",,,", PEER),
        ] {
            assert_eq!(origin_of(&[("x-forwarded-for", header)]).0, address, "{header}");
        }
        let lines = [("x-forwarded-for", "8.8.8.8"), ("x-forwarded-for", "198.51.100.7, 10.0.0.2")];
        assert_eq!(origin_of(&lines).0, "198.51.100.7");
    }

    #[test]
    fn forwarded_is_read_with_its_quotes_and_parameters() {
        for (header, address, host) in [
            ("for=198.51.100.7", "198.51.100.7", None),
            ("For=\"198.51.100.7:4711\";Proto=https;HOST=gw.test", "198.51.100.7", Some("gw.test")),
            ("for=\"[2001:db8::7]:_port\";by=_me;host=\"gw.test:8443\"", "2001:db8::7", Some("gw.test:8443")),
            (
                "for=8.8.8.8;host=evil.test, for=198.51.100.7;host=gw.test, for=10.0.0.2;host=inner",
                "198.51.100.7",
                Some("gw.test"),
            ),
            ("for=198.51.100.7;host=evil.test;host=gw.test", PEER, None),
            ("for=8.8.8.8, for=unknown;host=gw.test", PEER, None),
            ("for=8.8.8.8, for=_gazonk", PEER, None),
            ("for=8.8.8.8, for=\"unix:/run/x\"", PEER, None),
            ("for=8.8.8.8, by=10.0.0.1", PEER, None),
            ("for=198.51.100.7;note=\"a, for=8.8.8.8; b\"", "198.51.100.7", None),
            ("for=198.51.100.7;host=\"a b\"", "198.51.100.7", None),
            // Malformed anywhere: the whole header is ignored.
            ("for=\"8.8.8.8", PEER, None),
            ("for=8.8.8.8, for=\"198.51.100.7", PEER, None),
            ("for=8.8.8.8\"", PEER, None),
            ("for=\"8.8\\.8.8\"", PEER, None),
            ("8.8.8.8", PEER, None),
            (";;=,=;", PEER, None),
            ("", PEER, None),
        ] {
            assert_eq!(
                origin_of(&[("forwarded", header)]),
                (address.to_owned(), host.map(str::to_owned)),
                "{header}"
            );
        }
    }

    #[test]
    fn nobody_else_is_believed_anything() {
        let headers = [
            ("x-forwarded-for", "8.8.8.8"),
            ("forwarded", "for=8.8.8.8;host=evil.test"),
            ("x-forwarded-host", "evil.test"),
        ];
        assert_eq!(from("198.51.100.7", &headers), ("198.51.100.7".to_owned(), None));
        assert_eq!(from("::ffff:10.0.0.1", &headers).0, "8.8.8.8", "a trusted address in its longer form");
        assert_eq!(from("::1", &headers).0, "::1");
    }

    #[test]
    fn two_headers_that_differ_are_both_not_believed() {
        let both = |one, other| origin_of(&[("forwarded", one), ("x-forwarded-for", other)]).0;
        assert_eq!(both("for=198.51.100.7", "8.8.8.8, 198.51.100.7"), "198.51.100.7");
        assert_eq!(both("for=8.8.8.8", "198.51.100.7"), PEER);
        assert_eq!(both("nonsense", "198.51.100.7"), PEER);
        let hosts = |one, other| origin_of(&[("forwarded", one), ("x-forwarded-host", other)]).1;
        assert_eq!(hosts("for=8.8.8.8;host=gw.test", "GW.test").as_deref(), Some("gw.test"));
        assert_eq!(hosts("for=8.8.8.8;host=gw.test", "evil.test"), None);
    }

    #[test]
    fn the_host_is_the_one_that_the_outermost_trusted_proxy_was_asked_for() {
        for (addresses, hosts, host) in [
            ("198.51.100.7", "gw.test", Some("gw.test")),
            ("198.51.100.7, 10.0.0.2", "gw.test", Some("gw.test")),
            ("198.51.100.7, 10.0.0.2", "gw.test, inner", Some("gw.test")),
            ("198.51.100.7, 10.0.0.2", "evil.test, gw.test, inner", Some("gw.test")),
            ("198.51.100.7, 10.0.0.2, 10.0.0.3", "gw.test, inner", None),
            ("unknown", "gw.test, inner", None),
            ("198.51.100.7", "http://gw.test", None),
            ("198.51.100.7", "user@gw.test", None),
            ("198.51.100.7", "", None),
        ] {
            let headers = [("x-forwarded-for", addresses), ("x-forwarded-host", hosts)];
            assert_eq!(origin_of(&headers).1.as_deref(), host, "{addresses}; {hosts}");
        }
        assert_eq!(origin_of(&[("x-forwarded-host", "gw.test")]).1.as_deref(), Some("gw.test"));
    }

    mod any {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #[test]
            fn no_header_panics_and_no_address_is_invented(said in "[ -~]{0,80}", other in "[0-9a-f:.,=\";\\[\\] _for]{0,80}") {
                for name in ["forwarded", "x-forwarded-for", "x-forwarded-host"] {
                    for value in [&said, &other] {
                        let (address, _) = origin_of(&[(name, value.trim())]);
                        let read: IpAddr = address.parse().expect("an address");
                        prop_assert!(address == PEER || value.contains(&address) || read.is_ipv6() || value.contains("::ffff"));
                    }
                }
            }
        }
    }
}
