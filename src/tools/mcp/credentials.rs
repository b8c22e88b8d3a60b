//! Who the gateway is to a server.
//!
//! `source` makes credentials of a configured server's settings, `request` those that a request brings. What is
//! sent as it is said is in `fixed`; tokens that have to be had first are kept by `kept`, asked for by `token` with
//! the proof of `client`, at the place that `discovery` finds. `challenge` is what a server says that it wants.

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

#[cfg(test)]
mod tests;

/// What a server is shown with each request.
#[async_trait]
pub trait Credentials: Send + Sync {
    /// Tells credentials apart without telling what they are: connections and what is known over them are never
    /// shared between two that differ.
    fn fingerprint(&self) -> Fingerprint;

    /// The headers, which may have to be had from somewhere first.
    async fn headers(&self) -> Result<Arc<HeaderMap>, McpError>;

    /// The server did not take `refused`, and says what it wants. Whether it is worth while to ask for the headers again
    /// and to try once more.
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
