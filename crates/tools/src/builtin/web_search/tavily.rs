//! Tavily. Accepts countries by their English names only, so no location is sent.

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;

use super::engine::{ACTION, RESPONSE, SERVICE, secret_header};
use super::{ContextSize, Hit, SearchEngine, SearchQuery};
use crate::ToolError;
use crate::builtin::web;
use antwort_net::egress::Egress;

/// Default base URL.
pub(crate) const BASE_URL: &str = "https://api.tavily.com";

/// The Tavily API.
pub(crate) struct Tavily {
    base_url: String,
    key: HeaderValue,
    egress: Arc<Egress>,
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    content: Option<String>,
}

impl Tavily {
    /// `None` if the key has characters that are not allowed in a header. `base_url` has no trailing slash.
    pub(crate) fn new(base_url: String, key: &SecretString, egress: Arc<Egress>) -> Option<Self> {
        Some(Self { base_url, key: secret_header("Bearer ", key)?, egress })
    }
}

#[async_trait]
impl SearchEngine for Tavily {
    async fn search(&self, query: &SearchQuery, domains: &[&str]) -> Result<Vec<Hit>, ToolError> {
        // "advanced" is slower and costs twice as much.
        let depth = if query.context_size == ContextSize::High { "advanced" } else { "basic" };
        let mut body = json!({"query": query.text, "max_results": query.wanted(), "search_depth": depth});
        if let (Some(body), false) = (body.as_object_mut(), domains.is_empty()) {
            body.insert("include_domains".to_owned(), json!(domains));
        }
        let headers = HeaderMap::from_iter([(AUTHORIZATION, self.key.clone())]);
        let answer = self.egress.post_json(&format!("{}/search", self.base_url), headers, &body).await;
        let answer: Answer =
            web::json(&answer.map_err(|error| web::failure(ACTION, error))?, SERVICE, RESPONSE)?;
        let hit = |found: Found| Hit {
            title: found.title.unwrap_or_default(),
            url: found.url,
            snippet: found.content.unwrap_or_default(),
        };
        Ok(answer.results.into_iter().map(hit).collect())
    }
}
