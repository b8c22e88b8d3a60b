//! `web_search`: as a function that models call, and as the implementation of the hosted tool of that name.
//!
//! Owns the query, the selection of results and their format; the search engines are behind the trait in `engine`.
//! Results outside the allowed domains are dropped here, whether or not the engine supports the filter.

mod arguments;
pub(crate) mod brave;
mod domains;
pub(crate) mod duckduckgo;
mod engine;
mod searxng;
pub(crate) mod tavily;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::tools::{
    Annotations, Arguments, Citation, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput,
};
pub(crate) use brave::Brave;
use domains::Domains;
pub(crate) use duckduckgo::DuckDuckGo;
pub(crate) use engine::{Hit, SearchEngine};
pub(crate) use searxng::Searxng;
pub(crate) use tavily::Tavily;

/// Maximum number of results.
const MAX_LIMIT: usize = 20;

/// The tool.
pub(crate) struct WebSearch {
    engine: Arc<dyn SearchEngine>,
}

/// A search query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SearchQuery {
    /// The search text.
    pub text: String,
    /// Number of results, 1 to 20; `None`: depends on `context_size`.
    pub limit: Option<usize>,
    /// Restricts results to these domains and their subdomains; empty: no restriction.
    pub allowed_domains: Vec<String>,
    /// Location hint: ISO country code of two letters. Not every engine supports locations.
    pub country: Option<String>,
    /// Location hint: region within the country.
    pub region: Option<String>,
    /// Location hint: city within the region.
    pub city: Option<String>,
    /// Location hint: IANA time zone.
    pub timezone: Option<String>,
    /// How much text the model reads.
    pub context_size: ContextSize,
}

/// How much text of the results the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ContextSize {
    /// 3 results of 300 characters.
    Low,
    /// 5 results of 600 characters.
    #[default]
    Medium,
    /// 10 results of 2,000 characters.
    High,
}

impl ContextSize {
    fn results(self) -> usize {
        match self {
            Self::Low => 3,
            Self::Medium => 5,
            Self::High => 10,
        }
    }

    fn snippet_chars(self) -> usize {
        match self {
            Self::Low => 300,
            Self::Medium => 600,
            Self::High => 2000,
        }
    }
}

impl SearchQuery {
    /// A query with default options.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// Number of results to return.
    pub(crate) fn wanted(&self) -> usize {
        self.limit.unwrap_or(self.context_size.results()).clamp(1, MAX_LIMIT)
    }
}

impl WebSearch {
    /// Searches with this engine.
    pub(crate) fn new(engine: Arc<dyn SearchEngine>) -> Self {
        Self { engine }
    }

    /// Searches. The citations are those of the returned results.
    pub(crate) async fn search(
        &self,
        query: SearchQuery,
        _context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let domains = Domains::read(&query.allowed_domains)?;
        let hits = choose(self.engine.search(&query, &domains.list()).await?, &query, &domains);
        let results: Vec<Value> = hits
            .iter()
            .map(|hit| json!({"title": hit.title, "url": hit.url, "snippet": hit.snippet}))
            .collect();
        let value = json!({"query": query.text, "results": results, "total": results.len()});
        let citations = hits.into_iter().map(|hit| Citation { url: hit.url, title: hit.title });
        Ok(ToolOutput { citations: citations.collect(), ..ToolOutput::value(value) })
    }
}

/// Selects the results for the model: allowed domains only, no duplicates, at most [`SearchQuery::wanted`].
fn choose(hits: Vec<Hit>, query: &SearchQuery, domains: &Domains) -> Vec<Hit> {
    let mut chosen: Vec<Hit> = Vec::new();
    for hit in hits {
        if chosen.len() == query.wanted() {
            break;
        }
        if domains.contains(&hit.url) && chosen.iter().all(|earlier| earlier.url != hit.url) {
            let snippet = clip(&hit.snippet, query.context_size.snippet_chars());
            chosen.push(Hit { title: clip(&hit.title, 200), snippet, url: hit.url });
        }
    }
    chosen
}

/// The first `max_chars` characters, on one line.
fn clip(text: &str, max_chars: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()),
        None => line,
    }
}

#[async_trait]
impl Tool for WebSearch {
    fn definition(&self) -> ToolDefinition {
        let result = json!({
            "type": "object",
            "properties": {"title": {"type": "string"}, "url": {"type": "string"}, "snippet": {"type": "string"}},
            "required": ["title", "url", "snippet"],
        });
        let returns = json!({
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "results": {"type": "array", "items": result},
                "total": {"type": "integer"},
            },
            "required": ["query", "results", "total"],
        });
        let description = "Searches the web and returns titles, addresses and excerpts of the best results. \
            Use it for what is recent or not known; cite the addresses that were used.";
        ToolDefinition::new("web_search", description, &arguments::schema())
            .with_returns(&returns)
            .with_annotations(Annotations::READ_ONLY_OPEN_WORLD)
            .with_tag("net")
            .with_version("1.0.0")
    }

    async fn call(&self, arguments: &Arguments, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.search(arguments::read(arguments)?, context).await
    }
}
