//! Credentials of a configured server, for whoever calls.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use secrecy::{ExposeSecret, SecretString};

use super::cached_token::CachedToken;
use super::client::{ClientAuth, OAuthClient};
use super::discovery::{AuthorizationServer, Discovery};
use super::fingerprint::FingerprintBuilder;
use super::request::bearer_token;
use super::token::{Grant, TokenClient, TokenEndpoint};
use super::{Credentials, Fingerprint, StaticHeaders};
use crate::config::mcp::{headers, is_safe_for_secrets, signing};
use crate::config::settings::{ClientCredentials, McpAuth, McpServerSettings, TokenExchange};
use crate::net::egress::Egress;
use crate::tools::mcp::error::McpError;

/// Callers whose exchanged tokens are kept.
const MAX_CALLERS: u64 = 1024;
/// How long those of a caller are kept who does not call.
const CALLER_IDLE_TTL: Duration = Duration::from_mins(15);

/// Makes the credentials of one configured server.
pub(crate) struct CredentialSource(Kind);

enum Kind {
    /// The same for all callers.
    Shared(Arc<dyn Credentials>),
    /// The caller's own header, beside these.
    Forward(HeaderMap),
    /// The caller's token, exchanged.
    Exchange(Box<TokenExchanger>),
}

struct TokenExchanger {
    token_client: Arc<TokenClient>,
    audience: Option<String>,
    extra_headers: HeaderMap,
    callers: Cache<Fingerprint, Arc<CachedToken>>,
}

impl CredentialSource {
    /// Reads the settings of a server, which is at `server` and is reached through `egress`; a program has neither,
    /// and needs no credentials.
    ///
    /// # Errors
    /// If they cannot be used, which checked settings always can.
    pub(crate) fn new(
        settings: &McpServerSettings,
        egress: &Arc<Egress>,
        server: &Url,
    ) -> Result<Self, McpError> {
        let mut beside = HeaderMap::new();
        for (name, value) in &settings.headers {
            let header = headers::read(name, value.expose_secret());
            let (header, value) = header.map_err(|problem| unusable(&format!("headers.{name} {problem}")))?;
            beside.insert(header, value);
        }
        let kind = match &settings.auth {
            McpAuth::None => Kind::Shared(Arc::new(StaticHeaders::new(beside))),
            McpAuth::Bearer { token } => {
                let value = headers::bearer(token.expose_secret());
                beside.insert(
                    AUTHORIZATION,
                    value.map_err(|problem| unusable(&format!("auth.token {problem}")))?,
                );
                Kind::Shared(Arc::new(StaticHeaders::new(beside)))
            }
            McpAuth::ClientCredentials(said) => {
                let asks = Arc::new(credentials_client(said, egress, server)?);
                let print = client_fingerprint(said, server).headers(&beside).finish();
                Kind::Shared(Arc::new(CachedToken::new(asks, Grant::ClientCredentials, beside, print)))
            }
            McpAuth::TokenExchange(said) => {
                let callers =
                    Cache::builder().max_capacity(MAX_CALLERS).time_to_idle(CALLER_IDLE_TTL).build();
                let asks = Arc::new(exchange_client(said, egress, server)?);
                Kind::Exchange(Box::new(TokenExchanger {
                    token_client: asks,
                    audience: said.audience.clone(),
                    extra_headers: beside,
                    callers,
                }))
            }
            McpAuth::Forward => Kind::Forward(beside),
        };
        Ok(Self(kind))
    }

    /// The credentials for a caller, whose `Authorization` is given as it came.
    ///
    /// # Errors
    /// `Unauthorized` if they depend on the caller's token and there is none.
    pub(crate) fn for_caller(
        &self,
        caller_authorization: Option<&SecretString>,
    ) -> Result<Arc<dyn Credentials>, McpError> {
        let authorization = caller_authorization.map(|header| header.expose_secret().trim());
        match &self.0 {
            Kind::Shared(shared) => Ok(Arc::clone(shared)),
            Kind::Forward(beside) => {
                let authorization = authorization.filter(|header| !header.is_empty());
                let value = authorization.ok_or_else(|| no_token("is shown the caller's Authorization"))?;
                let header = headers::read(AUTHORIZATION.as_str(), value);
                let (name, value) =
                    header.map_err(|problem| unusable(&format!("the caller's Authorization {problem}")))?;
                let mut all = beside.clone();
                all.insert(name, value);
                Ok(Arc::new(StaticHeaders::new(all)))
            }
            Kind::Exchange(exchange) => {
                let token = authorization.and_then(bearer_token).filter(|token| !token.is_empty());
                let token = token.ok_or_else(|| no_token("takes the caller's token in exchange"))?;
                Ok(exchange.for_token(token))
            }
        }
    }
}

impl TokenExchanger {
    /// What is kept for the caller with this token.
    fn for_token(&self, token: &str) -> Arc<CachedToken> {
        // The rest of what tells them apart is the same for all callers of this server.
        let print = FingerprintBuilder::new("exchange")
            .field(self.token_client.server.as_str().as_bytes())
            .field(self.token_client.client.id.as_bytes())
            .field(self.token_client.scopes.join(" ").as_bytes())
            .option(self.token_client.resource.as_deref().map(str::as_bytes))
            .option(self.audience.as_deref().map(str::as_bytes))
            .headers(&self.extra_headers)
            .field(token.as_bytes())
            .finish();
        self.callers.get_with(print, || {
            let grant = Grant::Exchange { subject: token.into(), audience: self.audience.clone() };
            Arc::new(CachedToken::new(
                Arc::clone(&self.token_client),
                grant,
                self.extra_headers.clone(),
                print,
            ))
        })
    }
}

fn credentials_client(
    said: &ClientCredentials,
    egress: &Arc<Egress>,
    server: &Url,
) -> Result<TokenClient, McpError> {
    let proof = match (&said.private_key, &said.client_secret) {
        (Some(pem), _) => {
            let key = signing::key(pem.expose_secret(), said.algorithm.as_deref());
            let (key, algorithm) = key.map_err(|problem| unusable(&format!("auth.private_key {problem}")))?;
            ClientAuth::Key { key, algorithm, id: said.key_id.clone() }
        }
        (None, Some(secret)) => ClientAuth::Secret(secret.clone()),
        (None, None) => return Err(unusable("auth has neither client_secret nor private_key")),
    };
    let client = OAuthClient { id: said.client_id.clone(), auth: proof };
    token_client(client, said.token_url.as_deref(), &said.scopes, said.resource.as_ref(), egress, server)
}

fn exchange_client(
    said: &TokenExchange,
    egress: &Arc<Egress>,
    server: &Url,
) -> Result<TokenClient, McpError> {
    let proof = said.client_secret.clone().map_or(ClientAuth::Public, ClientAuth::Secret);
    // The server's metadata would let it choose who gets callers' tokens.
    if said.token_url.is_none() {
        return Err(unusable("auth.token_url is missing"));
    }
    let client = OAuthClient { id: said.client_id.clone(), auth: proof };
    token_client(client, said.token_url.as_deref(), &said.scopes, said.resource.as_ref(), egress, server)
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
    let place = match token_url {
        Some(url) => {
            let url = Url::parse(url).ok().filter(is_safe_for_secrets);
            let url = url.ok_or_else(|| unusable("auth.token_url is no https URL"))?;
            TokenEndpoint::Configured(Arc::new(AuthorizationServer::from_token_endpoint(url)))
        }
        None => TokenEndpoint::Discovered(Box::new(Discovery::new(server.clone()))),
    };
    let (scopes, resource) = (scopes.to_vec(), resource.cloned());
    Ok(TokenClient { egress: Arc::clone(egress), client, endpoint: place, scopes, resource, server })
}

fn client_fingerprint(said: &ClientCredentials, server: &Url) -> FingerprintBuilder {
    let secret =
        |secret: &Option<SecretString>| secret.as_ref().map(|s| s.expose_secret().as_bytes().to_vec());
    FingerprintBuilder::new("client credentials")
        .field(server.as_str().as_bytes())
        .field(said.client_id.as_bytes())
        .option(secret(&said.client_secret).as_deref())
        .option(secret(&said.private_key).as_deref())
        .option(said.token_url.as_deref().map(str::as_bytes))
        .field(said.scopes.join(" ").as_bytes())
        .option(said.resource.as_deref().map(str::as_bytes))
}

fn unusable(problem: &str) -> McpError {
    McpError::unauthorized(format!(": {problem}"))
}

fn no_token(why: &str) -> McpError {
    McpError::unauthorized(format!(": it {why}, and the caller sent no bearer token"))
}
