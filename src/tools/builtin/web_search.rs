//! `web_search`: as a function that models call, and as what the hosted tool of that name is made of.
//!
//! Owns the question, the choice among the results and their form; `engine` and what is below it ask. Results
//! outside the allowed domains are dropped here, whatever an engine makes of the wish.

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

/// Results at most.
const MAX_LIMIT: usize = 20;

/// The tool.
pub(crate) struct WebSearch {
    engine: Arc<dyn SearchEngine>,
}

/// A question to the web.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SearchQuery {
    /// What is looked for.
    pub text: String,
    /// How many results, from 1 to 20; `None`: by the context's size.
    pub limit: Option<usize>,
    /// Results come from these domains and what is below them; empty: from anywhere.
    pub allowed_domains: Vec<String>,
    /// From where is asked: an ISO code of two letters. The place is a hint, which not every engine takes.
    pub country: Option<String>,
    /// The region within it.
    pub region: Option<String>,
    /// The city within that.
    pub city: Option<String>,
    /// Its IANA timezone.
    pub timezone: Option<String>,
    /// How much the model is to read.
    pub context_size: ContextSize,
}

/// How much a model is to read of a search.
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
    /// A question without wishes.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// How many results are wanted.
    pub(crate) fn wanted(&self) -> usize {
        self.limit.unwrap_or(self.context_size.results()).clamp(1, MAX_LIMIT)
    }
}

impl WebSearch {
    /// A tool that asks this engine.
    pub(crate) fn new(engine: Arc<dyn SearchEngine>) -> Self {
        Self { engine }
    }

    /// Searches. The result's citations are those of the results that the model reads.
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

/// The results that the model reads: of the allowed domains, each once, as many as are wanted.
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

/// The beginning of a text, on one line.
fn clip(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
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
            .with_annotations(Annotations::LOOKS_OUTSIDE)
            .with_tag("net")
            .with_version("1.0.0")
    }

    async fn call(&self, arguments: &Arguments, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.search(arguments::read(arguments)?, context).await
    }
}
