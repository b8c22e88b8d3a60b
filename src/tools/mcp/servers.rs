//! The servers that requests may use: those of the configuration by their labels, others by their URLs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use globset::{Glob, GlobMatcher, GlobSet, GlobSetBuilder};
use reqwest::Url;
use reqwest::header::HeaderMap;
use secrecy::SecretString;

use super::connection::{Connector, Endpoint, HttpKind, Place, StdioCommand};
use super::credentials::{CredentialSource, Fixed, for_request};
use super::error::McpError;
use super::pool::{Key, Pool};
use super::session::{Freshness, Session, SessionLimits};
use super::toolset::{ServedTool, ToolSet};
use crate::config::{
    McpAuth, McpRule, McpServerSettings, McpSettings, McpTransport, McpTrust, Settings, ToolsSettings,
};
use crate::net::egress::{Egress, EgressError, EgressOptions, in_both};
use crate::protocol::item::hosted::McpListedTool;
use crate::protocol::tool::{Approval, McpTool, McpToolFilter};
use crate::telemetry::metrics::Metrics;
use crate::tools::Toolbox;
use crate::tools::stack::Stack;

/// How the tools of a server are used.
pub(super) struct Terms {
    /// The id of its executor, for metrics and settings.
    pub executor: Arc<str>,
    /// For how long a call may show no sign of life.
    pub timeout: Duration,
    /// Whether what its server says of a tool's effects counts for retries and for using results again.
    pub trusts_hints: bool,
    /// The general settings as they hold for its tools.
    pub tools: ToolsSettings,
}

/// Who decides about calls before a person is asked.
struct Rules {
    allowed: Option<GlobSet>,
    blocked: GlobSet,
    single: Vec<(GlobMatcher, McpRule)>,
    trust: Option<McpTrust>,
}

/// A server of the configuration.
struct Configured {
    label: Arc<str>,
    endpoint: Endpoint,
    /// `None`: a program, which is shown none.
    credentials: Option<CredentialSource>,
    takes_callers: bool,
    terms: Arc<Terms>,
    rules: Arc<Rules>,
    limits: SessionLimits,
    settings: McpServerSettings,
}

/// All servers.
pub struct McpServers {
    settings: McpSettings,
    configured: BTreeMap<String, Configured>,
    pool: Pool,
    /// For servers that requests bring.
    egress: Arc<Egress>,
    request_terms: Arc<Terms>,
    request_rules: Arc<Rules>,
    stack: Stack,
}

/// Who wants to use a server.
#[derive(Clone, Copy)]
pub struct Wanting<'a> {
    /// The caller's tenant.
    pub tenant: &'a Arc<str>,
    /// The caller's own `Authorization`, for servers that are configured to get it.
    pub authorization: Option<&'a SecretString>,
}

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// No server of this label is configured, or not for this tenant.
    #[error("no server called '{0}' is configured")]
    UnknownLabel(String),
    /// Requests may not bring servers.
    #[error("servers of requests are not served here (mcp.requests.enabled)")]
    Disabled,
    /// A field means nothing for this server.
    #[error("{why}")]
    Unsupported {
        /// The field of the tool.
        field: &'static str,
        /// In words.
        why: &'static str,
    },
    /// The URL cannot be used.
    #[error("{0}")]
    Url(String),
    /// A header cannot be sent.
    #[error("{why}")]
    Header {
        /// The field of the tool.
        field: &'static str,
        /// In words.
        why: String,
    },
    /// The credentials could not be had.
    #[error("{0}")]
    Credentials(McpError),
    /// Too many sessions are open.
    #[error("too many sessions with MCP servers are open; try again")]
    Full,
}

/// What is to become of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is made.
    Call,
    /// A person is asked first.
    Ask,
    /// It is not made.
    Deny,
}

/// A server as one request uses it. Keeps its session.
#[derive(Clone)]
pub struct Binding {
    label: Arc<str>,
    session: Arc<Session>,
    terms: Arc<Terms>,
    rules: Arc<Rules>,
    /// Whether the operator configured it.
    pub is_configured: bool,
    /// Whether the response fails where its tools cannot be listed.
    pub required: bool,
    stack: Stack,
}

impl McpServers {
    /// Reads the settings; connects to nobody.
    ///
    /// # Errors
    /// In words, with the key, if a setting cannot be used.
    pub fn new(
        settings: &Settings,
        egress: &Arc<Egress>,
        connector: Arc<dyn Connector>,
        toolbox: &Toolbox,
        metrics: &Arc<Metrics>,
    ) -> Result<Arc<Self>, String> {
        let mcp = &settings.mcp;
        let mut configured = BTreeMap::new();
        for (label, server) in &mcp.servers {
            let read = Configured::read(label, server, settings);
            configured
                .insert(label.clone(), read.map_err(|problem| format!("mcp.servers.{label}: {problem}"))?);
        }
        let requests = &mcp.requests;
        let mut tools = settings.tools.clone();
        // A result that was got with one client's token is for nobody else.
        tools.cache.enabled = false;
        tools.overrides.clear();
        Ok(Arc::new(Self {
            pool: Pool::new(connector, mcp.sessions.max, mcp.sessions.idle_timeout, Arc::clone(metrics)),
            egress: request_egress(settings, egress)?,
            request_terms: Arc::new(Terms::new(
                "mcp".into(),
                tools,
                (requests.timeout, requests.max_time),
                requests.trust,
            )),
            request_rules: Arc::new(Rules {
                allowed: None,
                blocked: GlobSet::empty(),
                single: Vec::new(),
                trust: requests.trust,
            }),
            settings: mcp.clone(),
            configured,
            stack: toolbox.stack(),
        }))
    }

    /// Whether some server is to get the callers' own credentials.
    pub fn takes_callers_credentials(&self) -> bool {
        self.configured.values().any(|server| server.takes_callers)
    }

    /// Servers that one request may use.
    pub fn most_servers(&self) -> usize {
        self.settings.requests.max_servers
    }

    /// For how long an approval can be given.
    pub fn approvals_expire_after(&self) -> Duration {
        self.settings.approvals.expires_after
    }

    /// The server that a request means. Connects to nobody.
    ///
    /// # Errors
    /// If there is no such server for this caller, or it may not be used.
    pub fn bind(&self, tool: &McpTool, wanting: Wanting<'_>) -> Result<Binding, BindError> {
        match &tool.server_url {
            Some(url) => self.bind_url(tool, url, wanting),
            None => self.bind_label(&tool.server_label, Some(tool), wanting),
        }
    }

    /// A configured server.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn bind_label(
        &self,
        label: &str,
        tool: Option<&McpTool>,
        wanting: Wanting<'_>,
    ) -> Result<Binding, BindError> {
        let server = self.configured.get(label).filter(|server| server.is_open_to(wanting.tenant));
        let Some(server) = server else { return Err(BindError::UnknownLabel(label.to_owned())) };
        let given = tool.and_then(|tool| tool.authorization.as_ref());
        if given.is_some() && !server.takes_callers {
            let why = "This server is configured with its own credentials and takes none of clients.";
            return Err(BindError::Unsupported { field: "authorization", why });
        }
        if tool.is_some_and(|tool| !tool.headers.is_empty()) {
            let why = "A server of the configuration takes no headers of clients.";
            return Err(BindError::Unsupported { field: "headers", why });
        }
        let given = given.map(|token| SecretString::from(bearer(token.expose())));
        let credentials = match &server.credentials {
            Some(source) => {
                source.for_caller(given.as_ref().or(wanting.authorization)).map_err(BindError::Credentials)?
            }
            None => Arc::new(Fixed::new(HeaderMap::new())),
        };
        let key = Key::new(format!("label:{label}"), &*credentials, wanting.tenant);
        let session = self.pool.session(key, &server.endpoint, credentials, server.limits);
        Ok(Binding {
            label: Arc::clone(&server.label),
            session: session.ok_or(BindError::Full)?,
            terms: Arc::clone(&server.terms),
            rules: Arc::clone(&server.rules),
            is_configured: true,
            required: server.settings.required,
            stack: self.stack.clone(),
        })
    }

    fn bind_url(&self, tool: &McpTool, url: &str, wanting: Wanting<'_>) -> Result<Binding, BindError> {
        if !self.settings.requests.enabled {
            return Err(BindError::Disabled);
        }
        let url = self.check_url(url)?;
        let headers = tool.headers.iter().map(|(name, value)| (name.as_str(), value.expose()));
        let credentials = for_request(tool.authorization.as_ref().map(|token| token.expose()), headers)
            .map_err(|bad| {
                let is_token = tool.authorization.is_some() && bad.name == "authorization";
                let field = if is_token { "authorization" } else { "headers" };
                BindError::Header { field, why: bad.to_string() }
            })?;
        let key = Key::new(format!("url:{url}"), &*credentials, wanting.tenant);
        let endpoint = Endpoint {
            name: url.host_str().unwrap_or_default().into(),
            place: Place::Http { url, kind: HttpKind::Auto, egress: Arc::clone(&self.egress) },
            // Whoever brings a server is not to spend the operator's tokens through it.
            may_sample: false,
        };
        let requests = &self.settings.requests;
        let limits = limits(&self.settings, None, requests.max_in_flight);
        let session = self.pool.session(key, &endpoint, credentials, limits);
        Ok(Binding {
            label: tool.server_label.as_str().into(),
            session: session.ok_or(BindError::Full)?,
            terms: Arc::clone(&self.request_terms),
            rules: Arc::clone(&self.request_rules),
            is_configured: false,
            required: false,
            stack: self.stack.clone(),
        })
    }

    /// A URL that may be connected to, as far as can be told before its host is resolved.
    fn check_url(&self, url: &str) -> Result<Url, BindError> {
        let bad = |why: &str| BindError::Url(format!("The URL of the server is not acceptable: {why}."));
        let url = Url::parse(url).map_err(|_| bad("it cannot be read"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("it must begin with https://"));
        }
        self.egress.check(&url).map_err(|error| BindError::Url(refusal(&error)))?;
        if url.scheme() == "http" && !self.settings.requests.allow_http && !self.egress.opens(&url) {
            return Err(bad("it must begin with https://"));
        }
        Ok(url)
    }

    /// Lets sessions go that nobody uses. To be called from time to time.
    pub async fn reap(&self) {
        self.pool.reap().await;
    }

    /// Closes all sessions.
    pub async fn shutdown(&self) {
        self.pool.close().await;
    }

    /// How each server of the configuration is, and each that requests brought and is still known.
    pub fn states(&self) -> Vec<super::status::ServerState> {
        let mut states: Vec<_> =
            self.pool.sessions().iter().map(|(key, session)| key.state(session)).collect();
        for (label, server) in &self.configured {
            if !states.iter().any(|state| state.server_label.as_deref() == Some(label)) {
                states.push(super::status::ServerState::unused(label, &server.endpoint));
            }
        }
        for state in &mut states {
            let of = state.server_label.as_deref().and_then(|label| self.configured.get(label));
            state.description = of.and_then(|server| server.settings.description.clone());
        }
        states.sort_by_key(super::status::ServerState::sort_key);
        states
    }

    /// The labels of the configured servers that this tenant may use.
    pub fn labels(&self, tenant: &str) -> Vec<&str> {
        let open = self.configured.iter().filter(|(_, server)| server.is_open_to(tenant));
        open.map(|(label, _)| label.as_str()).collect()
    }
}

impl Terms {
    fn new(
        executor: Arc<str>,
        mut tools: ToolsSettings,
        (timeout, max_time): (Duration, Duration),
        trust: Option<McpTrust>,
    ) -> Self {
        // The stack's timeout is for the whole; the connection watches for signs of life.
        tools.timeout = max_time;
        tools.routes.clear();
        let trusts_hints = matches!(trust, Some(McpTrust::Annotations | McpTrust::Trusted));
        Self { executor, timeout, trusts_hints, tools }
    }
}

impl Configured {
    fn read(label: &str, server: &McpServerSettings, settings: &Settings) -> Result<Self, String> {
        let requests = &settings.mcp.requests;
        let endpoint = endpoint(label, server, settings)?;
        let credentials = match &endpoint.place {
            Place::Http { url, egress, .. } => {
                Some(CredentialSource::new(server, egress, url).map_err(|error| error.to_string())?)
            }
            Place::Stdio(_) => None,
        };
        let takes_callers = matches!(server.auth, McpAuth::Forward | McpAuth::TokenExchange(_));
        let mut tools = settings.tools.clone();
        tools.overrides = tools
            .overrides
            .into_iter()
            .filter_map(|(name, own)| Some((name.strip_prefix(label)?.strip_prefix("__")?.to_owned(), own)))
            .collect();
        tools.cache.enabled &= !takes_callers;
        Ok(Self {
            label: label.into(),
            endpoint,
            credentials,
            takes_callers,
            terms: Arc::new(Terms::new(
                format!("mcp:{label}").into(),
                tools,
                server.patience(),
                server.trust,
            )),
            rules: Arc::new(Rules::read(server)?),
            limits: limits(
                &settings.mcp,
                server.tool_ttl,
                server.max_in_flight.unwrap_or(requests.max_in_flight),
            ),
            settings: server.clone(),
        })
    }

    fn is_open_to(&self, tenant: &str) -> bool {
        let tenants = self.settings.tenants.as_ref();
        tenants.is_none_or(|tenants| tenants.iter().any(|other| other == tenant))
    }
}

fn limits(mcp: &McpSettings, tool_ttl: Option<Duration>, max_in_flight: usize) -> SessionLimits {
    SessionLimits {
        list_timeout: mcp.list_timeout,
        tool_ttl: tool_ttl.unwrap_or(mcp.tool_ttl),
        max_in_flight,
        max_tools: mcp.requests.max_tools,
    }
}

/// The operator's own servers may be anywhere; a redirect or a name that changes leads nowhere else.
fn endpoint(label: &str, server: &McpServerSettings, settings: &Settings) -> Result<Endpoint, String> {
    let (name, may_sample) = (Arc::from(label), server.sampling);
    if let Some(program) = &server.command {
        let command = StdioCommand {
            program: program.clone(),
            args: server.args.clone(),
            env: server.env.clone(),
            cwd: server.cwd.clone(),
        };
        return Ok(Endpoint { name, place: Place::Stdio(Arc::new(command)), may_sample });
    }
    let url = server.url.as_deref().ok_or("it has neither a url nor a command")?;
    let url = Url::parse(url).map_err(|error| format!("url: {error}"))?;
    let host = url.host_str().ok_or("url: it has no host")?;
    let port = url.port_or_known_default().unwrap_or_default();
    let mut allow = settings.egress.allow.clone();
    allow.push(format!("{host}:{port}"));
    allow.extend(token_host(&server.auth));
    let options = EgressOptions {
        allow,
        allowed_domains: None,
        max_redirects: 0,
        max_response_bytes: settings.mcp.max_message_bytes,
        timeout: settings.mcp.list_timeout,
    };
    let egress = Arc::new(Egress::new(&options).map_err(|error| format!("url: {error}"))?);
    let kind = match server.transport.unwrap_or_default() {
        McpTransport::StreamableHttp => HttpKind::Streamable,
        McpTransport::Sse => HttpKind::Sse,
        McpTransport::JsonRpc => HttpKind::JsonRpc,
        McpTransport::Auto | McpTransport::Stdio => HttpKind::Auto,
    };
    Ok(Endpoint { name, place: Place::Http { url, kind, egress }, may_sample })
}

/// Where the operator says that tokens are had.
fn token_host(auth: &McpAuth) -> Option<String> {
    let url = match auth {
        McpAuth::ClientCredentials(client) => client.token_url.as_deref(),
        McpAuth::TokenExchange(exchange) => exchange.token_url.as_deref(),
        McpAuth::None | McpAuth::Bearer { .. } | McpAuth::Forward => None,
    };
    let url = Url::parse(url?).ok()?;
    Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?))
}

/// The general guard, narrowed to the domains in which servers of requests may be.
fn request_egress(settings: &Settings, general: &Arc<Egress>) -> Result<Arc<Egress>, String> {
    let Some(domains) = &settings.mcp.requests.allowed_domains else { return Ok(Arc::clone(general)) };
    let egress = &settings.egress;
    let narrowed = match &egress.allowed_domains {
        Some(general) => in_both(general, domains),
        None => domains.clone(),
    };
    let options = EgressOptions {
        allow: egress.allow.clone(),
        allowed_domains: Some(narrowed),
        max_redirects: 0,
        max_response_bytes: settings.mcp.max_message_bytes,
        timeout: egress.timeout,
    };
    Egress::new(&options).map(Arc::new).map_err(|error| format!("mcp.requests.allowed_domains: {error}"))
}

/// Of an address that is not allowed nobody learns more than that.
fn refusal(error: &EgressError) -> String {
    match error {
        EgressError::BadUrl(why) => format!("The URL of the server is not acceptable: {why}."),
        error => format!("The URL of the server is not acceptable: {error}."),
    }
}

fn bearer(token: &str) -> String {
    if token.starts_with("Bearer ") { token.to_owned() } else { format!("Bearer {token}") }
}

impl Rules {
    fn read(server: &McpServerSettings) -> Result<Self, String> {
        let set = |patterns: &[String]| {
            let mut set = GlobSetBuilder::new();
            for pattern in patterns {
                set.add(Glob::new(pattern).map_err(|error| error.to_string())?);
            }
            set.build().map_err(|error| error.to_string())
        };
        let single = server.rules.iter().map(|(pattern, rule)| {
            let glob = Glob::new(pattern).map_err(|error| error.to_string())?;
            Ok((glob.compile_matcher(), *rule))
        });
        Ok(Self {
            allowed: server.allowed_tools.as_deref().map(set).transpose()?,
            blocked: set(&server.blocked_tools)?,
            single: single.collect::<Result<_, String>>()?,
            trust: server.trust,
        })
    }

    fn offers(&self, name: &str) -> bool {
        !self.blocked.is_match(name)
            && self.allowed.as_ref().is_none_or(|allowed| allowed.is_match(name))
            && self.rule(name) != Some(McpRule::Deny)
    }

    fn rule(&self, name: &str) -> Option<McpRule> {
        self.single.iter().find(|(glob, _)| glob.is_match(name)).map(|(_, rule)| *rule)
    }
}

impl Binding {
    /// Its name in the request.
    pub fn label(&self) -> &Arc<str> {
        &self.label
    }

    /// Its tools.
    ///
    /// # Errors
    /// If they cannot be listed and none are known.
    pub async fn tools(&self, freshness: Freshness) -> Result<Arc<ToolSet>, McpError> {
        let listing = self.session.tools(freshness).await?;
        Ok(self.session.tool_sets.of(&self.session, &listing, &self.label, &self.terms, &self.stack))
    }

    /// Its tools as an earlier response listed them, if nothing newer is known. Asks nobody.
    pub fn tools_of_item(&self, listed: &[McpListedTool]) -> Option<Arc<ToolSet>> {
        if self.session.known_tools().is_some() {
            return None;
        }
        let sets = &self.session.tool_sets;
        Some(Arc::new(sets.of_item(&self.session, listed, &self.label, &self.terms, &self.stack)))
    }

    /// Whether the server has other tools now, or says so.
    pub fn has_changed_since(&self, set: &ToolSet) -> bool {
        let Some(known) = self.session.known_tools() else { return false };
        set.number != 0 && (known.number != set.number || self.session.has_changed(&known))
    }

    /// Whether a tool is offered at all, by the operator's lists.
    pub fn offers(&self, tool: &ServedTool) -> bool {
        self.rules.offers(&tool.listed.name)
    }

    /// What is to become of a call: the operator's rule for the tool; else what the request says; else how far the
    /// server is trusted. The operator's wish to be asked is stronger than a client's not to be.
    pub fn decide(&self, tool: &ServedTool, request: Option<&Approval>) -> Decision {
        let asked = request.and_then(|approval| of_request(approval, tool));
        match (self.rules.rule(&tool.listed.name), asked) {
            (Some(McpRule::Deny), _) => Decision::Deny,
            (Some(McpRule::Ask), _) | (_, Some(Decision::Ask)) => Decision::Ask,
            (Some(McpRule::Allow), _) => Decision::Call,
            (None, asked) => match (self.rules.trust, asked) {
                (Some(McpTrust::Untrusted), _) if self.is_configured => Decision::Ask,
                (Some(McpTrust::Annotations), _) if self.is_configured && !tool.read_only => Decision::Ask,
                (_, Some(decision)) => decision,
                (Some(McpTrust::Trusted), None) => Decision::Call,
                (Some(McpTrust::Annotations), None) if tool.read_only => Decision::Call,
                (Some(McpTrust::Annotations | McpTrust::Untrusted), None) => Decision::Ask,
                (None, None) if self.is_configured => Decision::Call,
                (None, None) => Decision::Ask,
            },
        }
    }
}

/// What a request says of a tool, if anything.
fn of_request(approval: &Approval, tool: &ServedTool) -> Option<Decision> {
    match approval {
        Approval::Always => Some(Decision::Ask),
        Approval::Never => Some(Decision::Call),
        Approval::Rules(rules) => {
            let fits =
                |filter: &Option<McpToolFilter>| filter.as_ref().is_some_and(|filter| picks(filter, tool));
            // Named by both, or by none: a person is asked.
            Some(if fits(&rules.never) && !fits(&rules.always) { Decision::Call } else { Decision::Ask })
        }
    }
}

/// Whether a filter picks a tool; one that says nothing picks all.
pub fn picks(filter: &McpToolFilter, tool: &ServedTool) -> bool {
    filter.tool_names.as_ref().is_none_or(|names| names.contains(&tool.listed.name))
        && filter.read_only.is_none_or(|wanted| wanted == tool.read_only)
}
