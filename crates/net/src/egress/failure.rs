//! Classification and logging of failed requests. The returned error's text is for callers; its causes are for logs only, and
//! are logged here without a request id, since connections may serve several requests. Errors carry them as their source, so
//! that they can be logged with the request, too.

use std::error::Error;

use reqwest::{StatusCode, Url};

use super::resolve::AddressesRefused;
use super::rules::Host;
use super::{CONNECT_TIMEOUT, Egress, EgressError};
use crate::causes::{self, ConnectFailure, FailureCause};
use crate::client::ProxyError;

impl Egress {
    /// Classifies an error of a client of [`Self::client`]. Its own text is not logged: it contains the URL, whose query may
    /// hold secrets.
    pub fn classify_error(&self, url: &Url, error: &reqwest::Error) -> EgressError {
        let host = host_of(url);
        if is_caused_by_refusal(error) {
            tracing::info!(host, "egress denied: none of the host's addresses is allowed; see egress.allow");
            return EgressError::NameNotAllowed { host };
        }
        let cause = |kind: &'static str, text: String| logged(FailureCause::new(kind, text).with_url(url));
        let chain = causes::chain(error);
        if self.http.proxies.for_url(url).is_some()
            && let Some(error) = ProxyError::from_reqwest(error, url.scheme() == "https")
        {
            let cause = cause("proxy", format!("{error}: {chain} (see egress.proxy and network.proxy)"));
            return EgressError::Proxy { host, error, cause };
        }
        match (error.is_connect(), error.is_timeout()) {
            (true, true) => {
                let limit = CONNECT_TIMEOUT.min(self.limits.timeout).as_secs_f64();
                let text =
                    format!("{chain} (no connection within {limit} s; at most 10 s and egress.timeout)");
                EgressError::Connect { host, cause: cause("connect_timeout", text) }
            }
            (true, false) => {
                EgressError::Connect { host, cause: cause(ConnectFailure::from_error(error).kind(), chain) }
            }
            (false, true) => EgressError::Timeout { after: self.limits.timeout, cause: cause("cut", chain) },
            (false, false) => EgressError::Broken { host, cause: cause("cut", chain) },
        }
    }

    /// The error for a 407 of a proxy, which answers requests without TLS in the server's place.
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

    /// The error for a request that exceeded `egress.timeout`.
    pub(super) fn timed_out(&self, url: &Url) -> EgressError {
        let after = self.limits.timeout;
        let cause = FailureCause::from_timeout("total_timeout", "egress.timeout", after);
        EgressError::Timeout { after, cause: logged(cause.with_url(url)) }
    }
}

fn logged(cause: FailureCause) -> FailureCause {
    let FailureCause { kind, url, text } = &cause;
    tracing::warn!(kind, url, cause = &**text, "an outgoing request of a tool or to an MCP server failed");
    cause
}

fn host_of(url: &Url) -> String {
    Host::from_url(url).map(|host| host.to_string()).unwrap_or_default()
}

fn is_caused_by_refusal(error: &reqwest::Error) -> bool {
    std::iter::successors(error.source(), |error| (*error).source())
        .any(|error| error.is::<AddressesRefused>())
}
