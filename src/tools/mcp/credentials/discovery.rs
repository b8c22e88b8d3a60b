//! Where tokens for a server are had, by what the server and its authorization server say of themselves.
//!
//! The server names its authorization server (RFC 9728), and that one its token endpoint (RFC 8414, or OpenID
//! Connect). Each must say that it is the one that was asked for, so that neither can pose as another. Whoever may
//! answer for the server thereby chooses who gets the client's secret: the first choice holds for good. A server that wants
//! a token and has no metadata gives it at its own `/token` (the revision of 2025-03-26).

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::WwwAuthenticate;
use super::token::TokenError;
use crate::config::mcp::is_safe_for_secrets;
use crate::net::egress::Egress;

mod documents;
use documents::{ResourceMetadata, issuer_documents, resource_documents};
pub(super) use documents::{challenged_url, parameter};

/// How long what was found is believed.
const FOUND_TTL: Duration = Duration::from_hours(1);
/// How long nobody asks again where there was nothing.
const NOT_FOUND_TTL: Duration = Duration::from_mins(1);
/// The same where something was wrong.
const FAILURE_TTL: Duration = Duration::from_secs(5);
/// Authorization servers of one server that are tried.
const MAX_ISSUERS: usize = 4;

/// Who gives tokens.
#[derive(Debug, Clone)]
pub(super) struct AuthorizationServer {
    pub(super) token_endpoint: Url,
    /// Its own name, where it was found by its metadata.
    issuer: Option<String>,
    /// How clients may show who they are there; `None`: it does not say.
    methods: Option<Vec<String>>,
    /// What the MCP server calls itself.
    pub(super) resource: Option<String>,
}

impl AuthorizationServer {
    /// One of which only the endpoint is known.
    pub(super) fn from_token_endpoint(token_endpoint: Url) -> Self {
        Self { token_endpoint, issuer: None, methods: None, resource: None }
    }

    /// Whether a secret belongs into the form, which it does only where the header is not taken.
    pub(super) fn wants_secret_in_form(&self) -> bool {
        let takes = |method: &str| self.methods.iter().flatten().any(|known| known == method);
        takes("client_secret_post") && !takes("client_secret_basic")
    }

    /// For whom an assertion is.
    pub(super) fn audience(&self) -> &str {
        self.issuer.as_deref().unwrap_or(self.token_endpoint.as_str())
    }
}

/// Finds the authorization server of an MCP server, and remembers it.
pub(super) struct Discovery {
    server: Url,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: Option<(Known, Instant)>,
    /// Where a challenge said that the metadata are.
    hint: Option<Url>,
    /// Who was found first.
    first: Option<String>,
    /// Whether the server has refused what had no token in it: then it wants one, whether or not it says where.
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

    /// Who gives tokens; `None`: there is nothing that says it.
    pub(super) async fn find(&self, egress: &Egress) -> Result<Option<Arc<AuthorizationServer>>, TokenError> {
        let mut state = self.state.lock().await;
        let known = match &state.known {
            Some((known, until)) if Instant::now() < *until => known.clone(),
            _ => {
                let known = match self.discover(egress, state.hint.as_ref(), state.first.as_deref()).await {
                    Ok(Some(server)) => {
                        state.first.clone_from(&server.issuer);
                        Known::Server(Arc::new(server))
                    }
                    Ok(None) if state.wants_token => match default_endpoint(&self.server, egress) {
                        Ok(server) => Known::Server(Arc::new(server)),
                        Err(failure) => Known::Failed(failure),
                    },
                    Ok(None) => Known::Nothing,
                    Err(failure) => {
                        // A wrong hint must not be in the way for ever.
                        state.hint = None;
                        Known::Failed(failure)
                    }
                };
                let believed = match known {
                    Known::Server(_) => FOUND_TTL,
                    Known::Nothing => NOT_FOUND_TTL,
                    Known::Failed(_) => FAILURE_TTL,
                };
                state.known = Some((known.clone(), Instant::now() + believed));
                known
            }
        };
        match known {
            Known::Server(server) => Ok(Some(server)),
            Known::Nothing => Ok(None),
            Known::Failed(failure) => Err(failure),
        }
    }

    /// Looks anew the next time.
    pub(super) async fn forget(&self) {
        let mut state = self.state.lock().await;
        if matches!(state.known, Some((Known::Server(_), _))) {
            state.known = None;
        }
    }

    /// The server has refused a request: whether that says something new of where tokens are.
    pub(super) async fn on_challenge(&self, challenged: &WwwAuthenticate) -> bool {
        let mut state = self.state.lock().await;
        let mut is_news = false;
        if let Some(url) = &challenged.metadata
            && state.hint.as_ref() != Some(url)
        {
            state.hint = Some(url.clone());
            is_news = true;
        }
        // A server that says nothing and wants a token is one of the revision of 2025-03-26.
        let says_nothing = challenged.metadata.is_none() && matches!(state.known, Some((Known::Nothing, _)));
        if says_nothing && !challenged.insufficient && !state.wants_token {
            state.wants_token = true;
            is_news = true;
        }
        if is_news {
            state.known = None;
        }
        is_news
    }

    async fn discover(
        &self,
        egress: &Egress,
        hint: Option<&Url>,
        first: Option<&str>,
    ) -> Result<Option<AuthorizationServer>, TokenError> {
        let (issuers, resource) = match self.resource(egress, hint).await? {
            Some(resource) => (resource.issuers, Some(resource.name)),
            // Older servers are their own authorization servers.
            None => (vec![self.server.origin().ascii_serialization()], None),
        };
        let theirs = resource.is_some();
        let fits = |issuer: &&String| first.is_none_or(|first| same(first, issuer));
        if theirs && !issuers.iter().any(|issuer| fits(&issuer)) {
            return Err(TokenError::refused("the server names another authorization server than before"));
        }
        for issuer in issuers.iter().filter(fits).take(MAX_ISSUERS) {
            if let Some(mut server) = authorization_server(egress, issuer).await? {
                server.resource = resource;
                return Ok(Some(server));
            }
        }
        if theirs {
            Err(TokenError::refused("no metadata of the authorization server were found"))
        } else {
            Ok(None)
        }
    }

    /// What the server says of itself.
    async fn resource(
        &self,
        egress: &Egress,
        hint: Option<&Url>,
    ) -> Result<Option<ResourceMetadata>, TokenError> {
        for place in hint.cloned().into_iter().chain(resource_documents(&self.server)) {
            let Some(document) = get(egress, &place).await? else { continue };
            let Some(resource) = ResourceMetadata::read(&document) else { continue };
            if !resource.covers(&self.server) {
                return Err(TokenError::refused("the server's metadata are those of another resource"));
            }
            return Ok(Some(resource));
        }
        Ok(None)
    }
}

/// Where tokens are of a server without any metadata, by the revision of 2025-03-26: at the root of the server itself.
fn default_endpoint(server: &Url, egress: &Egress) -> Result<AuthorizationServer, TokenError> {
    let mut endpoint = server.clone();
    endpoint.set_path("/token");
    endpoint.set_query(None);
    endpoint.set_fragment(None);
    if !is_safe_for_secrets(&endpoint) {
        return Err(TokenError::refused("the token endpoint is not at an https URL"));
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
        return Err(TokenError::refused("the authorization server is not at an https URL"));
    };
    for place in issuer_documents(&url) {
        let Some(document) = get(egress, &place).await? else { continue };
        let text = |key: &str| document.get(key).and_then(Value::as_str);
        if !text("issuer").is_some_and(|said| same(said, issuer)) {
            return Err(TokenError::refused(
                "the authorization server's metadata are those of another issuer",
            ));
        }
        let endpoint = text("token_endpoint").and_then(|url| Url::parse(url).ok());
        let endpoint = endpoint
            .ok_or_else(|| TokenError::refused("the authorization server names no token endpoint"))?;
        if !is_safe_for_secrets(&endpoint) {
            return Err(TokenError::refused("the token endpoint is not at an https URL"));
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

/// Issuers are compared as they are written, but for a slash at the end, which many add or leave out.
fn same(one: &str, other: &str) -> bool {
    one.strip_suffix('/').unwrap_or(one) == other.strip_suffix('/').unwrap_or(other)
}

/// A JSON object; `None`: there is none here.
async fn get(egress: &Egress, place: &Url) -> Result<Option<Value>, TokenError> {
    let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
    let answer = egress.get(place.as_str(), headers).await;
    let answer = answer.map_err(|error| TokenError::from_egress("the server's metadata", error))?;
    if place.scheme() == "https" && answer.final_url.scheme() != "https" {
        return Err(TokenError::refused("the server's metadata lead from https to http"));
    }
    match answer.status {
        200 => Ok(serde_json::from_slice(&answer.body).ok().filter(Value::is_object)),
        429 | 500.. => {
            Err(TokenError::Unreachable(format!("the server's metadata: status {}", answer.status).into()))
        }
        _ => Ok(None),
    }
}
