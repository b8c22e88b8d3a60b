//! The authority (host and port) of a request: from the request target or the single `Host` header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::extract::Request;
use axum::http::{Version, header};

use antwort_protocol::error::{ApiError, ErrorKind};

/// Host and optional port, as in `Host`, `:authority` and `Origin`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Authority<'a> {
    /// A name, an IPv4 address, or an IPv6 address in brackets.
    host: &'a str,
    port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// The authority of a request (RFC 9112 3.2, RFC 9113 8.3.1). Only HTTP/1.0 may omit it.
    ///
    /// # Errors
    /// 400 if it is missing, given more than once, or malformed: proxies, caches and this gateway must not interpret the
    /// same request differently.
    pub(super) fn from_request(request: &'a Request) -> Result<Option<Self>, ApiError> {
        let mut lines = request.headers().get_all(header::HOST).iter();
        let (line, another) = (lines.next(), lines.next());
        if another.is_some() {
            return Err(duplicate_header("Host"));
        }
        let version = request.version();
        let line = line.map(|line| line.to_str().unwrap_or("?"));
        let target = request.uri().authority().map(axum::http::uri::Authority::as_str);
        let authority = match (target, line) {
            (Some(target), Some(line))
                if version > Version::HTTP_11 && !target.eq_ignore_ascii_case(line) =>
            {
                return Err(invalid("Its `:authority` and its Host header differ."));
            }
            (_, None) if version == Version::HTTP_11 => {
                return Err(invalid("HTTP/1.1 requires a Host header."));
            }
            (None, None) if version > Version::HTTP_11 => return Err(invalid("It has no `:authority`.")),
            (None, None) => return Ok(None),
            // In HTTP/1.1 a target in absolute form takes precedence over the Host header.
            (Some(authority), _) | (None, Some(authority)) => authority,
        };
        Self::parse(authority)
            .map(Some)
            .ok_or_else(|| invalid("Expected a host name or an IP address, optionally with a port."))
    }

    /// Parses `host`, `host:port` or `[v6]:port`; a user or a path is not allowed.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let end =
            if text.starts_with('[') { text.find(']')? + 1 } else { text.find(':').unwrap_or(text.len()) };
        let (host, rest) = text.split_at_checked(end)?;
        let port = match rest {
            "" | ":" => None,
            rest => Some(rest.strip_prefix(':').filter(|port| port.bytes().all(|b| b.is_ascii_digit()))?),
        };
        let valid = match host.strip_prefix('[') {
            Some(_) => v6(host).is_some(),
            None => {
                !host.is_empty()
                    && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&b))
            }
        };
        let port = port.map(str::parse).transpose().ok()?;
        valid.then_some(Self { host, port })
    }

    /// Whether both have the same host and port, where `default_port` stands for an absent port.
    pub(super) fn is_same(&self, other: &Self, default_port: Option<u16>) -> bool {
        let same_host = self.host.eq_ignore_ascii_case(other.host)
            || v6(self.host).is_some_and(|address| v6(other.host) == Some(address));
        same_host && self.port.or(default_port) == other.port.or(default_port)
    }

    /// Whether it is an IP address. A name that only looks like one to resolvers (`127.1`) is not.
    pub(super) fn is_ip(&self) -> bool {
        self.host.parse::<Ipv4Addr>().is_ok() || v6(self.host).is_some()
    }

    /// Whether it has this name, with or without the final dot of a full name.
    pub(super) fn has_name(&self, name: &str) -> bool {
        let [host, name] = [self.host, name].map(|name| name.strip_suffix('.').unwrap_or(name));
        host.eq_ignore_ascii_case(name)
    }

    /// The host without its port.
    pub(super) fn host(&self) -> &'a str {
        self.host
    }
}

fn v6(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

fn invalid(why: &str) -> ApiError {
    let message = format!("The host of the request is missing, ambiguous or invalid. {why}");
    ApiError::new(ErrorKind::InvalidRequest, message).with_code("invalid_host")
}

/// 400 for a repeated header: a proxy could use another one of them than the gateway.
pub(super) fn duplicate_header(name: &str) -> ApiError {
    let message = format!("The request has more than one '{name}' header; send exactly one.");
    ApiError::new(ErrorKind::InvalidRequest, message).with_code("duplicate_header")
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::request::Builder;

    use super::*;

    fn parse(text: &str) -> Option<Authority<'_>> {
        Authority::parse(text)
    }

    #[test]
    fn hosts_are_read_with_and_without_ports() {
        for (text, host, port) in [
            ("gw.example.com", "gw.example.com", None),
            ("gw:8080", "gw", Some(8080)),
            ("gw:", "gw", None),
            ("127.0.0.1:80", "127.0.0.1", Some(80)),
            ("[::1]", "[::1]", None),
            ("[::1]:8080", "[::1]", Some(8080)),
        ] {
            let read = parse(text).expect(text);
            assert_eq!((read.host, read.port), (host, port), "{text}");
        }
        for wrong in [
            "",
            ":80",
            "a:b",
            "a:+1",
            "a:65536",
            "a:1:2",
            "::1",
            "[::1",
            "[::1]80",
            "[gw]",
            "[fe80::1%eth0]",
            "u@gw",
            "http://gw",
            "gw/path",
            "g w",
            "gw\\x",
            "?",
            "gw#x",
        ] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn places_are_compared_without_case_and_with_default_ports() {
        for (a, b, default, same) in [
            ("GW.example", "gw.EXAMPLE", Some(80), true),
            ("gw", "gw:80", Some(80), true),
            ("gw", "gw:443", Some(80), false),
            ("gw", "gw:443", Some(443), true),
            ("gw", "gw:80", None, false),
            ("gw:8080", "gw:8081", Some(80), false),
            ("[::1]:80", "[0:0::1]", Some(80), true),
            ("[::1]", "[::2]", Some(80), false),
            ("gw", "evil-gw", Some(80), false),
        ] {
            let (left, right) = (parse(a).expect(a), parse(b).expect(b));
            assert_eq!(left.is_same(&right, default), same, "{a} {b}");
        }
    }

    #[test]
    fn names_are_told_from_addresses() {
        for (text, ip) in [
            ("127.0.0.1", true),
            ("[::ffff:127.0.0.1]", true),
            ("127.1", false),
            ("0x7f000001", false),
            ("gw", false),
        ] {
            assert_eq!(parse(text).expect(text).is_ip(), ip, "{text}");
        }
        let named = |text: &str| Authority::parse(text).is_some_and(|host| host.has_name("localhost"));
        assert!(
            named("LocalHost:1")
                && named("localhost.")
                && !named("localhost.evil.example")
                && !named("xlocalhost")
        );
    }

    fn of(builder: Builder) -> Result<Option<String>, String> {
        let request = builder.body(Body::empty()).expect("a request");
        match Authority::from_request(&request) {
            Ok(found) => Ok(found.map(|found| found.host().to_owned())),
            Err(error) => Err(error.code().to_owned()),
        }
    }

    #[test]
    fn a_request_is_for_one_host() {
        let get = |uri: &str, version| Request::builder().uri(uri).version(version);
        let (one, two) = (Version::HTTP_11, Version::HTTP_2);
        let refused = |code: &str| Err(code.to_owned());
        for (case, expected) in [
            (get("/", one).header("host", "gw:1"), Ok(Some("gw".to_owned()))),
            (get("/", one), refused("invalid_host")),
            (get("/", Version::HTTP_10), Ok(None)),
            (get("/", one).header("host", "gw").header("host", "gw"), refused("duplicate_header")),
            (get("/", one).header("host", ""), refused("invalid_host")),
            (get("/", one).header("host", "user@gw"), refused("invalid_host")),
            (get("http://gw/", one).header("host", "other"), Ok(Some("gw".to_owned()))),
            (get("http://gw/", one), refused("invalid_host")),
            (get("http://user@gw/", one).header("host", "gw"), refused("invalid_host")),
            (get("http://gw/", two), Ok(Some("gw".to_owned()))),
            (get("http://gw/", two).header("host", "GW"), Ok(Some("gw".to_owned()))),
            (get("http://gw/", two).header("host", "other"), refused("invalid_host")),
            (get("/", two).header("host", "gw"), Ok(Some("gw".to_owned()))),
            (get("/", two), refused("invalid_host")),
        ] {
            let said = format!("{case:?}");
            assert_eq!(of(case), expected, "{said}");
        }
    }
}
