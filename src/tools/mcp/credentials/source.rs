//! Credentials of a configured server, for whoever calls.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use secrecy::{ExposeSecret, SecretString};

use super::client::{Client, Proof};
use super::discovery::{AuthorizationServer, Discovery};
use super::kept::Kept;
use super::print::Print;
use super::request::bearer_token;
use super::token::{Grant, TokenClient, TokenPlace};
use super::{Credentials, Fingerprint, Fixed};
use crate::config::mcp::{headers, is_safe, signing};
use crate::config::settings::{ClientCredentials, McpAuth, McpServerSettings, TokenExchange};
use crate::net::egress::Egress;
use crate::tools::mcp::error::McpError;

/// Callers whose exchanged tokens are kept.
const MOST_CALLERS: u64 = 1024;
/// How long those of a caller are kept who does not call.
const CALLER_IDLE: Duration = Duration::from_mins(15);

/// Makes the credentials of one configured server.
pub struct CredentialSource(Kind);

enum Kind {
    /// The same for all callers.
    Shared(Arc<dyn Credentials>),
    /// The caller's own header, beside these.
    Forward(HeaderMap),
    /// The caller's token, exchanged.
    Exchange(Box<Exchange>),
}

struct Exchange {
    asks: Arc<TokenClient>,
    audience: Option<String>,
    beside: HeaderMap,
    callers: Cache<Fingerprint, Arc<Kept>>,
}

impl CredentialSource {
    /// Reads the settings of a server, which is at `server` and is reached through `egress`; a program has neither,
    /// and needs no credentials.
    ///
    /// # Errors
    /// If they cannot be used, which checked settings always can.
    pub fn new(settings: &McpServerSettings, egress: &Arc<Egress>, server: &Url) -> Result<Self, McpError> {
        let mut beside = HeaderMap::new();
        for (name, value) in &settings.headers {
            let header = headers::read(name, value.expose_secret());
            let (header, value) = header.map_err(|problem| unusable(&format!("headers.{name} {problem}")))?;
            beside.insert(header, value);
        }
        let kind = match &settings.auth {
            McpAuth::None => Kind::Shared(Arc::new(Fixed::new(beside))),
            McpAuth::Bearer { token } => {
                let value = headers::bearer(token.expose_secret());
                beside.insert(
                    AUTHORIZATION,
                    value.map_err(|problem| unusable(&format!("auth.token {problem}")))?,
                );
                Kind::Shared(Arc::new(Fixed::new(beside)))
            }
            McpAuth::ClientCredentials(said) => {
                let asks = Arc::new(of_client(said, egress, server)?);
                let print = print_of_client(said, server).headers(&beside).finish();
                Kind::Shared(Arc::new(Kept::new(asks, Grant::ClientCredentials, beside, print)))
            }
            McpAuth::TokenExchange(said) => {
                let callers = Cache::builder().max_capacity(MOST_CALLERS).time_to_idle(CALLER_IDLE).build();
                let asks = Arc::new(of_exchange(said, egress, server)?);
                Kind::Exchange(Box::new(Exchange { asks, audience: said.audience.clone(), beside, callers }))
            }
            McpAuth::Forward => Kind::Forward(beside),
        };
        Ok(Self(kind))
    }

    /// The credentials for a caller, whose `Authorization` is given as it came.
    ///
    /// # Errors
    /// `Unauthorized` if they depend on the caller's token and there is none.
    pub fn for_caller(
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
                Ok(Arc::new(Fixed::new(all)))
            }
            Kind::Exchange(exchange) => {
                let token = authorization.and_then(bearer_token).filter(|token| !token.is_empty());
                let token = token.ok_or_else(|| no_token("takes the caller's token in exchange"))?;
                Ok(exchange.of(token))
            }
        }
    }
}

impl Exchange {
    /// What is kept for the caller with this token.
    fn of(&self, token: &str) -> Arc<Kept> {
        // The rest of what tells them apart is the same for all callers of this server.
        let print = Print::of("exchange")
            .field(self.asks.server.as_str().as_bytes())
            .field(self.asks.client.id.as_bytes())
            .field(self.asks.scopes.join(" ").as_bytes())
            .option(self.asks.resource.as_deref().map(str::as_bytes))
            .option(self.audience.as_deref().map(str::as_bytes))
            .headers(&self.beside)
            .field(token.as_bytes())
            .finish();
        self.callers.get_with(print, || {
            let grant = Grant::Exchange { subject: token.into(), audience: self.audience.clone() };
            Arc::new(Kept::new(Arc::clone(&self.asks), grant, self.beside.clone(), print))
        })
    }
}

fn of_client(said: &ClientCredentials, egress: &Arc<Egress>, server: &Url) -> Result<TokenClient, McpError> {
    let proof = match (&said.private_key, &said.client_secret) {
        (Some(pem), _) => {
            let key = signing::key(pem.expose_secret(), said.algorithm.as_deref());
            let (key, algorithm) = key.map_err(|problem| unusable(&format!("auth.private_key {problem}")))?;
            Proof::Key { key, algorithm, id: said.key_id.clone() }
        }
        (None, Some(secret)) => Proof::Secret(secret.clone()),
        (None, None) => return Err(unusable("auth has neither client_secret nor private_key")),
    };
    let client = Client { id: said.client_id.clone(), proof };
    token_client(client, said.token_url.as_deref(), &said.scopes, said.resource.as_ref(), egress, server)
}

fn of_exchange(said: &TokenExchange, egress: &Arc<Egress>, server: &Url) -> Result<TokenClient, McpError> {
    let proof = said.client_secret.clone().map_or(Proof::Public, Proof::Secret);
    // The server's metadata would let it choose who gets callers' tokens.
    if said.token_url.is_none() {
        return Err(unusable("auth.token_url is missing"));
    }
    let client = Client { id: said.client_id.clone(), proof };
    token_client(client, said.token_url.as_deref(), &said.scopes, said.resource.as_ref(), egress, server)
}

fn token_client(
    client: Client,
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
            let url = Url::parse(url).ok().filter(is_safe);
            let url = url.ok_or_else(|| unusable("auth.token_url is no https URL"))?;
            TokenPlace::Said(Arc::new(AuthorizationServer::at(url)))
        }
        None => TokenPlace::Found(Box::new(Discovery::of(server.clone()))),
    };
    let (scopes, resource) = (scopes.to_vec(), resource.cloned());
    Ok(TokenClient { egress: Arc::clone(egress), client, place, scopes, resource, server })
}

fn print_of_client(said: &ClientCredentials, server: &Url) -> Print {
    let secret =
        |secret: &Option<SecretString>| secret.as_ref().map(|s| s.expose_secret().as_bytes().to_vec());
    Print::of("client credentials")
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
