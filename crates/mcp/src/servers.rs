//! All MCP servers: configured ones by label, servers brought by requests by URL.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use globset::GlobSet;
use reqwest::Url;
use reqwest::header::HeaderMap;
use secrecy::SecretString;

use super::configured::{ConfiguredServer, session_limits};
use super::connection::{Connector, Endpoint, HttpKind, ServerAddress};
use super::context::{CallerContext, OnBehalfOf};
use super::credentials::{StaticHeaders, for_request};
use super::error::McpError;
use super::pool::{Pool, SessionKey, SessionSpec};
use super::routes::RemoteRoutes;
use super::server_handle::{ResolvedServer, ServerHandle, ServerScope, ServerToolRules};
use super::source::{ServerAccess, SessionLimits, SessionSource};
use super::tool_config::ServerToolConfig;
use antwort_config::{ConfigChange, McpSettings, Settings, rebuilds_for};
use antwort_identity::{Reach, Requester};
use antwort_limits::Admission;
use antwort_net::egress::{Egress, EgressError, EgressOptions, intersect_domains};
use antwort_protocol::elicitation::ElicitationModes;
use antwort_protocol::error::ApiError;
use antwort_protocol::tool::McpTool;
use antwort_telemetry::metrics::Metrics;
use antwort_tools::ToolRegistry;
use antwort_tools::stack::StackBuilder;

/// All MCP servers.
pub struct McpServers {
    settings: McpSettings,
    configured: BTreeMap<String, ConfiguredServer>,
    pool: Arc<Pool>,
    /// Creates connections.
    connector: Arc<dyn Connector>,
    /// Source of sessions with servers that requests bring.
    request_source: Arc<SessionSource>,
    egress: Arc<Egress>,
    request_tool_config: Arc<ServerToolConfig>,
    request_rules: Arc<ServerToolRules>,
    pub(super) stack: StackBuilder,
    pub(super) routes: RemoteRoutes,
}

/// The caller that wants to use a server.
#[derive(Clone, Copy)]
pub struct McpCaller<'a> {
    /// Tenant.
    pub tenant: &'a Arc<str>,
    /// Name of the API key, whose share of the sessions is charged.
    pub key: &'a Arc<str>,
    /// The caller's `Authorization`, for servers configured to receive it.
    pub authorization: Option<&'a SecretString>,
    /// Caller context, for servers configured to receive it.
    pub on_behalf_of: OnBehalfOf<'a>,
    /// The questions of servers to the user that the caller's client shows.
    pub shows: ElicitationModes,
}

impl McpCaller<'_> {
    /// What the caller's client shows, and who is asked.
    fn asks(&self) -> Option<(ElicitationModes, Arc<str>)> {
        (!self.shows.is_empty()).then(|| (self.shows, self.on_behalf_of.principal.into()))
    }
}

/// The previous generation, whose sources are reused if their settings are unchanged.
#[derive(Clone, Copy)]
pub struct PreviousServers<'a> {
    /// Servers of that generation.
    pub servers: &'a McpServers,
    /// Differences between its settings and the new ones.
    pub changes: &'a [ConfigChange],
}

impl PreviousServers<'_> {
    /// Whether the client's settings are unchanged.
    pub fn can_reuse_client(&self) -> bool {
        !rebuilds_for(self.changes).mcp_client
    }

    /// The access to a configured server, if its settings and limits are unchanged.
    pub(super) fn access(&self, label: &str, limits: &SessionLimits) -> Option<Arc<ServerAccess>> {
        let known = self.servers.access(label).filter(|known| known.source.limits == *limits)?;
        let is_changed = self.changes.iter().any(|change| change.touches(&["mcp", "servers", label]));
        (self.can_reuse_client() && !is_changed).then(|| Arc::clone(known))
    }

    /// The source of servers from requests, if settings and limits are unchanged.
    pub(super) fn request_source(&self, limits: &SessionLimits) -> Option<Arc<SessionSource>> {
        let known = Some(self.servers.request_source()).filter(|known| known.limits == *limits)?;
        let is_changed = self.changes.iter().any(|change| change.touches(&["mcp", "requests"]));
        (self.can_reuse_client() && !is_changed).then(|| Arc::clone(known))
    }
}

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// No server with this label is configured, or not for this tenant.
    #[error("no MCP server with the label '{0}' is configured")]
    UnknownLabel(String),
    /// Requests may not bring servers.
    #[error("MCP servers from requests are disabled (mcp.requests.enabled)")]
    Disabled,
    /// A field is not supported for this server.
    #[error("{why}")]
    Unsupported {
        /// Field of the tool in the request.
        field: &'static str,
        /// What is wrong.
        why: &'static str,
    },
    /// The URL is not acceptable.
    #[error("{0}")]
    Url(String),
    /// A header cannot be sent.
    #[error("{why}")]
    Header {
        /// Field of the tool in the request.
        field: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The credentials could not be obtained.
    #[error("{0}")]
    Credentials(McpError),
}

/// What [`McpServers`] depends on.
pub struct McpDependencies<'a> {
    /// Egress policy for URLs that requests bring.
    pub egress: &'a Arc<Egress>,
    /// Creates connections.
    pub connector: Arc<dyn Connector>,
    /// Registry, whose layers are used.
    pub toolbox: &'a ToolRegistry,
    /// Limits the sessions.
    pub admission: &'a Arc<Admission>,
    /// Metrics.
    pub metrics: &'a Arc<Metrics>,
    /// The previous generation, on a reload.
    pub previous: Option<PreviousServers<'a>>,
}

impl McpServers {
    /// Reads the settings. Does not connect.
    ///
    /// # Errors
    /// Names the key of an invalid setting.
    pub fn new(settings: &Settings, parts: McpDependencies<'_>) -> Result<Arc<Self>, String> {
        let McpDependencies { egress, connector, toolbox: registry, admission, metrics, previous } = parts;
        let mcp = &settings.mcp;
        let pool = match &previous {
            Some(previous) => Arc::clone(&previous.servers.pool),
            None => Arc::new(Pool::new(&mcp.sessions, admission, metrics)),
        };
        let mut configured = BTreeMap::new();
        for (label, server) in &mcp.servers {
            let limits = session_limits(mcp, Some(server));
            let access = match previous.and_then(|previous| previous.access(label, &limits)) {
                Some(reused) => Ok(reused),
                None => ServerAccess::read(label, server, settings, pool.source(&connector, limits)),
            };
            let read = access
                .and_then(|access| ConfiguredServer::read(label, server, settings, access, registry.stack()));
            configured
                .insert(label.clone(), read.map_err(|problem| format!("mcp.servers.{label}: {problem}"))?);
        }
        let request_limits = session_limits(mcp, None);
        let reused = previous.and_then(|previous| previous.request_source(&request_limits));
        let request_source = reused.unwrap_or_else(|| pool.source(&connector, request_limits));
        let requests = &mcp.requests;
        let mut tools = settings.tools.clone();
        // A result obtained with a caller's token must not be served to others.
        tools.cache.enabled = false;
        tools.overrides.clear();
        Ok(Arc::new(Self {
            pool,
            connector,
            request_source,
            egress: request_egress(settings, egress)?,
            request_tool_config: Arc::new(ServerToolConfig::new(
                "mcp:request".into(),
                tools,
                (requests.timeout, requests.max_time),
                requests.trust,
                registry.stack(),
            )),
            request_rules: Arc::new(ServerToolRules {
                allowed: None,
                blocked: GlobSet::empty(),
                by_pattern: Vec::new(),
                trust: requests.trust,
            }),
            settings: mcp.clone(),
            configured,
            stack: registry.stack(),
            routes: RemoteRoutes::new(&settings.tools),
        }))
    }

    /// Whether any server receives the callers' credentials.
    pub fn uses_caller_credentials(&self) -> bool {
        self.configured.values().any(|server| server.uses_caller_credentials)
    }

    /// Maximum looks a second at the tasks that a tenant has at one server.
    pub fn max_polls_per_second(&self) -> u32 {
        self.settings.tasks.max_polls_per_second
    }

    /// Maximum number of servers per request.
    pub fn max_servers(&self) -> usize {
        self.settings.requests.max_servers
    }

    /// How long an approval request stays valid.
    pub fn approvals_expire_after(&self) -> Duration {
        self.settings.approvals.expires_after
    }

    /// Resolves the server of a request. Does not connect.
    ///
    /// # Errors
    /// If this caller has no such server, or may not use it.
    pub fn find(&self, tool: &McpTool, caller: McpCaller<'_>) -> Result<ResolvedServer, BindError> {
        match &tool.server_url {
            Some(url) => self.find_url(tool, url, caller),
            None => self.find_label(&tool.server_label, Some(tool), caller),
        }
    }

    /// Leases sessions with all servers of one request, in the same order. Waits for permits.
    ///
    /// # Errors
    /// 503 after `server.queue_timeout`; 400 if the request needs more sessions than its key may have.
    pub async fn bind(
        &self,
        found: Vec<ResolvedServer>,
        caller: McpCaller<'_>,
    ) -> Result<Vec<ServerHandle>, ApiError> {
        let requester = Requester::new(caller.tenant, caller.key);
        let (specs, servers): (Vec<_>, Vec<_>) =
            found.into_iter().map(|found| (found.opening, found.server)).unzip();
        let sessions = self.pool.sessions(specs, &requester).await?;
        let bound = servers.into_iter().zip(sessions);
        Ok(bound.map(|(server, in_use)| ServerHandle::new(server, in_use)).collect())
    }

    /// A configured server.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_label(
        &self,
        label: &str,
        tool: Option<&McpTool>,
        caller: McpCaller<'_>,
    ) -> Result<ResolvedServer, BindError> {
        let server = self.configured.get(label).filter(|server| server.allows_tenant(caller.tenant));
        let Some(server) = server else { return Err(BindError::UnknownLabel(label.to_owned())) };
        let authorization = tool.and_then(|tool| tool.authorization.as_ref());
        if authorization.is_some() && !server.uses_caller_credentials {
            let why = "This server is configured with its own credentials and accepts none from clients.";
            return Err(BindError::Unsupported { field: "authorization", why });
        }
        if tool.is_some_and(|tool| !tool.headers.is_empty()) {
            let why = "A configured server accepts no headers from clients.";
            return Err(BindError::Unsupported { field: "headers", why });
        }
        let authorization = authorization.map(|token| SecretString::from(bearer(token.expose())));
        let access = &server.access;
        let credentials = match &access.credentials {
            Some(source) => source
                .for_caller(authorization.as_ref().or(caller.authorization))
                .map_err(BindError::Credentials)?,
            None => Arc::new(StaticHeaders::new(HeaderMap::new())),
        };
        let source = Arc::clone(&access.source);
        let endpoint = Endpoint { shows: caller.shows, ..access.endpoint.clone() };
        let key =
            SessionKey::new(format!("label:{label}"), &source, &*credentials, caller.tenant, caller.asks());
        Ok(ResolvedServer {
            opening: SessionSpec { key, source, endpoint, credentials },
            server: ServerScope {
                label: Arc::clone(&server.label),
                context: CallerContext::new(&server.tool_config.context, caller.tenant, caller.on_behalf_of),
                tool_config: Arc::clone(&server.tool_config),
                rules: Arc::clone(&server.rules),
                is_configured: true,
                uses_caller_credentials: server.uses_caller_credentials,
                required: server.settings.required,
            },
        })
    }

    fn find_url(
        &self,
        tool: &McpTool,
        url: &str,
        caller: McpCaller<'_>,
    ) -> Result<ResolvedServer, BindError> {
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
        let source = Arc::clone(&self.request_source);
        let key = SessionKey::new(format!("url:{url}"), &source, &*credentials, caller.tenant, caller.asks());
        let endpoint = Endpoint {
            name: url.host_str().unwrap_or_default().into(),
            address: ServerAddress::Http { url, kind: HttpKind::Auto, egress: Arc::clone(&self.egress) },
            is_configured: false,
            // A client must not spend the operator's tokens through a server of its own.
            may_sample: false,
            shows: caller.shows,
        };
        Ok(ResolvedServer {
            opening: SessionSpec { key, source, endpoint, credentials },
            server: ServerScope {
                label: tool.server_label.as_str().into(),
                // A client must not learn about other callers through a server of its own.
                context: None,
                tool_config: Arc::clone(&self.request_tool_config),
                rules: Arc::clone(&self.request_rules),
                is_configured: false,
                uses_caller_credentials: true,
                required: false,
            },
        })
    }

    /// Checks a URL as far as possible before its host is resolved.
    fn check_url(&self, url: &str) -> Result<Url, BindError> {
        let bad = |why: &str| BindError::Url(format!("The URL of the server is not acceptable: {why}."));
        let url = Url::parse(url).map_err(|_| bad("it is not a valid URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("it must begin with https://"));
        }
        self.egress.check(&url).map_err(|error| BindError::Url(refusal(&error)))?;
        if url.scheme() == "http" && !self.settings.requests.allow_http && !self.egress.is_allowlisted(&url) {
            return Err(bad("it must begin with https://"));
        }
        Ok(url)
    }

    /// The session pool, shared by all generations.
    pub fn sessions(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The connector.
    pub fn connector(&self) -> &Arc<dyn Connector> {
        &self.connector
    }

    /// Endpoint, credentials and session source of a configured server.
    pub(super) fn access(&self, label: &str) -> Option<&Arc<ServerAccess>> {
        self.configured.get(label).map(|server| &server.access)
    }

    /// Session source of servers that requests bring.
    pub(super) fn request_source(&self) -> &Arc<SessionSource> {
        &self.request_source
    }

    /// Status of every configured server that these tenants may use, and of servers from their requests with a session.
    pub fn statuses(&self, reach: Reach<'_>) -> Vec<super::status::ServerStatus> {
        let sources: Vec<u64> = self.configured.values().map(|server| server.access.source.id).collect();
        let is_ours = |id| id == self.request_source.id || sources.contains(&id);
        let known = self.pool.known(is_ours);
        let mut states: Vec<_> = known
            .iter()
            .filter(|(key, _)| reach.covers(&key.tenant))
            .map(|(key, session)| key.state(session))
            .collect();
        for (label, server) in &self.configured {
            let is_open = match reach {
                Reach::AllTenants => true,
                Reach::Tenant(tenant) => server.allows_tenant(tenant),
            };
            if is_open && !states.iter().any(|state| state.server_label.as_deref() == Some(label)) {
                states.push(super::status::ServerStatus::unused(label, &server.access.endpoint));
            }
        }
        for state in &mut states {
            let server = state.server_label.as_deref().and_then(|label| self.configured.get(label));
            state.description = server.and_then(|server| server.settings.description.clone());
        }
        states.sort_by_key(super::status::ServerStatus::sort_key);
        states
    }

    /// Labels of the configured servers that a tenant may use.
    pub fn labels(&self, tenant: &str) -> Vec<&str> {
        let open = self.configured.iter().filter(|(_, server)| server.allows_tenant(tenant));
        open.map(|(label, _)| label.as_str()).collect()
    }
}

/// The general egress policy, restricted to `mcp.requests.allowed_domains`.
fn request_egress(settings: &Settings, general: &Arc<Egress>) -> Result<Arc<Egress>, String> {
    let Some(domains) = &settings.mcp.requests.allowed_domains else { return Ok(Arc::clone(general)) };
    let egress = &settings.egress;
    let narrowed = match &egress.allowed_domains {
        Some(general) => intersect_domains(general, domains),
        None => domains.clone(),
    };
    let options = EgressOptions {
        allow: egress.allow.clone(),
        allowed_domains: Some(narrowed),
        max_redirects: 0,
        max_response_bytes: settings.mcp.max_message_bytes,
        timeout: egress.timeout,
        http: egress.http.clone(),
    };
    Egress::new(&options).map(Arc::new).map_err(|error| format!("mcp.requests.allowed_domains: {error}"))
}

/// Why a URL is refused, without details of forbidden addresses.
fn refusal(error: &EgressError) -> String {
    match error {
        EgressError::BadUrl(why) => format!("The URL of the server is not acceptable: {why}."),
        error => format!("The URL of the server is not acceptable: {error}."),
    }
}

/// A token as the value of `Authorization`.
pub fn bearer(token: &str) -> String {
    if token.starts_with("Bearer ") { token.to_owned() } else { format!("Bearer {token}") }
}
