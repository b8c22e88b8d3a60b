//! Brave Search.

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;
use serde::Deserialize;

use super::domains::with_site_filter;
use super::engine::{ACTION, RESPONSE, SERVICE, secret_header};
use super::{Hit, SearchEngine, SearchQuery};
use crate::ToolError;
use crate::builtin::web;
use antwort_net::egress::Egress;

/// Default base URL.
pub(crate) const BASE_URL: &str = "https://api.search.brave.com";

/// The Brave Search API.
pub(crate) struct Brave {
    base_url: String,
    key: HeaderValue,
    egress: Arc<Egress>,
}

/// `web` is absent if nothing was found.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    web: Option<Web>,
}

#[derive(Deserialize)]
struct Web {
    results: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    url: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: Option<String>,
}

impl Brave {
    /// `None` if the key has characters that are not allowed in a header. `base_url` has no trailing slash.
    pub(crate) fn new(base_url: String, key: &SecretString, egress: Arc<Egress>) -> Option<Self> {
        Some(Self { base_url, key: secret_header("", key)?, egress })
    }

    fn headers(&self, query: &SearchQuery) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert("x-subscription-token", self.key.clone());
        let place = [
            ("x-loc-country", &query.country),
            ("x-loc-state-name", &query.region),
            ("x-loc-city", &query.city),
            ("x-loc-timezone", &query.timezone),
        ];
        for (name, value) in place {
            // Location hints with invalid characters are dropped; the search is made without them.
            if let Some(Ok(value)) = value.as_ref().map(|value| HeaderValue::from_str(value)) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        headers
    }
}

#[async_trait]
impl SearchEngine for Brave {
    async fn search(&self, query: &SearchQuery, domains: &[&str]) -> Result<Vec<Hit>, ToolError> {
        let text = with_site_filter(&query.text, domains);
        let count = query.wanted().to_string();
        let mut parameters = vec![("q", text.as_str()), ("count", &count), ("text_decorations", "false")];
        let country = query.country.as_deref().map(str::to_ascii_uppercase);
        // The API rejects other values.
        if let Some(country) = country.as_deref().filter(|code| code.len() == 2) {
            parameters.push(("country", country));
        }
        let url = format!("{}/res/v1/web/search?{}", self.base_url, web::query(parameters));
        let answer = self.egress.get(&url, self.headers(query)).await;
        let answer: Answer =
            web::json(&answer.map_err(|error| web::failure(ACTION, error))?, SERVICE, RESPONSE)?;
        let hit = |found: Found| Hit {
            title: found.title,
            url: found.url,
            snippet: found.description.unwrap_or_default(),
        };
        Ok(answer.web.into_iter().flat_map(|web| web.results).map(hit).collect())
    }
}
