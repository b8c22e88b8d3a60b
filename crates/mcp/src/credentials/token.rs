//! Token requests to an authorization server.

use std::sync::Arc;
use std::time::Duration;

use form_urlencoded::Serializer;
use reqwest::Url;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::client::OAuthClient;
use super::discovery::{AuthorizationServer, Discovery};
use super::token_error::TokenError;
use antwort_config::mcp::headers;
use antwort_net::egress::{Egress, EgressResponse};

/// Lifetime of a token without `expires_in`.
const DEFAULT_TOKEN_TTL: Duration = Duration::from_mins(10);
/// Upper bound of `expires_in`.
const MAX_TOKEN_TTL: Duration = Duration::from_hours(24);
/// Maximum bytes of an OAuth error code that is passed on.
const MAX_ERROR_CODE_BYTES: usize = 64;

/// The token endpoint.
pub(super) enum TokenEndpoint {
    /// From the configuration.
    Configured(Arc<AuthorizationServer>),
    /// From the server's metadata.
    Discovered(Box<Discovery>),
}

/// Requests tokens for one MCP server.
pub(super) struct TokenClient {
    pub(super) egress: Arc<Egress>,
    pub(super) client: OAuthClient,
    pub(super) endpoint: TokenEndpoint,
    /// Configured scopes.
    pub(super) scopes: Vec<String>,
    /// Configured resource identifier (RFC 8707).
    pub(super) resource: Option<String>,
    /// URL of the MCP server, without query.
    pub(super) server: Url,
}

/// The grant type.
pub(super) enum Grant {
    /// Client credentials.
    ClientCredentials,
    /// Exchange of a caller's token.
    Exchange { subject: SecretString, audience: Option<String> },
}

/// An issued token.
pub(super) struct Token {
    /// Value of the `Authorization` header.
    pub(super) value: HeaderValue,
    /// Remaining lifetime.
    pub(super) ttl: Duration,
}

impl TokenClient {
    /// Requests a token that also has the scopes `more`; `None` if discovery finds no authorization server.
    pub(super) async fn request_token(
        &self,
        grant: &Grant,
        more: &[String],
    ) -> Result<Option<Token>, TokenError> {
        let server = match &self.endpoint {
            TokenEndpoint::Configured(server) => Arc::clone(server),
            TokenEndpoint::Discovered(discovery) => match discovery.find(&self.egress).await? {
                Some(server) => server,
                None => return Ok(None),
            },
        };
        let token = self.request_token_at(&server, grant, more).await;
        if let (Err(_), TokenEndpoint::Discovered(discovery)) = (&token, &self.endpoint) {
            // The endpoint may have moved.
            discovery.forget().await;
        }
        token.map(Some)
    }

    async fn request_token_at(
        &self,
        server: &AuthorizationServer,
        grant: &Grant,
        more: &[String],
    ) -> Result<Token, TokenError> {
        let (headers, form) = self.request(server, grant, more)?;
        let response = self.egress.post_form(server.token_endpoint.as_str(), headers, form).await;
        let response = response.map_err(|error| TokenError::from_egress("the token endpoint", error))?;
        if response.final_url.origin() != server.token_endpoint.origin() {
            return Err(TokenError::refused("the token endpoint redirects to another server"));
        }
        read(&response)
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
        form.append_pair("resource", resource.unwrap_or_else(|| resource_identifier(&self.server)));
        self.client.authenticate(server, &mut headers, &mut form)?;
        Ok((headers, form.finish()))
    }
}

/// Default resource identifier of a server: its URL, without the slash of an empty path.
fn resource_identifier(server: &Url) -> &str {
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

fn read(response: &EgressResponse) -> Result<Token, TokenError> {
    let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    if response.status != 200 {
        return Err(refusal(response.status, &body));
    }
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    let Some(token) = text("access_token") else {
        return Err(TokenError::refused("the token endpoint's response has no access_token"));
    };
    // `token_type` is required by the standard, but some servers omit it.
    if !text("token_type").is_none_or(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return Err(TokenError::refused("the token endpoint returned a token that is not a bearer token"));
    }
    let value = headers::bearer(token)
        .map_err(|problem| TokenError::refused(format!("the token endpoint's token {problem}")))?;
    let ttl = match body.get("expires_in") {
        None | Some(Value::Null) => DEFAULT_TOKEN_TTL,
        Some(Value::String(seconds)) => seconds.parse().map_or(DEFAULT_TOKEN_TTL, Duration::from_secs),
        Some(seconds) => seconds.as_f64().map_or(DEFAULT_TOKEN_TTL, whole_seconds),
    };
    if ttl.is_zero() {
        return Err(TokenError::refused("the token endpoint returned an expired token"));
    }
    Ok(Token { value, ttl: ttl.min(MAX_TOKEN_TTL) })
}

fn whole_seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0).floor()).unwrap_or(MAX_TOKEN_TTL)
}

/// The error of a refused token request. Of the body only the code is used: the rest is untrusted text.
fn refusal(status: u16, body: &Value) -> TokenError {
    if status == 429 || status >= 500 {
        return TokenError::Unreachable(format!("the token endpoint answered with status {status}").into());
    }
    let known = |code: &&str| {
        (1..=MAX_ERROR_CODE_BYTES).contains(&code.len())
            && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    match body.get("error").and_then(Value::as_str).filter(known) {
        Some(code) => TokenError::refused(format!("the token endpoint returned the error {code}")),
        None => TokenError::refused(format!("the token endpoint answered with status {status}")),
    }
}
