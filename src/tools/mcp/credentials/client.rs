//! How the gateway proves to an authorization server which client it is.

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
use super::token::TokenError;

/// How long an assertion holds, in seconds.
const ASSERTION_TTL_SECS: u64 = 60;
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// What shows who the client is.
pub(super) enum ClientAuth {
    /// Nothing: its name alone.
    Public,
    /// A secret that both know.
    Secret(SecretString),
    /// A signature.
    Key { key: EncodingKey, algorithm: Algorithm, id: Option<String> },
}

/// The gateway as a client.
pub(super) struct OAuthClient {
    pub(super) id: String,
    pub(super) auth: ClientAuth,
}

impl OAuthClient {
    /// Adds the proof to a request for a token, as header or in its form.
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

    /// A JWT that says who the client is (RFC 7523 §2.2), to be used once.
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
            .map_err(|_| TokenError::refused("the client's assertion cannot be signed"))
    }
}

/// RFC 6749 §2.3.1: both are encoded as in forms before they are put together.
fn basic(id: &str, secret: &SecretString) -> Result<HeaderValue, TokenError> {
    let part = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let both = BASE64_STANDARD.encode(format!("{}:{}", part(id), part(secret.expose_secret())));
    let mut value = HeaderValue::try_from(format!("Basic {both}"))
        .map_err(|_| TokenError::refused("the client's secret cannot be sent"))?;
    value.set_sensitive(true);
    Ok(value)
}
