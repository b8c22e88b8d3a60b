//! Asking an authorization server for a token.

use std::sync::Arc;
use std::time::Duration;

use form_urlencoded::Serializer;
use reqwest::Url;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::client::OAuthClient;
use super::discovery::{AuthorizationServer, Discovery};
use crate::config::mcp::headers;
use crate::net::FailureCause;
use crate::net::egress::{Egress, EgressError, EgressResponse};
use crate::tools::mcp::error::{FailureReason, McpError};

/// How long a token is taken to hold of which the server does not say it.
const DEFAULT_TOKEN_TTL: Duration = Duration::from_mins(10);
/// The longest that one is believed to hold.
const MAX_TOKEN_TTL: Duration = Duration::from_hours(24);
/// Bytes of the code of an error that are shown.
const MAX_ERROR_CODE_BYTES: usize = 64;

/// Why there is no token. Holds nothing that is secret and nothing that a stranger wrote, but for a code.
#[derive(Debug, Clone)]
pub(super) enum TokenError {
    /// It was refused, or what came is no token.
    Refused(String),
    /// The rules of outgoing requests forbid it.
    Forbidden(EgressError),
    /// Nobody answered, or not yet.
    Unreachable(FailureReason),
}

impl TokenError {
    pub(super) fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }

    /// What became of a request to `place`. The call that the token is for was not made in any case, so that it
    /// may be made again.
    pub(super) fn from_egress(place: &str, error: EgressError) -> Self {
        // A name that may not be used is told like one that does not exist.
        if error.is_refusal() && !matches!(error, EgressError::NameNotAllowed { .. }) {
            Self::Forbidden(error)
        } else {
            let told = format!("{place}: {error}");
            Self::Unreachable(match FailureCause::find_in(&error) {
                Some(cause) => FailureReason::new(told, cause.clone()),
                None => told.into(),
            })
        }
    }
}

impl From<TokenError> for McpError {
    fn from(failure: TokenError) -> Self {
        match failure {
            TokenError::Refused(why) => Self::unauthorized(format!(": {why}")),
            TokenError::Forbidden(error) => Self::Egress(error),
            TokenError::Unreachable(why) => Self::Connect(why),
        }
    }
}

/// Where tokens are had.
pub(super) enum TokenEndpoint {
    /// At a place of the configuration.
    Configured(Arc<AuthorizationServer>),
    /// Where the server's metadata say.
    Discovered(Box<Discovery>),
}

/// Asks for tokens of one server.
pub(super) struct TokenClient {
    pub(super) egress: Arc<Egress>,
    pub(super) client: OAuthClient,
    pub(super) endpoint: TokenEndpoint,
    /// Those of the configuration.
    pub(super) scopes: Vec<String>,
    /// For whom the tokens are, where the configuration says it.
    pub(super) resource: Option<String>,
    /// The MCP server, without query.
    pub(super) server: Url,
}

/// What is exchanged for a token.
pub(super) enum Grant {
    /// Being the client.
    ClientCredentials,
    /// A caller's token.
    Exchange { subject: SecretString, audience: Option<String> },
}

/// A token that was had.
pub(super) struct Token {
    /// The `Authorization`.
    pub(super) value: HeaderValue,
    /// For how long it holds.
    pub(super) ttl: Duration,
}

impl TokenClient {
    /// Asks for a token that reaches as far as `more` too; `None`: the server says nowhere where it could be had.
    pub(super) async fn ask(&self, grant: &Grant, more: &[String]) -> Result<Option<Token>, TokenError> {
        let server = match &self.endpoint {
            TokenEndpoint::Configured(server) => Arc::clone(server),
            TokenEndpoint::Discovered(discovery) => match discovery.find(&self.egress).await? {
                Some(server) => server,
                None => return Ok(None),
            },
        };
        let token = self.ask_at(&server, grant, more).await;
        if let (Err(_), TokenEndpoint::Discovered(discovery)) = (&token, &self.endpoint) {
            // Perhaps it has moved.
            discovery.forget().await;
        }
        token.map(Some)
    }

    async fn ask_at(
        &self,
        server: &AuthorizationServer,
        grant: &Grant,
        more: &[String],
    ) -> Result<Token, TokenError> {
        let (headers, form) = self.request(server, grant, more)?;
        let answer = self.egress.post_form(server.token_endpoint.as_str(), headers, form).await;
        let answer = answer.map_err(|error| TokenError::from_egress("the token endpoint", error))?;
        if answer.final_url.origin() != server.token_endpoint.origin() {
            return Err(TokenError::refused("the token endpoint leads to another server"));
        }
        read(&answer)
    }

    fn request(
        &self,
        server: &AuthorizationServer,
        grant: &Grant,
        more: &[String],
    ) -> Result<(HeaderMap, String), TokenError> {
        let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        let mut form = Serializer::new(String::new());
        grant.fill(&mut form);
        let scopes: Vec<&str> = self.scopes.iter().chain(more).map(String::as_str).collect();
        if !scopes.is_empty() {
            form.append_pair("scope", &scopes.join(" "));
        }
        let resource = self.resource.as_deref().or(server.resource.as_deref());
        form.append_pair("resource", resource.unwrap_or_else(|| name_of(&self.server)));
        self.client.authenticate(server, &mut headers, &mut form)?;
        Ok((headers, form.finish()))
    }
}

/// A server's name as a resource: its URL, without the slash that stands for no path.
fn name_of(server: &Url) -> &str {
    let name = server.as_str();
    if server.path() == "/" { name.strip_suffix('/').unwrap_or(name) } else { name }
}

impl Grant {
    fn fill(&self, form: &mut Serializer<'_, String>) {
        match self {
            Self::ClientCredentials => {
                form.append_pair("grant_type", "client_credentials");
            }
            Self::Exchange { subject, audience } => {
                let access_token = "urn:ietf:params:oauth:token-type:access_token";
                form.append_pair("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
                    .append_pair("subject_token", subject.expose_secret())
                    .append_pair("subject_token_type", access_token)
                    .append_pair("requested_token_type", access_token);
                if let Some(audience) = audience {
                    form.append_pair("audience", audience);
                }
            }
        }
    }
}

fn read(answer: &EgressResponse) -> Result<Token, TokenError> {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if answer.status != 200 {
        return Err(refusal(answer.status, &body));
    }
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    let Some(token) = text("access_token") else {
        return Err(TokenError::refused("the token endpoint's answer holds no token"));
    };
    // Required, but left out by some.
    if !text("token_type").is_none_or(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return Err(TokenError::refused("the token endpoint gave a token that is no bearer token"));
    }
    let value = headers::bearer(token)
        .map_err(|problem| TokenError::refused(format!("the token endpoint's token {problem}")))?;
    let life = match body.get("expires_in") {
        None | Some(Value::Null) => DEFAULT_TOKEN_TTL,
        Some(Value::String(seconds)) => seconds.parse().map_or(DEFAULT_TOKEN_TTL, Duration::from_secs),
        Some(seconds) => seconds.as_f64().map_or(DEFAULT_TOKEN_TTL, whole_seconds),
    };
    if life.is_zero() {
        return Err(TokenError::refused("the token endpoint gave a token that has already expired"));
    }
    Ok(Token { value, ttl: life.min(MAX_TOKEN_TTL) })
}

fn whole_seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0).floor()).unwrap_or(MAX_TOKEN_TTL)
}

/// What a refusal says. Of its body only the code: the rest is text for people that anybody may have written.
fn refusal(status: u16, body: &Value) -> TokenError {
    if status == 429 || status >= 500 {
        return TokenError::Unreachable(format!("the token endpoint answered with status {status}").into());
    }
    let known = |code: &&str| {
        (1..=MAX_ERROR_CODE_BYTES).contains(&code.len())
            && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    match body.get("error").and_then(Value::as_str).filter(known) {
        Some(code) => TokenError::refused(format!("the token endpoint says {code}")),
        None => TokenError::refused(format!("the token endpoint answered with status {status}")),
    }
}
