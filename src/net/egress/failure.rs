//! What came of a request that failed: an error for whoever asked, and a line in the log with the causes, which callers are
//! not told of. The errors hold them, too, as connections are made for several requests: whoever knows for which one it
//! was logs them with that.

use std::error::Error;

use reqwest::{StatusCode, Url};

use super::resolve::AddressesRefused;
use super::rules::Host;
use super::{CONNECT_TIMEOUT, Egress, EgressError};
use crate::net::causes::{self, ConnectFailure, FailureCause};
use crate::net::client::ProxyError;

impl Egress {
    /// What an error of [`Self::client`]'s means. Its own text is not logged: it holds the URL with whatever secrets are in
    /// its query.
    pub fn classify_error(&self, url: &Url, error: &reqwest::Error) -> EgressError {
        let host = host_of(url);
        if is_caused_by_refusal(error) {
            tracing::info!(host, "none of the addresses of a host may be reached; see egress.allow");
            return EgressError::NameNotAllowed { host };
        }
        let because = |kind: &'static str, text: String| logged(FailureCause::new(kind, text).with_url(url));
        let chain = causes::chain(error);
        if self.http.proxies.for_url(url).is_some()
            && let Some(error) = ProxyError::from_reqwest(error, url.scheme() == "https")
        {
            let cause = because("proxy", format!("{error}: {chain} (see egress.proxy and network.proxy)"));
            return EgressError::Proxy { host, error, cause };
        }
        match (error.is_connect(), error.is_timeout()) {
            (true, true) => {
                let limit = CONNECT_TIMEOUT.min(self.limits.timeout).as_secs_f64();
                let text = format!("{chain} (no connection within {limit} s; at most egress.timeout)");
                EgressError::Connect { host, cause: because("connect_timeout", text) }
            }
            (true, false) => EgressError::Connect {
                host,
                cause: because(ConnectFailure::from_reqwest(error).kind(), chain),
            },
            (false, true) => {
                EgressError::Timeout { after: self.limits.timeout, cause: because("cut", chain) }
            }
            (false, false) => EgressError::Broken { host, cause: because("cut", chain) },
        }
    }

    /// A status that is a proxy's own: one that is asked for a server without TLS answers in its place.
    pub fn proxy_refusal(&self, url: &Url, status: StatusCode) -> Option<EgressError> {
        let is_proxys = status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
            && url.scheme() == "http"
            && self.http.proxies.for_url(url).is_some();
        is_proxys.then(|| {
            let error = ProxyError::Credentials;
            let text = format!("{error} (see egress.proxy and network.proxy)");
            EgressError::Proxy {
                host: host_of(url),
                error,
                cause: logged(FailureCause::new("proxy", text).with_url(url)),
            }
        })
    }

    /// The time for a request as a whole is over.
    pub(super) fn timed_out(&self, url: &Url) -> EgressError {
        let after = self.limits.timeout;
        let text = format!("egress.timeout, {} s", after.as_secs_f64());
        EgressError::Timeout { after, cause: logged(FailureCause::new("total_timeout", text).with_url(url)) }
    }
}

fn logged(cause: FailureCause) -> FailureCause {
    let FailureCause { kind, url, text } = &cause;
    tracing::warn!(kind, url, cause = &**text, "a connection of a tool or an MCP server failed");
    cause
}

fn host_of(url: &Url) -> String {
    Host::from_url(url).map(|host| host.to_string()).unwrap_or_default()
}

fn is_caused_by_refusal(error: &reqwest::Error) -> bool {
    std::iter::successors(error.source(), |error| (*error).source())
        .any(|error| error.is::<AddressesRefused>())
}
