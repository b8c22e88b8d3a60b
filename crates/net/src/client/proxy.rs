//! HTTP proxies, and the choice of a proxy for a URL.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{Proxy, Url};
use serde::{Serialize, Serializer};

/// Proxy variables of the environment, in upper and lower case; of each pair the first that is set counts.
pub const PROXY_VARIABLES: [[&str; 2]; 4] = [
    ["HTTPS_PROXY", "https_proxy"],
    ["HTTP_PROXY", "http_proxy"],
    ["ALL_PROXY", "all_proxy"],
    ["NO_PROXY", "no_proxy"],
];

/// An invalid proxy URL. The message does not quote the URL, which may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected the URL of an HTTP proxy without a path or query, such as http://proxy.example.com:3128 or https://user:password@proxy.example.com"
)]
pub struct InvalidProxyUrl;

/// The URL of an HTTP proxy, with or without TLS. Displayed without its user and password.
#[derive(Clone)]
pub struct ProxyUrl(Arc<ParsedProxy>);

/// A URL, and its form for the HTTP client.
struct ParsedProxy {
    url: Url,
    proxy: Proxy,
}

impl ProxyUrl {
    /// Parses a URL such as `http://user:password@proxy.example.com:3128`.
    ///
    /// # Errors
    /// If its scheme is not `http` or `https`, or it holds more than credentials, host and port.
    pub fn parse(text: &str) -> Result<Self, InvalidProxyUrl> {
        let url = Url::parse(text.trim()).map_err(|_| InvalidProxyUrl)?;
        let is_plain = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() || url.port() == Some(0) || !is_plain
        {
            return Err(InvalidProxyUrl);
        }
        // The client would connect directly if it could not parse the URL.
        let reader = Matcher::builder().all(url.to_string()).build();
        reader.intercept(&Uri::from_static("http://server.invalid/")).ok_or(InvalidProxyUrl)?;
        let proxy = Proxy::all(url.clone()).map_err(|_| InvalidProxyUrl)?;
        Ok(Self(Arc::new(ParsedProxy { url, proxy })))
    }

    /// Parses a variable of the environment: without a scheme it is `http`.
    fn from_variable(text: &str) -> Result<Self, InvalidProxyUrl> {
        if text.contains("://") { Self::parse(text) } else { Self::parse(&format!("http://{text}")) }
    }

    /// Whether the connection to the proxy uses TLS.
    pub fn is_tls(&self) -> bool {
        self.0.url.scheme() == "https"
    }

    pub(super) fn to_reqwest(&self) -> Proxy {
        self.0.proxy.clone()
    }
}

impl PartialEq for ProxyUrl {
    fn eq(&self, other: &Self) -> bool {
        self.0.url == other.0.url
    }
}

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_credentials = !self.0.url.username().is_empty() || self.0.url.password().is_some();
        let credentials = if has_credentials { "********@" } else { "" };
        write!(f, "{}://{credentials}{}", self.0.url.scheme(), self.0.url.host_str().unwrap_or_default())?;
        self.0.url.port().map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ProxyUrl {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// The proxies of a client. Loopback addresses are never reached through a proxy, to which `localhost` is another machine.
#[derive(Debug, Clone, Default)]
pub enum Proxies {
    /// No proxy.
    #[default]
    Direct,
    /// One proxy for all servers.
    All(ProxyUrl),
    /// The proxies of the environment.
    Environment(Arc<EnvironmentProxies>),
}

impl Proxies {
    /// The proxy for a URL; `None`: connect directly.
    pub fn for_url(&self, url: &Url) -> Option<&ProxyUrl> {
        match self {
            Self::All(proxy) if !is_loopback_url(url) => Some(proxy),
            Self::Environment(proxies) if !is_loopback_url(url) => proxies.for_url(url),
            _ => None,
        }
    }

    /// All proxies.
    pub fn each(&self) -> impl Iterator<Item = &ProxyUrl> {
        let (one, two) = match self {
            Self::Direct => (None, None),
            Self::All(proxy) => (Some(proxy), None),
            Self::Environment(proxies) => (proxies.http.as_ref(), proxies.https.as_ref()),
        };
        one.into_iter().chain(two)
    }
}

/// The values of [`PROXY_VARIABLES`].
#[derive(Debug)]
pub struct EnvironmentProxies {
    http: Option<ProxyUrl>,
    https: Option<ProxyUrl>,
    /// Matches URLs that `NO_PROXY` does not exempt.
    exempting: Matcher,
}

impl EnvironmentProxies {
    /// Reads the variables.
    ///
    /// # Errors
    /// The name of a variable whose value is not the URL of an HTTP proxy.
    pub fn from_lookup(
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, (&'static str, InvalidProxyUrl)> {
        let [https, http, all, none] = PROXY_VARIABLES.map(|names| {
            names.into_iter().find_map(|name| Some((name, lookup(name).filter(|value| !value.is_empty())?)))
        });
        let proxy = |variable: Option<(&'static str, String)>| {
            let parse = |(name, value): (&'static str, String)| {
                ProxyUrl::from_variable(&value).map_err(|error| (name, error))
            };
            variable.map(parse).transpose()
        };
        let (https, http, all) = (proxy(https)?, proxy(http)?, proxy(all)?);
        let none = none.map(|(_, value)| value).unwrap_or_default();
        Ok(Self {
            http: http.or_else(|| all.clone()),
            https: https.or(all),
            exempting: Matcher::builder().all("http://proxy.invalid").no(none).build(),
        })
    }

    fn for_url(&self, url: &Url) -> Option<&ProxyUrl> {
        let proxy = if url.scheme() == "https" { &self.https } else { &self.http };
        // A URL that the client cannot parse cannot be requested either.
        let intercepted =
            url.as_str().parse::<Uri>().is_ok_and(|url| self.exempting.intercept(&url).is_some());
        proxy.as_ref().filter(|_| intercepted)
    }
}

/// Whether the host of a URL is a loopback address or `localhost`, without DNS resolution.
pub fn is_loopback_url(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => {
            let name = host.strip_suffix('.').unwrap_or(host);
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Result<Proxies, (&'static str, InvalidProxyUrl)> {
        let lookup = |wanted: &str| {
            let found = variables.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| (*value).to_owned())
        };
        EnvironmentProxies::from_lookup(lookup).map(|proxies| Proxies::Environment(Arc::new(proxies)))
    }

    fn chosen(proxies: &Proxies, url: &str) -> String {
        proxies.for_url(&url.parse().expect("a URL")).map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn a_proxy_is_shown_without_its_credentials() {
        for (text, shown) in [
            ("http://proxy.test:3128", "http://proxy.test:3128"),
            ("http://proxy.test:3128/", "http://proxy.test:3128"),
            ("https://proxy.test", "https://proxy.test"),
            ("http://user:s3cret@proxy.test:3128", "http://********@proxy.test:3128"),
            ("http://s3cret@[2001:db8::1]:3128", "http://********@[2001:db8::1]:3128"),
            ("http://user:s3|{cret}@proxy.test:3128", "http://********@proxy.test:3128"),
        ] {
            let proxy = ProxyUrl::parse(text).expect(text);
            assert_eq!((proxy.to_string(), format!("{proxy:?}")), (shown.to_owned(), shown.to_owned()));
            assert_eq!(serde_json::to_value(&proxy).expect("JSON"), shown);
        }
    }

    #[test]
    fn what_is_no_http_proxy_is_refused_without_being_quoted() {
        for text in [
            "",
            "proxy.test:3128",
            "10.0.0.1:3128",
            "socks5://proxy.test:1080",
            "ftp://proxy.test",
            "http://",
            "http://proxy.test:0",
            "http://proxy.test:99999",
            "http://proxy.test/path",
            "http://proxy.test/?a=s3cret",
            "http://user:s3cret@",
        ] {
            let error = ProxyUrl::parse(text).expect_err(text);
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn this_machine_is_reached_without_a_proxy() {
        let all = Proxies::All(ProxyUrl::parse("http://proxy.test:3128").expect("a proxy"));
        for url in [
            "http://localhost:8080/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "http://127.0.0.1/",
            "http://127.1/",
            "http://0.0.0.0/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
        ] {
            assert_eq!(chosen(&all, url), "", "{url}");
        }
        for url in ["http://10.0.0.1/", "https://example.com/", "https://notlocalhost/"] {
            assert_eq!(chosen(&all, url), "http://proxy.test:3128", "{url}");
        }
    }

    #[test]
    fn the_environment_says_which_proxy_leads_where() {
        let said = [
            ("HTTPS_PROXY", "secure.test:1"),
            ("https_proxy", "http://not.this:9"),
            ("http_proxy", "http://plain.test:2"),
            ("NO_PROXY", "corp.test, .inner.test,10.0.0.0/8"),
        ];
        let proxies = environment(&said).expect("proxies");
        for (url, expected) in [
            ("https://api.test/v1", "http://secure.test:1"),
            ("http://api.test/v1", "http://plain.test:2"),
            ("https://corp.test/", ""),
            ("https://a.corp.test:8443/", ""),
            ("https://a.inner.test/", ""),
            ("https://notcorp.test/", "http://secure.test:1"),
            ("http://10.1.2.3/", ""),
            ("http://11.1.2.3/", "http://plain.test:2"),
            ("https://localhost/", ""),
        ] {
            assert_eq!(chosen(&proxies, url), expected, "{url}");
        }
        let proxies = environment(&[("all_proxy", "http://all.test:3"), ("no_proxy", "*")]).expect("proxies");
        assert_eq!(chosen(&proxies, "https://api.test/"), "");
        let proxies =
            environment(&[("ALL_PROXY", "http://all.test:3"), ("HTTP_PROXY", "")]).expect("proxies");
        assert_eq!(chosen(&proxies, "http://api.test/"), "http://all.test:3");
        let error = environment(&[("http_proxy", "socks5://s3cret@proxy.test")]).expect_err("no HTTP proxy");
        assert_eq!(error.0, "http_proxy");
    }
}
