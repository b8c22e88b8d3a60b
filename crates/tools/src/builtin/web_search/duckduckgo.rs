//! DuckDuckGo's Instant Answer API: facts about a topic, without an API key. Not a full web search.

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::Url;
use reqwest::header::HeaderMap;
use serde::Deserialize;

use super::engine::{ACTION, RESPONSE, SERVICE};
use super::{Hit, SearchEngine, SearchQuery};
use crate::ToolError;
use crate::builtin::web;
use antwort_net::egress::Egress;

/// Default base URL.
pub(crate) const BASE_URL: &str = "https://api.duckduckgo.com";

/// Base of relative URLs.
const HOME: &str = "https://duckduckgo.com";

/// The Instant Answer API.
pub(crate) struct DuckDuckGo {
    base_url: String,
    egress: Arc<Egress>,
}

/// Fields are empty if nothing is known.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Answer {
    heading: String,
    #[serde(rename = "Abstract")]
    summary: String,
    abstract_text: String,
    #[serde(rename = "AbstractURL")]
    abstract_url: String,
    results: Vec<Topic>,
    related_topics: Vec<Related>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Related {
    Group {
        #[serde(rename = "Topics")]
        topics: Vec<Topic>,
    },
    Topic(Topic),
}

#[derive(Deserialize)]
struct Topic {
    #[serde(rename = "FirstURL", default)]
    url: String,
    #[serde(rename = "Text", default)]
    text: String,
}

impl DuckDuckGo {
    /// The service at `base_url`, which has no trailing slash.
    pub(crate) fn new(base_url: String, egress: Arc<Egress>) -> Self {
        Self { base_url, egress }
    }
}

#[async_trait]
impl SearchEngine for DuckDuckGo {
    /// Has no filter for domains; the tool drops results of others.
    async fn search(&self, query: &SearchQuery, _domains: &[&str]) -> Result<Vec<Hit>, ToolError> {
        let parameters =
            [("q", query.text.as_str()), ("format", "json"), ("no_html", "1"), ("no_redirect", "1")];
        let url = format!("{}/?{}", self.base_url, web::query(parameters));
        let answer = self.egress.get(&url, HeaderMap::new()).await;
        let answer: Answer =
            web::json(&answer.map_err(|error| web::failure(ACTION, error))?, SERVICE, RESPONSE)?;
        Ok(answer.into_hits())
    }
}

impl Answer {
    /// The summary of the topic first, then results, then related topics.
    fn into_hits(self) -> Vec<Hit> {
        let summary = if self.summary.is_empty() { self.abstract_text } else { self.summary };
        let subject = Hit { title: self.heading, url: self.abstract_url, snippet: summary };
        let related = self.related_topics.into_iter().flat_map(|related| match related {
            Related::Group { topics } => topics,
            Related::Topic(topic) => vec![topic],
        });
        let topics = self.results.into_iter().chain(related).map(Topic::into_hit);
        std::iter::once(subject).chain(topics).filter(|hit| !hit.url.is_empty()).collect()
    }
}

impl Topic {
    /// The text has the form `Title - description`.
    fn into_hit(self) -> Hit {
        let title = self.text.split_once(" - ").map_or(self.text.as_str(), |(title, _)| title).to_owned();
        let home = Url::parse(HOME).ok();
        let url = match home.filter(|_| self.url.starts_with('/')).and_then(|home| home.join(&self.url).ok())
        {
            Some(url) => url.into(),
            None => self.url,
        };
        Hit { title, url, snippet: self.text }
    }
}
