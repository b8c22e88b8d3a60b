//! Resolved settings of configured MCP servers.

use std::sync::Arc;

use reqwest::Url;

use super::connection::{Endpoint, HttpKind, ServerAddress, StdioCommand};
use super::credentials::CredentialSource;
use super::server_handle::ServerToolRules;
use super::source::{ServerAccess, SessionLimits, SessionSource};
use super::tool_config::ServerToolConfig;
use antwort_config::{McpAuth, McpServerSettings, McpSettings, McpTransport, Settings};
use antwort_net::egress::{Egress, EgressOptions};
use antwort_protocol::elicitation::ElicitationModes;
use antwort_tools::stack::StackBuilder;

/// A configured server.
pub(super) struct ConfiguredServer {
    pub label: Arc<str>,
    pub access: Arc<ServerAccess>,
    pub uses_caller_credentials: bool,
    pub(crate) tool_config: Arc<ServerToolConfig>,
    pub rules: Arc<ServerToolRules>,
    pub settings: McpServerSettings,
}

impl ServerAccess {
    pub(super) fn read(
        label: &str,
        server: &McpServerSettings,
        settings: &Settings,
        source: Arc<SessionSource>,
    ) -> Result<Arc<Self>, String> {
        let endpoint = endpoint(label, server, settings)?;
        let credentials = match &endpoint.address {
            ServerAddress::Http { url, egress, .. } => {
                Some(CredentialSource::new(server, egress, url).map_err(|error| error.to_string())?)
            }
            ServerAddress::Stdio(_) => None,
        };
        Ok(Arc::new(Self { source, endpoint, credentials }))
    }
}

impl ConfiguredServer {
    pub(super) fn read(
        label: &str,
        server: &McpServerSettings,
        settings: &Settings,
        access: Arc<ServerAccess>,
        stack: StackBuilder,
    ) -> Result<Self, String> {
        let uses_caller_credentials = matches!(server.auth, McpAuth::Forward | McpAuth::TokenExchange(_));
        let mut tools = settings.tools.clone();
        tools.cache.enabled &= !uses_caller_credentials;
        Ok(Self {
            label: label.into(),
            access,
            uses_caller_credentials,
            tool_config: Arc::new(ServerToolConfig {
                context: server.context.clone(),
                user_output: server.user_output,
                ..ServerToolConfig::new(
                    format!("mcp:{label}").into(),
                    tools,
                    server.call_timeouts(),
                    server.trust,
                    stack,
                )
            }),
            rules: Arc::new(ServerToolRules::from_settings(server)?),
            settings: server.clone(),
        })
    }

    pub(super) fn allows_tenant(&self, tenant: &str) -> bool {
        let tenants = self.settings.tenants.as_ref();
        tenants.is_none_or(|tenants| tenants.iter().any(|other| other == tenant))
    }
}

/// The limits of a configured server, or with `None` of servers that requests bring.
pub(super) fn session_limits(mcp: &McpSettings, server: Option<&McpServerSettings>) -> SessionLimits {
    let tool_ttl = server.and_then(|server| server.tool_ttl);
    let max_in_flight = server.and_then(|server| server.max_in_flight).unwrap_or(mcp.requests.max_in_flight);
    SessionLimits {
        list_timeout: mcp.list_timeout,
        tool_ttl: tool_ttl.unwrap_or(mcp.tool_ttl),
        max_in_flight,
        max_tools: mcp.requests.max_tools,
    }
}

/// Configured servers may have any address, but the egress policy permits only their host and port: neither redirects
/// nor DNS changes lead elsewhere.
fn endpoint(label: &str, server: &McpServerSettings, settings: &Settings) -> Result<Endpoint, String> {
    let (name, is_configured, may_sample) = (Arc::from(label), true, server.sampling);
    // As the caller of each session says.
    let shows = ElicitationModes::default();
    if let Some(program) = &server.command {
        let command = StdioCommand {
            program: program.clone(),
            args: server.args.clone(),
            env: server.env.clone(),
            cwd: server.cwd.clone(),
            start_timeout: server.start_timeout(),
        };
        return Ok(Endpoint {
            name,
            address: ServerAddress::Stdio(Arc::new(command)),
            is_configured,
            may_sample,
            shows,
        });
    }
    let url = server.url.as_deref().ok_or("set either url or command")?;
    let url = Url::parse(url).map_err(|error| format!("url: {error}"))?;
    let host = url.host_str().ok_or("url: the host is missing")?;
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
        http: settings.egress.http.clone(),
    };
    let egress = Arc::new(Egress::new(&options).map_err(|error| format!("url: {error}"))?);
    let kind = match server.transport.unwrap_or_default() {
        McpTransport::StreamableHttp => HttpKind::Streamable,
        McpTransport::Sse => HttpKind::Sse,
        McpTransport::JsonRpc => HttpKind::JsonRpc,
        McpTransport::Auto | McpTransport::Stdio => HttpKind::Auto,
    };
    let address = ServerAddress::Http { url, kind, egress };
    Ok(Endpoint { name, address, is_configured, may_sample, shows })
}

/// Host and port of the configured token endpoint.
fn token_host(auth: &McpAuth) -> Option<String> {
    let url = match auth {
        McpAuth::ClientCredentials(client) => client.token_url.as_deref(),
        McpAuth::TokenExchange(exchange) => exchange.token_url.as_deref(),
        McpAuth::None | McpAuth::Bearer { .. } | McpAuth::Forward => None,
    };
    let url = Url::parse(url?).ok()?;
    Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?))
}
