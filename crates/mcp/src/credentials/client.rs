//! OAuth client authentication of the gateway at an authorization server.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use form_urlencoded::{Serializer, byte_serialize};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use uuid::Uuid;

use super::discovery::AuthorizationServer;
use super::token_error::TokenError;

/// Lifetime of a client assertion.
const ASSERTION_TTL_SECS: u64 = 60;
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Client authentication method.
pub(super) enum ClientAuth {
    /// None: `client_id` only.
    Public,
    /// A client secret.
    Secret(SecretString),
    /// A private key (`private_key_jwt`).
    Key { key: EncodingKey, algorithm: Algorithm, id: Option<String> },
}

/// The gateway as an OAuth client.
pub(super) struct OAuthClient {
    pub(super) id: String,
    pub(super) auth: ClientAuth,
}

impl OAuthClient {
    /// Adds the authentication to a token request, as a header or in the form.
    pub(super) fn authenticate(
        &self,
        server: &AuthorizationServer,
        headers: &mut HeaderMap,
        form: &mut Serializer<'_, String>,
    ) -> Result<(), TokenError> {
        match &self.auth {
            ClientAuth::Public => {
                form.append_pair("client_id", &self.id);
            }
            ClientAuth::Secret(secret) if server.wants_secret_in_form() => {
                form.append_pair("client_id", &self.id).append_pair("client_secret", secret.expose_secret());
            }
            ClientAuth::Secret(secret) => {
                headers.insert(AUTHORIZATION, basic(&self.id, secret)?);
            }
            ClientAuth::Key { key, algorithm, id } => {
                let assertion = self.assertion(server.audience(), key, *algorithm, id.clone())?;
                form.append_pair("client_id", &self.id)
                    .append_pair("client_assertion_type", ASSERTION_TYPE)
                    .append_pair("client_assertion", &assertion);
            }
        }
        Ok(())
    }

    /// A single-use client assertion (RFC 7523 §2.2).
    fn assertion(
        &self,
        audience: &str,
        key: &EncodingKey,
        algorithm: Algorithm,
        id: Option<String>,
    ) -> Result<String, TokenError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let claims = json!({
            "iss": self.id, "sub": self.id, "aud": audience, "jti": Uuid::now_v7().to_string(),
            "iat": now, "exp": now + ASSERTION_TTL_SECS,
        });
        let header = Header { kid: id, ..Header::new(algorithm) };
        jsonwebtoken::encode(&header, &claims, key)
            .map_err(|_| TokenError::refused("the client assertion cannot be signed with auth.private_key"))
    }
}

/// Basic authentication; RFC 6749 §2.3.1 requires form encoding of id and secret.
fn basic(id: &str, secret: &SecretString) -> Result<HeaderValue, TokenError> {
    let part = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let both = BASE64_STANDARD.encode(format!("{}:{}", part(id), part(secret.expose_secret())));
    let mut value = HeaderValue::try_from(format!("Basic {both}"))
        .map_err(|_| TokenError::refused("the client secret cannot be sent in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}
