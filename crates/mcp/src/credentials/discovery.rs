//! Discovers the authorization server and token endpoint of an MCP server from metadata.
//!
//! The MCP server names its authorization server (RFC 9728), which names its token endpoint (RFC 8414 or OpenID
//! Connect). Each document must name the resource or issuer that it was fetched for, so neither can impersonate
//! another. Since the MCP server thereby chooses who receives the client secret, the first issuer found is pinned. A
//! server that requires a token but has no metadata is expected to have the endpoint `/token` (MCP 2025-03-26).

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::WwwAuthenticate;
use super::token_error::TokenError;
use antwort_config::mcp::is_safe_for_secrets;
use antwort_net::egress::Egress;

mod documents;
use documents::{ResourceMetadata, issuer_documents, resource_documents};
pub(super) use documents::{challenged_url, parameter};

/// How long a discovered authorization server is cached.
const FOUND_TTL: Duration = Duration::from_hours(1);
/// How long the absence of metadata is cached.
const NOT_FOUND_TTL: Duration = Duration::from_mins(1);
/// How long a failed discovery is cached.
const FAILURE_TTL: Duration = Duration::from_secs(5);
/// Maximum number of issuers tried for one MCP server.
const MAX_ISSUERS: usize = 4;

/// An authorization server.
#[derive(Debug, Clone)]
pub(super) struct AuthorizationServer {
    pub(super) token_endpoint: Url,
    /// Issuer, if found by metadata.
    issuer: Option<String>,
    /// Supported client authentication methods; `None` if not stated.
    methods: Option<Vec<String>>,
    /// Resource identifier of the MCP server (RFC 8707).
    pub(super) resource: Option<String>,
}

impl AuthorizationServer {
    /// An authorization server of which only the token endpoint is known.
    pub(super) fn from_token_endpoint(token_endpoint: Url) -> Self {
        Self { token_endpoint, issuer: None, methods: None, resource: None }
    }

    /// Whether the client secret goes into the form: only if the server does not support the header.
    pub(super) fn wants_secret_in_form(&self) -> bool {
        let supports = |method: &str| self.methods.iter().flatten().any(|known| known == method);
        supports("client_secret_post") && !supports("client_secret_basic")
    }

    /// Audience of client assertions.
    pub(super) fn audience(&self) -> &str {
        self.issuer.as_deref().unwrap_or(self.token_endpoint.as_str())
    }
}

/// Discovers the authorization server of an MCP server and caches the result.
pub(super) struct Discovery {
    server: Url,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: Option<(Known, Instant)>,
    /// `resource_metadata` URL of the last challenge.
    hint: Option<Url>,
    /// The pinned issuer: the first one found.
    pinned: Option<String>,
    /// Whether the server has rejected a request without a token, so requires one even without metadata.
    wants_token: bool,
}

#[derive(Clone)]
enum Known {
    Server(Arc<AuthorizationServer>),
    Nothing,
    Failed(TokenError),
}

impl Discovery {
    pub(super) fn new(server: Url) -> Self {
        Self { server, state: Mutex::default() }
    }

    /// The authorization server; `None` if the MCP server has no metadata and requires no token.
    pub(super) async fn find(&self, egress: &Egress) -> Result<Option<Arc<AuthorizationServer>>, TokenError> {
        let mut state = self.state.lock().await;
        let known = match &state.known {
            Some((known, until)) if Instant::now() < *until => known.clone(),
            _ => {
                let known = match self.discover(egress, state.hint.as_ref(), state.pinned.as_deref()).await {
                    Ok(Some(server)) => {
                        state.pinned.clone_from(&server.issuer);
                        Known::Server(Arc::new(server))
                    }
                    Ok(None) if state.wants_token => match default_endpoint(&self.server, egress) {
                        Ok(server) => Known::Server(Arc::new(server)),
                        Err(failure) => Known::Failed(failure),
                    },
                    Ok(None) => Known::Nothing,
                    Err(failure) => {
                        // Drop the hint: if it is wrong, it must not block discovery for good.
                        state.hint = None;
                        Known::Failed(failure)
                    }
                };
                let ttl = match known {
                    Known::Server(_) => FOUND_TTL,
                    Known::Nothing => NOT_FOUND_TTL,
                    Known::Failed(_) => FAILURE_TTL,
                };
                state.known = Some((known.clone(), Instant::now() + ttl));
                known
            }
        };
        match known {
            Known::Server(server) => Ok(Some(server)),
            Known::Nothing => Ok(None),
            Known::Failed(failure) => Err(failure),
        }
    }

    /// Drops the cached authorization server, so that the next request discovers it again.
    pub(super) async fn forget(&self) {
        let mut state = self.state.lock().await;
        if matches!(state.known, Some((Known::Server(_), _))) {
            state.known = None;
        }
    }

    /// Learns from a rejected request; returns whether discovery may now find another token endpoint.
    pub(super) async fn on_challenge(&self, challenged: &WwwAuthenticate) -> bool {
        let mut state = self.state.lock().await;
        let mut changed = false;
        if let Some(url) = &challenged.metadata
            && state.hint.as_ref() != Some(url)
        {
            state.hint = Some(url.clone());
            changed = true;
        }
        // A server that requires a token and has no metadata follows MCP 2025-03-26.
        let no_metadata = challenged.metadata.is_none() && matches!(state.known, Some((Known::Nothing, _)));
        if no_metadata && !challenged.insufficient && !state.wants_token {
            state.wants_token = true;
            changed = true;
        }
        if changed {
            state.known = None;
        }
        changed
    }

    async fn discover(
        &self,
        egress: &Egress,
        hint: Option<&Url>,
        pinned: Option<&str>,
    ) -> Result<Option<AuthorizationServer>, TokenError> {
        let (issuers, resource) = match self.resource(egress, hint).await? {
            Some(resource) => (resource.issuers, Some(resource.name)),
            // MCP 2025-03-26: the server's origin is the authorization server.
            None => (vec![self.server.origin().ascii_serialization()], None),
        };
        let named_by_server = resource.is_some();
        let is_pinned = |issuer: &&String| pinned.is_none_or(|pinned| same(pinned, issuer));
        if named_by_server && !issuers.iter().any(|issuer| is_pinned(&issuer)) {
            return Err(TokenError::refused(
                "the server names another authorization server than before; restart the gateway if that is intended",
            ));
        }
        for issuer in issuers.iter().filter(is_pinned).take(MAX_ISSUERS) {
            if let Some(mut server) = authorization_server(egress, issuer).await? {
                server.resource = resource;
                return Ok(Some(server));
            }
        }
        if named_by_server {
            Err(TokenError::refused("the authorization server has no metadata; set auth.token_url"))
        } else {
            Ok(None)
        }
    }

    /// The resource metadata of the MCP server.
    async fn resource(
        &self,
        egress: &Egress,
        hint: Option<&Url>,
    ) -> Result<Option<ResourceMetadata>, TokenError> {
        for url in hint.cloned().into_iter().chain(resource_documents(&self.server)) {
            let Some(document) = get(egress, &url).await? else { continue };
            let Some(resource) = ResourceMetadata::read(&document) else { continue };
            if !resource.covers(&self.server) {
                return Err(TokenError::refused(
                    "the server's metadata name another resource than the server's URL",
                ));
            }
            return Ok(Some(resource));
        }
        Ok(None)
    }
}

/// The default token endpoint of a server without metadata by MCP 2025-03-26: `/token` at its origin.
fn default_endpoint(server: &Url, egress: &Egress) -> Result<AuthorizationServer, TokenError> {
    let mut endpoint = server.clone();
    endpoint.set_path("/token");
    endpoint.set_query(None);
    endpoint.set_fragment(None);
    if !is_safe_for_secrets(&endpoint) {
        return Err(TokenError::refused("the token endpoint has no https URL"));
    }
    egress.check(&endpoint).map_err(TokenError::Forbidden)?;
    Ok(AuthorizationServer::from_token_endpoint(endpoint))
}

async fn authorization_server(
    egress: &Egress,
    issuer: &str,
) -> Result<Option<AuthorizationServer>, TokenError> {
    let url = Url::parse(issuer).ok().filter(|url| url.query().is_none() && url.fragment().is_none());
    let Some(url) = url.filter(is_safe_for_secrets) else {
        return Err(TokenError::refused("the authorization server has no https URL"));
    };
    for url in issuer_documents(&url) {
        let Some(document) = get(egress, &url).await? else { continue };
        let text = |key: &str| document.get(key).and_then(Value::as_str);
        if !text("issuer").is_some_and(|said| same(said, issuer)) {
            return Err(TokenError::refused("the authorization server's metadata name another issuer"));
        }
        let endpoint = text("token_endpoint").and_then(|url| Url::parse(url).ok());
        let endpoint = endpoint
            .ok_or_else(|| TokenError::refused("the authorization server names no token endpoint"))?;
        if !is_safe_for_secrets(&endpoint) {
            return Err(TokenError::refused("the token endpoint has no https URL"));
        }
        egress.check(&endpoint).map_err(TokenError::Forbidden)?;
        let methods = document.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
        let methods =
            methods.map(|methods| methods.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        return Ok(Some(AuthorizationServer {
            token_endpoint: endpoint,
            issuer: text("issuer").map(str::to_owned),
            methods,
            resource: None,
        }));
    }
    Ok(None)
}

/// Compares issuers textually but for a trailing slash, which many servers add or omit.
fn same(one: &str, other: &str) -> bool {
    one.strip_suffix('/').unwrap_or(one) == other.strip_suffix('/').unwrap_or(other)
}

/// Fetches a JSON object; `None` if there is none at this URL.
async fn get(egress: &Egress, url: &Url) -> Result<Option<Value>, TokenError> {
    let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
    let response = egress.get(url.as_str(), headers).await;
    let response = response.map_err(|error| TokenError::from_egress("the server's metadata", error))?;
    if url.scheme() == "https" && response.final_url.scheme() != "https" {
        return Err(TokenError::refused("the server's metadata redirect from https to http"));
    }
    match response.status {
        200 => Ok(serde_json::from_slice(&response.body).ok().filter(Value::is_object)),
        429 | 500.. => {
            Err(TokenError::Unreachable(format!("the server's metadata: status {}", response.status).into()))
        }
        _ => Ok(None),
    }
}
