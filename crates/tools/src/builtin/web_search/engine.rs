//! The trait of search engines, and their results.

use async_trait::async_trait;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use super::SearchQuery;
use crate::ToolError;

/// Name of the server in error messages.
pub(super) const SERVICE: &str = "search API";
/// Name of the response in error messages.
pub(super) const RESPONSE: &str = "search response";
/// Prefix of error messages for failed requests.
pub(super) const ACTION: &str = "failed to search";

/// Searches the web.
#[async_trait]
pub(crate) trait SearchEngine: Send + Sync {
    /// Results, best first; more than [`SearchQuery::wanted`] are cut by the caller. `domains` are the normalized
    /// domains of the query.
    async fn search(&self, query: &SearchQuery, domains: &[&str]) -> Result<Vec<Hit>, ToolError>;
}

/// One search result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    /// Title of the page.
    pub title: String,
    /// URL of the page.
    pub url: String,
    /// Excerpt of the page.
    pub(crate) snippet: String,
}

/// A sensitive header value; `None` if the key has characters that are not allowed in a header.
pub(super) fn secret_header(prefix: &str, key: &SecretString) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose_secret())).ok()?;
    value.set_sensitive(true);
    Some(value)
}
