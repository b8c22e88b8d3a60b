//! A SearXNG instance with the JSON format enabled. Has no parameter for a location.

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::HeaderMap;
use serde::Deserialize;

use super::domains::with_site_filter;
use super::engine::{ACTION, RESPONSE, SERVICE};
use super::{Hit, SearchEngine, SearchQuery};
use crate::ToolError;
use crate::builtin::web;
use antwort_net::egress::Egress;

/// The SearXNG API.
pub(crate) struct Searxng {
    base_url: String,
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

impl Searxng {
    /// The instance at `base_url`, which has no trailing slash.
    pub(crate) fn new(base_url: String, egress: Arc<Egress>) -> Self {
        Self { base_url, egress }
    }
}

#[async_trait]
impl SearchEngine for Searxng {
    async fn search(&self, query: &SearchQuery, domains: &[&str]) -> Result<Vec<Hit>, ToolError> {
        let text = with_site_filter(&query.text, domains);
        let parameters = web::query([("q", text.as_str()), ("format", "json")]);
        let url = format!("{}/search?{parameters}", self.base_url);
        let answer = self.egress.get(&url, HeaderMap::new()).await;
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
