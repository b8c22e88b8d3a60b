//! What searches, and what it finds.

use async_trait::async_trait;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use super::SearchQuery;
use crate::tools::ToolError;

/// Asked in messages for the server.
pub(super) const SERVICE: &str = "search API";
/// Named in messages where an answer cannot be read.
pub(super) const RESPONSE: &str = "search response";
/// Begins messages where there is no answer.
pub(super) const ACTION: &str = "failed to search";

/// Searches the web.
#[async_trait]
pub(crate) trait SearchEngine: Send + Sync {
    /// What it finds, best first; more than wanted does no harm. `domains` are the query's, made canonical.
    async fn search(&self, query: &SearchQuery, domains: &[&str]) -> Result<Vec<Hit>, ToolError>;
}

/// One result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    /// Its title.
    pub title: String,
    /// Its address.
    pub url: String,
    /// An excerpt.
    pub snippet: String,
}

/// A header that holds a key; `None` if the key has characters that a header cannot.
pub(super) fn secret_header(prefix: &str, key: &SecretString) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose_secret())).ok()?;
    value.set_sensitive(true);
    Some(value)
}
