//! The egress guard (SSRF protection) for requests of tools and MCP servers: allowed targets, redirects, response size.
//!
//! Only public addresses are allowed, unless the operator allowlists others. Addresses are checked when a connection is
//! made, on every hop, so that neither redirects nor DNS rebinding lead into the internal network. Through a proxy only the
//! URL is checked: the proxy resolves the name, by its own rules. Rules are in `rules`, public addresses in `address`, the
//! check of resolved addresses in `resolve`.

mod address;
mod error;
mod failure;
mod resolve;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, ClientBuilder, Method, Response, StatusCode, Url};

use super::client::{HttpClientOptions, ProxyUrl};
pub use error::EgressError;
use resolve::GuardedResolver;
pub use resolve::Resolver;
pub(crate) use resolve::SystemResolver;
use rules::EgressRules;
pub use rules::{InvalidRule, intersect_domains};

const USER_AGENT: &str = concat!("antwort/", env!("CARGO_PKG_VERSION"));
/// Connect timeout, if the timeout of the request is longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle connections that are pooled for each host.
const MAX_IDLE_CONNECTIONS: usize = 8;
/// How long idle connections are pooled.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Settings of the egress guard.
#[derive(Debug, Clone)]
pub struct EgressOptions {
    /// Allowlist of hosts, addresses and CIDRs that are not public, each with a `:port` or for all ports. A host is allowed
    /// whatever its address is.
    pub allow: Vec<String>,
    /// The only domains that may be reached, with their subdomains; `None`: all. Applies to allowlisted hosts, too.
    pub allowed_domains: Option<Vec<String>>,
    /// Maximum number of redirects.
    pub max_redirects: usize,
    /// Maximum size of a response body in bytes.
    pub max_response_bytes: usize,
    /// Timeout of a request as a whole, with redirects and body.
    pub timeout: Duration,
    /// Proxies and certificates.
    pub http: HttpClientOptions,
}

/// The egress guard: an HTTP client for allowed targets.
pub struct Egress {
    rules: Arc<EgressRules>,
    resolver: Arc<dyn Resolver>,
    limits: FetchLimits,
    http: HttpClientOptions,
    by_proxy: Vec<(ProxyUrl, LazyClient)>,
    /// The client for ports that no rule names.
    general: LazyClient,
    by_port: BTreeMap<u16, LazyClient>,
}

#[derive(Debug, Clone, Copy)]
struct FetchLimits {
    redirects: usize,
    bytes: usize,
    timeout: Duration,
}

/// Built at the first request: it reads the system's certificates, which not every installation has or needs.
type LazyClient = OnceLock<Option<Client>>;

/// A response of any status.
#[derive(Debug, Clone)]
pub struct EgressResponse {
    /// The HTTP status; a redirect status if the redirect was not followed: without target, or with a body to another origin.
    pub status: u16,
    /// The `content-type` header.
    pub content_type: Option<String>,
    /// The whole body.
    pub body: Bytes,
    /// The URL after redirects.
    pub final_url: Url,
}

/// One request of a chain of redirects.
struct EgressRequest {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Bytes>,
}

impl Egress {
    /// A guard that uses the system's resolver. Fails if an entry of a list is invalid.
    pub fn new(options: &EgressOptions) -> Result<Self, InvalidRule> {
        Self::with_resolver(options, Arc::new(SystemResolver))
    }

    /// A guard that uses `resolver`.
    pub fn with_resolver(options: &EgressOptions, resolver: Arc<dyn Resolver>) -> Result<Self, InvalidRule> {
        let rules = EgressRules::parse(&options.allow, options.allowed_domains.as_deref())?;
        Ok(Self {
            by_port: rules.ports().map(|port| (port, LazyClient::new())).collect(),
            general: LazyClient::new(),
            by_proxy: options.http.proxies.each().map(|proxy| (proxy.clone(), LazyClient::new())).collect(),
            http: options.http.clone(),
            rules: Arc::new(rules),
            resolver,
            limits: FetchLimits {
                redirects: options.max_redirects,
                bytes: options.max_response_bytes,
                timeout: options.timeout,
            },
        })
    }

    /// Checks a URL that is to be used later, without DNS resolution; [`Self::client`] checks it again.
    pub fn check(&self, url: &Url) -> Result<(), EgressError> {
        self.rules.check_url(url)
    }

    /// Whether the operator allowlisted the host of a URL.
    pub fn is_allowlisted(&self, url: &Url) -> bool {
        self.rules.is_allowlisted(url)
    }

    /// A client for this URL and others with its port, for callers that need streams or other methods.
    ///
    /// It connects to allowed addresses only (or to a proxy, which the rules do not apply to), and follows no redirects. It
    /// has a connect timeout, but no timeout of the request and no size limit. Call [`Self::check`] for each URL.
    pub fn client(&self, url: &Url) -> Result<&Client, EgressError> {
        self.check(url)?;
        if let Some(proxy) = self.http.proxies.for_url(url) {
            let client = self.by_proxy.iter().find(|(other, _)| other == proxy).map(|(_, client)| client);
            let client = client.and_then(|client| {
                client.get_or_init(|| self.finish(self.http.builder(Some(proxy)))).as_ref()
            });
            return client.ok_or(EgressError::NoClient);
        }
        let named = url.port_or_known_default().and_then(|port| Some((port, self.by_port.get(&port)?)));
        let (port, client) = match named {
            Some((port, client)) => (Some(port), client),
            None => (None, &self.general),
        };
        client.get_or_init(|| self.build(port)).as_ref().ok_or(EgressError::NoClient)
    }

    /// Fetches a URL.
    pub async fn get(&self, url: &str, headers: HeaderMap) -> Result<EgressResponse, EgressError> {
        self.fetch(Method::GET, url, headers, None).await
    }

    /// Sends JSON to a URL.
    pub async fn post_json(
        &self,
        url: &str,
        mut headers: HeaderMap,
        body: &serde_json::Value,
    ) -> Result<EgressResponse, EgressError> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.fetch(Method::POST, url, headers, Some(body.to_string().into())).await
    }

    /// Sends a body to a URL, byte for byte, and returns the status of the answer. No redirect is followed, and of the
    /// answer's body nothing is read.
    pub async fn post_for_status(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<u16, EgressError> {
        let url = parsed(url)?;
        let request = EgressRequest { method: Method::POST, url: url.clone(), headers, body: Some(body) };
        let answer = tokio::time::timeout(self.limits.timeout, self.send(&request)).await;
        Ok(answer.unwrap_or_else(|_| Err(self.timed_out(&url)))?.status().as_u16())
    }

    /// Sends an encoded form to a URL. A redirect to another origin does not get the form.
    pub async fn post_form(
        &self,
        url: &str,
        mut headers: HeaderMap,
        form: String,
    ) -> Result<EgressResponse, EgressError> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        self.fetch(Method::POST, url, headers, Some(form.into())).await
    }

    async fn fetch(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Option<Bytes>,
    ) -> Result<EgressResponse, EgressError> {
        let url = parsed(url)?;
        let response = self.follow(EgressRequest { method, url: url.clone(), headers, body });
        let response = tokio::time::timeout(self.limits.timeout, response).await;
        response.unwrap_or_else(|_| Err(self.timed_out(&url)))
    }

    async fn follow(&self, mut request: EgressRequest) -> Result<EgressResponse, EgressError> {
        let response = self.send(&request).await?;
        let Some(next) = request.redirect_target(&response)? else {
            return self.read(request, response).await;
        };
        request = next;
        for _ in 0..self.limits.redirects {
            let response = self.send(&request).await.map_err(EgressError::for_redirect)?;
            let Some(next) = request.redirect_target(&response)? else {
                return self.read(request, response).await.map_err(EgressError::for_redirect);
            };
            request = next;
        }
        Err(EgressError::TooManyRedirects { limit: self.limits.redirects })
    }

    async fn send(&self, request: &EgressRequest) -> Result<Response, EgressError> {
        let builder = self
            .client(&request.url)?
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone());
        let builder = match &request.body {
            Some(body) => builder.body(body.clone()),
            None => builder,
        };
        let response = builder.send().await.map_err(|error| self.classify_error(&request.url, &error))?;
        self.proxy_refusal(&request.url, response.status()).map_or(Ok(response), Err)
    }

    async fn read(
        &self,
        request: EgressRequest,
        mut response: Response,
    ) -> Result<EgressResponse, EgressError> {
        let limit = self.limits.bytes;
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.map(str::to_owned);
        if response.content_length().is_some_and(|length| length > limit as u64) {
            return Err(EgressError::TooLarge { limit });
        }
        let mut body = Vec::new();
        while let Some(piece) =
            response.chunk().await.map_err(|error| self.classify_error(&request.url, &error))?
        {
            if body.len().saturating_add(piece.len()) > limit {
                return Err(EgressError::TooLarge { limit });
            }
            body.extend_from_slice(&piece);
        }
        let status = response.status().as_u16();
        Ok(EgressResponse { status, content_type, body: body.into(), final_url: request.url })
    }

    fn build(&self, port: Option<u16>) -> Option<Client> {
        let guard =
            GuardedResolver { resolver: Arc::clone(&self.resolver), rules: Arc::clone(&self.rules), port };
        self.finish(self.http.builder(None).dns_resolver(Arc::new(guard)))
    }

    fn finish(&self, builder: ClientBuilder) -> Option<Client> {
        let built = builder
            .user_agent(USER_AGENT)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT.min(self.limits.timeout))
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .tcp_nodelay(true)
            .build();
        built
            .inspect_err(
                |error| tracing::error!(%error, "building the HTTP client of the egress guard failed"),
            )
            .ok()
    }
}

fn parsed(url: &str) -> Result<Url, EgressError> {
    Url::parse(url).map_err(|_| EgressError::BadUrl("it cannot be parsed"))
}

impl EgressRequest {
    /// The next request if the response is a redirect that is followed.
    fn redirect_target(&self, response: &Response) -> Result<Option<Self>, EgressError> {
        let keeps_method = match response.status() {
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => false,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
            _ => return Ok(None),
        };
        let Some(target) = response.headers().get(LOCATION) else { return Ok(None) };
        let target = target.to_str().ok().and_then(|target| self.url.join(target).ok());
        let url = target.ok_or(EgressError::BadUrl("the target of a redirect cannot be parsed"))?;
        let same_origin = url.origin() == self.url.origin();
        // A body may hold data that is meant for the first server only.
        if keeps_method && self.body.is_some() && !same_origin {
            return Ok(None);
        }
        let mut headers = if same_origin { self.headers.clone() } else { HeaderMap::new() };
        if keeps_method {
            return Ok(Some(Self { method: self.method.clone(), url, headers, body: self.body.clone() }));
        }
        headers.remove(CONTENT_TYPE);
        headers.remove(CONTENT_LENGTH);
        Ok(Some(Self { method: Method::GET, url, headers, body: None }))
    }
}
