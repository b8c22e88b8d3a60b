//! Credentials of a configured MCP server, per caller where they depend on the caller.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use secrecy::{ExposeSecret, SecretString};

use super::cached_token::CachedToken;
use super::client::{ClientAuth, OAuthClient};
use super::discovery::{AuthorizationServer, Discovery};
use super::fingerprint;
use super::request::bearer_token;
use super::token::{Grant, TokenClient, TokenEndpoint};
use super::{Credentials, Fingerprint, StaticHeaders};
use crate::error::McpError;
use antwort_config::mcp::{headers, is_safe_for_secrets, signing};
use antwort_config::settings::{ClientCredentials, McpAuth, McpServerSettings, TokenExchange};
use antwort_net::egress::Egress;
use antwort_util::digest::FieldHasher;

/// Maximum number of callers whose exchanged tokens are cached.
const MAX_CALLERS: u64 = 1024;
/// Exchanged tokens of callers that were idle for this long are dropped.
const CALLER_IDLE_TTL: Duration = Duration::from_mins(15);

/// The source of credentials for one configured server (`auth` and `headers`).
pub(crate) struct CredentialSource(Kind);

enum Kind {
    /// The same for all callers.
    Shared(Arc<dyn Credentials>),
    /// The caller's own `Authorization`, beside these headers.
    Forward(HeaderMap),
    /// The caller's token, exchanged (RFC 8693).
    Exchange(Box<TokenExchanger>),
}

struct TokenExchanger {
    token_client: Arc<TokenClient>,
    audience: Option<String>,
    extra_headers: HeaderMap,
    callers: Cache<Fingerprint, Arc<CachedToken>>,
}

impl CredentialSource {
    /// Reads the settings of the server at the URL `server`; token requests go through `egress`.
    ///
    /// # Errors
    /// If the settings are invalid, which validation of the configuration rules out.
    pub(crate) fn new(
        settings: &McpServerSettings,
        egress: &Arc<Egress>,
        server: &Url,
    ) -> Result<Self, McpError> {
        let mut extra_headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let header = headers::read(name, value.expose_secret());
            let (header, value) =
                header.map_err(|problem| unusable_credential(&format!("headers.{name} {problem}")))?;
            extra_headers.insert(header, value);
        }
        let kind = match &settings.auth {
            McpAuth::None => Kind::Shared(Arc::new(StaticHeaders::new(extra_headers))),
            McpAuth::Bearer { token } => {
                let value = headers::bearer(token.expose_secret());
                extra_headers.insert(
                    AUTHORIZATION,
                    value.map_err(|problem| unusable_credential(&format!("auth.token {problem}")))?,
                );
                Kind::Shared(Arc::new(StaticHeaders::new(extra_headers)))
            }
            McpAuth::ClientCredentials(settings) => {
                let token_client = Arc::new(credentials_client(settings, egress, server)?);
                let hasher = fingerprint::add_headers(hash_client(settings, server), &extra_headers);
                let fingerprint = Fingerprint(hasher.finish());
                Kind::Shared(Arc::new(CachedToken::new(
                    token_client,
                    Grant::ClientCredentials,
                    extra_headers,
                    fingerprint,
                )))
            }
            McpAuth::TokenExchange(settings) => {
                let callers =
                    Cache::builder().max_capacity(MAX_CALLERS).time_to_idle(CALLER_IDLE_TTL).build();
                let token_client = Arc::new(exchange_client(settings, egress, server)?);
                Kind::Exchange(Box::new(TokenExchanger {
                    token_client,
                    audience: settings.audience.clone(),
                    extra_headers,
                    callers,
                }))
            }
            McpAuth::Forward => Kind::Forward(extra_headers),
        };
        Ok(Self(kind))
    }

    /// The credentials for a caller with this `Authorization` header.
    ///
    /// # Errors
    /// `Unauthorized` if the credentials depend on the caller's token and there is none.
    pub(crate) fn for_caller(
        &self,
        caller_authorization: Option<&SecretString>,
    ) -> Result<Arc<dyn Credentials>, McpError> {
        let authorization = caller_authorization.map(|header| header.expose_secret().trim());
        match &self.0 {
            Kind::Shared(shared) => Ok(Arc::clone(shared)),
            Kind::Forward(extra_headers) => {
                let authorization = authorization.filter(|header| !header.is_empty());
                let value =
                    authorization.ok_or_else(|| missing_token("requires the caller's Authorization"))?;
                let header = headers::read(AUTHORIZATION.as_str(), value);
                let (name, value) = header.map_err(|problem| {
                    unusable_credential(&format!("the caller's Authorization {problem}"))
                })?;
                let mut all = extra_headers.clone();
                all.insert(name, value);
                Ok(Arc::new(StaticHeaders::new(all)))
            }
            Kind::Exchange(exchange) => {
                let token = authorization.and_then(bearer_token).filter(|token| !token.is_empty());
                let token = token.ok_or_else(|| missing_token("requires a token exchange"))?;
                Ok(exchange.for_token(token))
            }
        }
    }
}

impl TokenExchanger {
    /// The cached exchanged token of the caller with this token.
    fn for_token(&self, token: &str) -> Arc<CachedToken> {
        // The remaining settings are the same for all callers of this server.
        let hasher = fingerprint::hasher("exchange")
            .field(self.token_client.server.as_str())
            .field(&self.token_client.client.id)
            .field(self.token_client.scopes.join(" "))
            .option(self.token_client.resource.as_deref())
            .option(self.audience.as_deref());
        let hasher = fingerprint::add_headers(hasher, &self.extra_headers).field(token);
        let fingerprint = Fingerprint(hasher.finish());
        self.callers.get_with(fingerprint, || {
            let grant = Grant::Exchange { subject: token.into(), audience: self.audience.clone() };
            Arc::new(CachedToken::new(
                Arc::clone(&self.token_client),
                grant,
                self.extra_headers.clone(),
                fingerprint,
            ))
        })
    }
}

fn credentials_client(
    settings: &ClientCredentials,
    egress: &Arc<Egress>,
    server: &Url,
) -> Result<TokenClient, McpError> {
    let client_auth = match (&settings.private_key, &settings.client_secret) {
        (Some(pem), _) => {
            let key = signing::key(pem.expose_secret(), settings.algorithm.as_deref());
            let (key, algorithm) =
                key.map_err(|problem| unusable_credential(&format!("auth.private_key {problem}")))?;
            ClientAuth::Key { key, algorithm, id: settings.key_id.clone() }
        }
        (None, Some(secret)) => ClientAuth::Secret(secret.clone()),
        (None, None) => return Err(unusable_credential("auth needs client_secret or private_key")),
    };
    let client = OAuthClient { id: settings.client_id.clone(), auth: client_auth };
    token_client(
        client,
        settings.token_url.as_deref(),
        &settings.scopes,
        settings.resource.as_ref(),
        egress,
        server,
    )
}

fn exchange_client(
    settings: &TokenExchange,
    egress: &Arc<Egress>,
    server: &Url,
) -> Result<TokenClient, McpError> {
    let client_auth = settings.client_secret.clone().map_or(ClientAuth::Public, ClientAuth::Secret);
    // No discovery: the server's metadata would let it choose who receives the callers' tokens.
    if settings.token_url.is_none() {
        return Err(unusable_credential("auth.token_url is missing"));
    }
    let client = OAuthClient { id: settings.client_id.clone(), auth: client_auth };
    token_client(
        client,
        settings.token_url.as_deref(),
        &settings.scopes,
        settings.resource.as_ref(),
        egress,
        server,
    )
}

fn token_client(
    client: OAuthClient,
    token_url: Option<&str>,
    scopes: &[String],
    resource: Option<&String>,
    egress: &Arc<Egress>,
    server: &Url,
) -> Result<TokenClient, McpError> {
    let mut server = server.clone();
    server.set_query(None);
    server.set_fragment(None);
    let endpoint = match token_url {
        Some(url) => {
            let url = Url::parse(url).ok().filter(is_safe_for_secrets);
            let url = url.ok_or_else(|| unusable_credential("auth.token_url is not an https URL"))?;
            TokenEndpoint::Configured(Arc::new(AuthorizationServer::from_token_endpoint(url)))
        }
        None => TokenEndpoint::Discovered(Box::new(Discovery::new(server.clone()))),
    };
    let (scopes, resource) = (scopes.to_vec(), resource.cloned());
    Ok(TokenClient { egress: Arc::clone(egress), client, endpoint, scopes, resource, server })
}

fn hash_client(settings: &ClientCredentials, server: &Url) -> FieldHasher {
    fingerprint::hasher("client credentials")
        .field(server.as_str())
        .field(&settings.client_id)
        .option(settings.client_secret.as_ref().map(ExposeSecret::expose_secret))
        .option(settings.private_key.as_ref().map(ExposeSecret::expose_secret))
        .option(settings.token_url.as_deref())
        .field(settings.scopes.join(" "))
        .option(settings.resource.as_deref())
}

fn unusable_credential(problem: &str) -> McpError {
    McpError::unauthorized(format!(": {problem}"))
}

fn missing_token(why: &str) -> McpError {
    McpError::unauthorized(format!(": it {why}, and the caller sent no bearer token"))
}
