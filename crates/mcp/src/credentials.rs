//! Credentials of the gateway at MCP servers.
//!
//! `source` creates the credentials of configured servers, `request` those that a request brings along. Fixed headers
//! are in `static_headers`. Access tokens are cached by `cached_token`, requested by `token` with the client
//! authentication of `client`, from the endpoint that `discovery` finds. `challenge` parses `WWW-Authenticate`.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::HeaderMap;

use super::error::McpError;
pub(crate) use challenge::WwwAuthenticate;
pub(crate) use request::for_request;
pub(crate) use source::CredentialSource;
pub use static_headers::StaticHeaders;

mod cached_token;
mod challenge;
mod client;
mod discovery;
mod fingerprint;
mod request;
mod source;
mod static_headers;
mod token;
mod token_error;

#[cfg(test)]
mod tests;

/// Supplies the headers that authenticate requests to a server.
#[async_trait]
pub trait Credentials: Send + Sync {
    /// Identifies the credentials without revealing them: connections and cached data are never shared between
    /// different fingerprints.
    fn fingerprint(&self) -> Fingerprint;

    /// The headers; may have to request a token first.
    async fn headers(&self) -> Result<Arc<HeaderMap>, McpError>;

    /// The server rejected a request with the headers `refused`. Returns whether repeating it with new headers is
    /// worthwhile.
    async fn rejected(&self, refused: &HeaderMap, challenged: &WwwAuthenticate) -> bool;
}

/// A SHA-256 of credentials.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(…)")
    }
}
