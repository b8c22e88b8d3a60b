//! The hosted web search: turns its options into arguments of the tool behind it, and finds citations in an answer.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::protocol::content::Annotation;
use crate::protocol::error::ApiError;
use crate::protocol::response::to_raw;
use crate::protocol::tool::{ContentKind, SearchContextSize, Tool, UserLocation};
use crate::tools::Citation;

pub(super) const TOOL_NAME: &str = "web_search";

/// The parameters that the model sees: only the query, as options are set by the request.
pub(super) fn schema() -> Box<RawValue> {
    to_raw(&json!({
        "type": "object",
        "properties": { "query": { "type": "string", "description": "What to search for." } },
        "required": ["query"],
        "additionalProperties": false
    }))
}

/// The request's options as arguments of the tool, which replace the model's.
pub(super) fn fixed_arguments(tool: &Tool, path: &str) -> Result<Map<String, Value>, ApiError> {
    let (size, location, kinds) = match tool {
        Tool::WebSearch(tool) => {
            if tool.external_web_access == Some(false) {
                return Err(ApiError::unsupported(
                    format!("{path}.external_web_access"),
                    "The search needs access to the web: omit 'external_web_access' or set it to true.",
                ));
            }
            (tool.search_context_size, &tool.user_location, &tool.search_content_types)
        }
        Tool::WebSearchPreview(tool) => {
            (tool.search_context_size, &tool.user_location, &tool.search_content_types)
        }
        _ => return Ok(Map::new()),
    };
    if kinds.as_ref().is_some_and(|kinds| !kinds.contains(&ContentKind::Text)) {
        return Err(ApiError::unsupported(
            format!("{path}.search_content_types"),
            "Only 'text' is supported.",
        ));
    }
    let mut fixed = Map::new();
    let size = match size.unwrap_or(SearchContextSize::Medium) {
        SearchContextSize::Low => "low",
        SearchContextSize::Medium => "medium",
        SearchContextSize::High => "high",
    };
    fixed.insert("search_context_size".to_owned(), size.into());
    if let Tool::WebSearch(tool) = tool
        && let Some(domains) = tool.filters.as_ref().and_then(|filters| filters.allowed_domains.as_ref())
    {
        fixed.insert("allowed_domains".to_owned(), domains.clone().into());
    }
    if let Some(UserLocation { country, region, city, timezone, .. }) = location {
        let parts = [("country", country), ("region", region), ("city", city), ("timezone", timezone)];
        for (name, value) in parts {
            if let Some(value) = value {
                fixed.insert(name.to_owned(), value.clone().into());
            }
        }
    }
    Ok(fixed)
}

/// The model's query with the request's options. Other arguments of the model are dropped, as it was shown none. Text
/// that is not an object is left to the tool's validation, which says what is wrong with it.
pub(super) fn arguments(raw: &str, fixed: &Map<String, Value>) -> String {
    #[derive(serde::Serialize)]
    struct Arguments<'a> {
        /// The query as the model wrote it.
        #[serde(skip_serializing_if = "Option::is_none")]
        query: Option<&'a RawValue>,
        #[serde(flatten)]
        fixed: &'a Map<String, Value>,
    }
    let Ok(said) = serde_json::from_str::<HashMap<String, &RawValue>>(raw) else { return raw.to_owned() };
    let query = said.get("query").copied();
    // Both parts were parsed from JSON, so that this cannot fail.
    serde_json::to_string(&Arguments { query, fixed }).unwrap_or_default()
}

/// The citations in a text: each address of a source, or the Markdown link around it, in the order of the text.
pub(super) fn annotations(text: &str, sources: &[Citation]) -> Vec<Annotation> {
    let mut found: Vec<(usize, usize, &Citation)> = Vec::new();
    let mut starts = HashSet::new();
    for source in sources {
        for (at, _) in text.match_indices(source.url.as_str()) {
            let end = at + source.url.len();
            if text.get(end..).is_some_and(goes_on) {
                continue;
            }
            let (start, end) = link_around(text, at, end);
            if starts.insert(start) {
                found.push((start, end, source));
            }
        }
    }
    found.sort_by_key(|(start, ..)| *start);
    // Characters are counted from one citation to the next: a long text may hold many.
    let characters =
        |from: usize, to: usize| text.get(from..to).map_or(0, |part| part.chars().count()) as u64;
    let (mut byte, mut start_index) = (0, 0);
    let one = |(start, end, source): (usize, usize, &Citation)| {
        start_index += characters(byte, start);
        byte = start;
        let end_index = start_index + characters(start, end);
        Annotation::UrlCitation {
            url: source.url.clone(),
            title: source.title.clone(),
            start_index,
            end_index,
        }
    };
    found.into_iter().map(one).collect()
}

/// Whether what follows an address is part of it, so that the text names another, longer address. Punctuation belongs
/// to it only if more follows.
fn goes_on(rest: &str) -> bool {
    let mut rest = rest.chars();
    match rest.next() {
        Some('.' | ':' | '@') => rest.next().is_some_and(char::is_alphanumeric),
        Some(c) => c.is_alphanumeric() || "/?&=_%#~+-".contains(c),
        None => false,
    }
}

/// The Markdown link whose target this is, or the address itself.
fn link_around(text: &str, start: usize, end: usize) -> (usize, usize) {
    let before = text.get(..start).unwrap_or_default();
    let closed = text.get(end..).is_some_and(|rest| rest.starts_with(')'));
    match before.strip_suffix("](").and_then(|label| label.rfind('[')) {
        Some(open) if closed => (open, end + 1),
        _ => (start, end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_s_options_are_not_the_model_s_to_change() {
        let fixed = serde_json::from_str(r#"{"search_context_size":"low"}"#).unwrap();
        let said = r#"{"query":"x","search_context_size":"high","allowed_domains":["a"]}"#;
        assert_eq!(arguments(said, &fixed), r#"{"query":"x","search_context_size":"low"}"#);
        assert_eq!(arguments("{", &fixed), "{");
    }

    #[test]
    fn links_and_addresses_are_found_and_longer_addresses_are_not() {
        let source = |url: &str| Citation { url: url.to_owned(), title: "T".to_owned() };
        let text = "Ä [Rust](https://a.example/x) and https://b.example; not https://b.example/longer.";
        let sources = [source("https://b.example"), source("https://a.example/x")];
        let found = serde_json::to_value(annotations(text, &sources)).unwrap();
        assert_eq!(found.as_array().unwrap().len(), 2);
        assert_eq!(found[0]["url"], "https://a.example/x");
        assert_eq!((found[0]["start_index"].as_u64(), found[0]["end_index"].as_u64()), (Some(2), Some(29)));
        assert_eq!(found[1]["url"], "https://b.example");
        assert_eq!(found[1]["start_index"], 34);
    }

    #[test]
    fn an_address_on_another_host_is_not_cited() {
        let sources = [Citation { url: "https://b.example".to_owned(), title: "T".to_owned() }];
        for (text, cites) in [
            ("See https://b.example.", true),
            ("See https://b.example: it says.", true),
            ("(https://b.example)", true),
            ("See https://b.example.evil.test/x", false),
            ("See https://b.example:8080", false),
            ("See https://b.example@evil.test", false),
        ] {
            assert_eq!(annotations(text, &sources).len(), usize::from(cites), "{text}");
        }
    }

    #[test]
    fn many_addresses_in_a_long_text_are_found_in_time() {
        let text = "https://b.example ".repeat(20_000);
        let sources = [Citation { url: "https://b.example".to_owned(), title: "T".to_owned() }];
        let since = std::time::Instant::now();
        let found = annotations(&text, &sources);
        assert_eq!(found.len(), 20_000);
        assert!(since.elapsed().as_secs() < 5, "{:?}", since.elapsed());
    }
}
