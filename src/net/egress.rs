//! The guard of every request that a tool sends: what may be reached, how far redirects lead, how much comes back.
//!
//! Only public addresses, unless the operator opened others; judged when a connection is made, on every hop, so
//! that neither a redirect nor a name that changes its address leads inside. Through a proxy only the URL is judged: the
//! proxy resolves the name, and what it connects to is its own rules' matter. The rules are in `rules`, the public addresses in
//! `address`, the check of what a name resolves to in `resolve`.

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
pub(crate) use rules::{InvalidRule, intersect_domains};

const USER_AGENT: &str = concat!("antwort/", env!("CARGO_PKG_VERSION"));
/// How long a connection may take to come about, where the request as a whole has longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle connections to a server that are kept.
const MAX_IDLE_CONNECTIONS: usize = 8;
/// For this long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// What may be reached and how much of it is taken.
#[derive(Debug, Clone)]
pub struct EgressOptions {
    /// Hosts, addresses and CIDRs that may be reached although they are not public, each with a `:port` or for
    /// all ports. A host is opened whatever its address is.
    pub allow: Vec<String>,
    /// The only domains that may be reached, each with what is below it; `None`: all. Also holds for what `allow`
    /// opens.
    pub allowed_domains: Option<Vec<String>>,
    /// Redirects that are followed.
    pub max_redirects: usize,
    /// Bytes of an answer's body.
    pub max_response_bytes: usize,
    /// For the request as a whole: redirects, body and all.
    pub timeout: Duration,
    /// How connections are made.
    pub http: HttpClientOptions,
}

/// Sends requests to where they may go.
pub struct Egress {
    rules: Arc<EgressRules>,
    resolver: Arc<dyn Resolver>,
    limits: Limits,
    http: HttpClientOptions,
    by_proxy: Vec<(ProxyUrl, LazyClient)>,
    /// For all ports that no rule names.
    general: LazyClient,
    by_port: BTreeMap<u16, LazyClient>,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    redirects: usize,
    bytes: usize,
    timeout: Duration,
}

/// Made at the first request: it reads the system's certificates, which not every installation has or needs.
type LazyClient = OnceLock<Option<Client>>;

/// What came back, whatever its status.
#[derive(Debug, Clone)]
pub struct EgressResponse {
    /// The HTTP status. A redirect if it could not be followed: without target, or with a body to another origin.
    pub status: u16,
    /// The `content-type`, as the server wrote it.
    pub content_type: Option<String>,
    /// The whole body.
    pub body: Bytes,
    /// Where it came from in the end.
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
    /// A guard that asks the operating system for addresses. Fails where an entry of a list cannot be read.
    pub fn new(options: &EgressOptions) -> Result<Self, InvalidRule> {
        Self::with_resolver(options, Arc::new(SystemResolver))
    }

    /// A guard that asks `resolver` for addresses.
    pub fn with_resolver(options: &EgressOptions, resolver: Arc<dyn Resolver>) -> Result<Self, InvalidRule> {
        let rules = EgressRules::parse(&options.allow, options.allowed_domains.as_deref())?;
        Ok(Self {
            by_port: rules.ports().map(|port| (port, LazyClient::new())).collect(),
            general: LazyClient::new(),
            by_proxy: options.http.proxies.each().map(|proxy| (proxy.clone(), LazyClient::new())).collect(),
            http: options.http.clone(),
            rules: Arc::new(rules),
            resolver,
            limits: Limits {
                redirects: options.max_redirects,
                bytes: options.max_response_bytes,
                timeout: options.timeout,
            },
        })
    }

    /// Judges a URL that is to be used later, without resolving its host; [`Self::client`] judges it again.
    pub fn check(&self, url: &Url) -> Result<(), EgressError> {
        self.rules.check_url(url)
    }

    /// Whether the operator has opened what a URL names, rather than that it is public.
    pub fn is_allowlisted(&self, url: &Url) -> bool {
        self.rules.is_allowlisted(url)
    }

    /// A client for this URL and others of its port, for whoever needs more than a body: streams, other methods.
    ///
    /// It connects only to what the rules open (or to a proxy, which the rules do not bind), and follows no redirects; it has no time limit but that of
    /// connecting, and no limit of size. Judge each URL that it is used for.
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

    /// Sends a form, already encoded, to a URL. The form goes to no other origin, whatever the answer says.
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
        let url = Url::parse(url).map_err(|_| EgressError::BadUrl("it cannot be read"))?;
        let answer = self.follow(EgressRequest { method, url: url.clone(), headers, body });
        let answer = tokio::time::timeout(self.limits.timeout, answer).await;
        answer.unwrap_or_else(|_| Err(self.timed_out(&url)))
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
        built.inspect_err(|error| tracing::error!(%error, "no client for outgoing connections")).ok()
    }
}

impl EgressRequest {
    /// The request that a redirect asks for; `None` if the response is none, or none that is followed.
    fn redirect_target(&self, response: &Response) -> Result<Option<Self>, EgressError> {
        let keeps_method = match response.status() {
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => false,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
            _ => return Ok(None),
        };
        let Some(target) = response.headers().get(LOCATION) else { return Ok(None) };
        let target = target.to_str().ok().and_then(|target| self.url.join(target).ok());
        let url = target.ok_or(EgressError::BadUrl("a redirect's target cannot be read"))?;
        let same_origin = url.origin() == self.url.origin();
        // A body may hold what is meant for the first server alone.
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
