//! `web_search`: as a function that models call, and as the implementation of the hosted tool of that name.
//!
//! Owns the query, the selection of results and their format; the search engines are behind the trait in `engine`.
//! Results outside the allowed domains are dropped here, whether or not the engine supports the filter.

mod arguments;
pub(crate) mod brave;
mod domains;
pub(crate) mod duckduckgo;
mod engine;
mod query;
mod searxng;
pub(crate) mod tavily;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::{Annotations, Arguments, Citation, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput};
pub(crate) use brave::Brave;
use domains::Domains;
pub(crate) use duckduckgo::DuckDuckGo;
pub(crate) use engine::{Hit, SearchEngine};
pub(crate) use query::{ContextSize, SearchQuery};
pub(crate) use searxng::Searxng;
pub(crate) use tavily::Tavily;

/// The tool.
pub(crate) struct WebSearch {
    engine: Arc<dyn SearchEngine>,
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
