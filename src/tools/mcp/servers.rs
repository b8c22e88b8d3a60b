//! The servers that requests may use: those of the configuration by their labels, others by their URLs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use globset::GlobSet;
use reqwest::Url;
use reqwest::header::HeaderMap;
use secrecy::SecretString;

use super::configured::{ConfiguredServer, ServerToolConfig, session_limits};
use super::connection::{Connector, Endpoint, HttpKind, ServerAddress};
use super::context::{CallerContext, OnBehalfOf};
use super::credentials::{StaticHeaders, for_request};
use super::error::McpError;
use super::pool::{Pool, SessionKey, SessionSpec};
use super::routes::RemoteRoutes;
use super::server_handle::{ResolvedServer, ServerHandle, ServerScope, ServerToolRules};
use super::source::{PreviousServers, ServerAccess, SessionSource};
use crate::admission::{Admission, Requester};
use crate::config::{McpSettings, Settings};
use crate::net::egress::{Egress, EgressError, EgressOptions, intersect_domains};
use crate::protocol::error::ApiError;
use crate::protocol::tool::McpTool;
use crate::telemetry::metrics::Metrics;
use crate::tools::ToolRegistry;
use crate::tools::stack::Stack;

/// All servers.
pub struct McpServers {
    settings: McpSettings,
    configured: BTreeMap<String, ConfiguredServer>,
    pool: Arc<Pool>,
    /// Makes connections to servers of the configuration, and to those that requests bring.
    connector: Arc<dyn Connector>,
    /// For servers that requests bring.
    request_source: Arc<SessionSource>,
    egress: Arc<Egress>,
    request_tool_config: Arc<ServerToolConfig>,
    request_rules: Arc<ServerToolRules>,
    pub(super) stack: Stack,
    pub(super) routes: RemoteRoutes,
}

/// Who wants to use a server.
#[derive(Clone, Copy)]
pub struct McpCaller<'a> {
    /// The caller's tenant.
    pub tenant: &'a Arc<str>,
    /// The name of the caller's key, whose share of all sessions it takes.
    pub key: &'a Arc<str>,
    /// The caller's own `Authorization`, for servers that are configured to get it.
    pub authorization: Option<&'a SecretString>,
    /// For whom, for servers that are configured to be told.
    pub on_behalf_of: OnBehalfOf<'a>,
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
}

/// What servers are reached and used with.
pub struct McpDependencies<'a> {
    /// What is checked of URLs that requests bring.
    pub egress: &'a Arc<Egress>,
    /// Makes connections.
    pub connector: Arc<dyn Connector>,
    /// Beside which their tools are.
    pub toolbox: &'a ToolRegistry,
    /// Has room for sessions.
    pub admission: &'a Arc<Admission>,
    /// Counts them.
    pub metrics: &'a Arc<Metrics>,
    /// What a reload takes over.
    pub previous: Option<PreviousServers<'a>>,
}

impl McpServers {
    /// Reads the settings; connects to nobody.
    ///
    /// # Errors
    /// In words, with the key, if a setting cannot be used.
    pub fn new(settings: &Settings, parts: McpDependencies<'_>) -> Result<Arc<Self>, String> {
        let McpDependencies { egress, connector, toolbox, admission, metrics, previous } = parts;
        let mcp = &settings.mcp;
        let pool = match &previous {
            Some(previous) => Arc::clone(&previous.servers.pool),
            None => Arc::new(Pool::new(&mcp.sessions, admission, metrics)),
        };
        let mut configured = BTreeMap::new();
        for (label, server) in &mcp.servers {
            let limits = session_limits(mcp, Some(server));
            let access = match previous.and_then(|previous| previous.access(label, &limits)) {
                Some(kept) => Ok(kept),
                None => ServerAccess::read(label, server, settings, pool.source(&connector, limits)),
            };
            let read = access
                .and_then(|access| ConfiguredServer::read(label, server, settings, access, toolbox.stack()));
            configured
                .insert(label.clone(), read.map_err(|problem| format!("mcp.servers.{label}: {problem}"))?);
        }
        let of_requests = session_limits(mcp, None);
        let kept = previous.and_then(|previous| previous.request_source(&of_requests));
        let request_source = kept.unwrap_or_else(|| pool.source(&connector, of_requests));
        let requests = &mcp.requests;
        let mut tools = settings.tools.clone();
        // A result that was got with one client's token is for nobody else.
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
                toolbox.stack(),
            )),
            request_rules: Arc::new(ServerToolRules {
                allowed: None,
                blocked: GlobSet::empty(),
                by_pattern: Vec::new(),
                trust: requests.trust,
            }),
            settings: mcp.clone(),
            configured,
            stack: toolbox.stack(),
            routes: RemoteRoutes::new(&settings.tools),
        }))
    }

    /// Whether some server is to get the callers' own credentials.
    pub fn uses_caller_credentials(&self) -> bool {
        self.configured.values().any(|server| server.uses_caller_credentials)
    }

    /// Servers that one request may use.
    pub fn max_servers(&self) -> usize {
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
    pub fn find(&self, tool: &McpTool, wanting: McpCaller<'_>) -> Result<ResolvedServer, BindError> {
        match &tool.server_url {
            Some(url) => self.find_url(tool, url, wanting),
            None => self.find_label(&tool.server_label, Some(tool), wanting),
        }
    }

    /// Sessions with all these servers, which one request uses, in the same order. Waits for room.
    ///
    /// # Errors
    /// 503 if there was no room within `server.queue_timeout`; 400 if there can never be enough of it.
    pub async fn bind(
        &self,
        found: Vec<ResolvedServer>,
        wanting: McpCaller<'_>,
    ) -> Result<Vec<ServerHandle>, ApiError> {
        let requester = Requester::new(wanting.tenant, wanting.key);
        let (openings, servers): (Vec<_>, Vec<_>) =
            found.into_iter().map(|found| (found.opening, found.server)).unzip();
        let sessions = self.pool.sessions(openings, &requester).await?;
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
        wanting: McpCaller<'_>,
    ) -> Result<ResolvedServer, BindError> {
        let server = self.configured.get(label).filter(|server| server.allows_tenant(wanting.tenant));
        let Some(server) = server else { return Err(BindError::UnknownLabel(label.to_owned())) };
        let given = tool.and_then(|tool| tool.authorization.as_ref());
        if given.is_some() && !server.uses_caller_credentials {
            let why = "This server is configured with its own credentials and takes none of clients.";
            return Err(BindError::Unsupported { field: "authorization", why });
        }
        if tool.is_some_and(|tool| !tool.headers.is_empty()) {
            let why = "A server of the configuration takes no headers of clients.";
            return Err(BindError::Unsupported { field: "headers", why });
        }
        let given = given.map(|token| SecretString::from(bearer(token.expose())));
        let access = &server.access;
        let credentials = match &access.credentials {
            Some(source) => {
                source.for_caller(given.as_ref().or(wanting.authorization)).map_err(BindError::Credentials)?
            }
            None => Arc::new(StaticHeaders::new(HeaderMap::new())),
        };
        let (source, endpoint) = (Arc::clone(&access.source), access.endpoint.clone());
        let key = SessionKey::new(format!("label:{label}"), &source, &*credentials, wanting.tenant);
        Ok(ResolvedServer {
            opening: SessionSpec { key, source, endpoint, credentials },
            server: ServerScope {
                label: Arc::clone(&server.label),
                context: CallerContext::new(
                    &server.tool_config.context,
                    wanting.tenant,
                    wanting.on_behalf_of,
                ),
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
        wanting: McpCaller<'_>,
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
        let key = SessionKey::new(format!("url:{url}"), &source, &*credentials, wanting.tenant);
        let endpoint = Endpoint {
            name: url.host_str().unwrap_or_default().into(),
            address: ServerAddress::Http { url, kind: HttpKind::Auto, egress: Arc::clone(&self.egress) },
            is_configured: false,
            // Whoever brings a server is not to spend the operator's tokens through it.
            may_sample: false,
        };
        Ok(ResolvedServer {
            opening: SessionSpec { key, source, endpoint, credentials },
            server: ServerScope {
                label: tool.server_label.as_str().into(),
                // Whoever brings a server learns nothing of others through it.
                context: None,
                tool_config: Arc::clone(&self.request_tool_config),
                rules: Arc::clone(&self.request_rules),
                is_configured: false,
                uses_caller_credentials: true,
                required: false,
            },
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
        if url.scheme() == "http" && !self.settings.requests.allow_http && !self.egress.is_allowlisted(&url) {
            return Err(bad("it must begin with https://"));
        }
        Ok(url)
    }

    /// The sessions with all of them, and with those of other generations.
    pub fn sessions(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// What makes connections.
    pub fn connector(&self) -> &Arc<dyn Connector> {
        &self.connector
    }

    /// How the configured server of this label is reached.
    pub(super) fn access(&self, label: &str) -> Option<&Arc<ServerAccess>> {
        self.configured.get(label).map(|server| &server.access)
    }

    /// What sessions with servers that requests bring are opened with.
    pub(super) fn request_source(&self) -> &Arc<SessionSource> {
        &self.request_source
    }

    /// How each server of the configuration is, and each that requests brought and is still known.
    pub fn states(&self) -> Vec<super::status::ServerStatus> {
        let sources: Vec<u64> = self.configured.values().map(|server| server.access.source.id).collect();
        let is_ours = |id| id == self.request_source.id || sources.contains(&id);
        let known = self.pool.known(is_ours);
        let mut states: Vec<_> = known.iter().map(|(key, session)| key.state(session)).collect();
        for (label, server) in &self.configured {
            if !states.iter().any(|state| state.server_label.as_deref() == Some(label)) {
                states.push(super::status::ServerStatus::unused(label, &server.access.endpoint));
            }
        }
        for state in &mut states {
            let of = state.server_label.as_deref().and_then(|label| self.configured.get(label));
            state.description = of.and_then(|server| server.settings.description.clone());
        }
        states.sort_by_key(super::status::ServerStatus::sort_key);
        states
    }

    /// The labels of the configured servers that this tenant may use.
    pub fn labels(&self, tenant: &str) -> Vec<&str> {
        let open = self.configured.iter().filter(|(_, server)| server.allows_tenant(tenant));
        open.map(|(label, _)| label.as_str()).collect()
    }
}

/// The general guard, narrowed to the domains in which servers of requests may be.
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
