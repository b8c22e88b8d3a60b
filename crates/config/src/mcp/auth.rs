//! Credentials of the gateway for an MCP server.

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::masks;

/// Credentials of the gateway for an MCP server.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", try_from = "RawMcpAuth")]
pub enum McpAuth {
    /// None, other than the `headers`.
    #[default]
    None,
    /// A fixed token.
    Bearer {
        /// The bearer token.
        #[serde(serialize_with = "masks::masked")]
        token: SecretString,
    },
    /// OAuth 2 client credentials.
    ClientCredentials(ClientCredentials),
    /// The caller's token, exchanged for one for the server (RFC 8693).
    TokenExchange(TokenExchange),
    /// The caller's `Authorization`, unchanged. Only for servers that may act as the caller.
    Forward,
}

/// OAuth 2 client credentials (RFC 6749 §4.4).
#[derive(Debug, Clone, Serialize)]
pub struct ClientCredentials {
    /// The OAuth client of the gateway.
    pub client_id: String,
    /// This or `private_key`.
    #[serde(serialize_with = "masks::masked_option", skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<SecretString>,
    /// PEM of the key that signs client assertions (RFC 7523); this or `client_secret`.
    #[serde(serialize_with = "masks::masked_option", skip_serializing_if = "Option::is_none")]
    pub private_key: Option<SecretString>,
    /// `RS256`, `PS256`, `ES256` or `EdDSA`; absent: by the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// `kid` of the assertion's header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The token endpoint; absent: discovered from the server's metadata (RFC 9728, RFC 8414).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
    /// Scopes of the token.
    pub scopes: Vec<String>,
    /// The resource indicator (RFC 8707); absent: the server's URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
}

/// The exchange of the caller's token for one for the server (RFC 8693).
#[derive(Debug, Clone, Serialize)]
pub struct TokenExchange {
    /// The token endpoint. Required: the server must not choose who receives callers' tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
    /// The OAuth client of the gateway.
    pub client_id: String,
    /// The secret of that client.
    #[serde(serialize_with = "masks::masked_option", skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<SecretString>,
    /// Scopes of the token.
    pub scopes: Vec<String>,
    /// The audience of the token; absent: none is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// The resource indicator; absent: the server's URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
}

/// The keys of all types. Deserialized as one section, so that errors name their key.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawMcpAuth {
    r#type: Kind,
    token: Option<SecretString>,
    client_id: Option<String>,
    client_secret: Option<SecretString>,
    private_key: Option<SecretString>,
    algorithm: Option<String>,
    key_id: Option<String>,
    token_url: Option<String>,
    scopes: Option<Vec<String>>,
    audience: Option<String>,
    resource: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    #[default]
    None,
    Bearer,
    ClientCredentials,
    TokenExchange,
    Forward,
}

impl RawMcpAuth {
    /// The first key that is set and that the type does not use.
    fn unused_key(&self) -> Option<&'static str> {
        use Kind::{Bearer, ClientCredentials, TokenExchange};
        let both = [ClientCredentials, TokenExchange].as_slice();
        let keys = [
            ("token", self.token.is_some(), [Bearer].as_slice()),
            ("client_id", self.client_id.is_some(), both),
            ("client_secret", self.client_secret.is_some(), both),
            ("private_key", self.private_key.is_some(), &[ClientCredentials]),
            ("algorithm", self.algorithm.is_some(), &[ClientCredentials]),
            ("key_id", self.key_id.is_some(), &[ClientCredentials]),
            ("token_url", self.token_url.is_some(), both),
            ("scopes", self.scopes.is_some(), both),
            ("audience", self.audience.is_some(), &[TokenExchange]),
            ("resource", self.resource.is_some(), both),
        ];
        keys.into_iter()
            .find(|(_, is_set, kinds)| *is_set && !kinds.contains(&self.r#type))
            .map(|(key, ..)| key)
    }
}

impl TryFrom<RawMcpAuth> for McpAuth {
    type Error = String;

    fn try_from(raw: RawMcpAuth) -> Result<Self, String> {
        if let Some(key) = raw.unused_key() {
            return Err(format!("`{key}` is not used by this `type`"));
        }
        let client = raw.client_id.ok_or_else(|| "`client_id` is missing".to_owned());
        let scopes = raw.scopes.unwrap_or_default();
        Ok(match raw.r#type {
            Kind::None => Self::None,
            Kind::Bearer => Self::Bearer { token: raw.token.ok_or("`token` is missing")? },
            Kind::ClientCredentials => Self::ClientCredentials(ClientCredentials {
                client_id: client?,
                client_secret: raw.client_secret,
                private_key: raw.private_key,
                algorithm: raw.algorithm,
                key_id: raw.key_id,
                token_url: raw.token_url,
                scopes,
                resource: raw.resource,
            }),
            Kind::TokenExchange => Self::TokenExchange(TokenExchange {
                token_url: raw.token_url,
                client_id: client?,
                client_secret: raw.client_secret,
                scopes,
                audience: raw.audience,
                resource: raw.resource,
            }),
            Kind::Forward => Self::Forward,
        })
    }
}
