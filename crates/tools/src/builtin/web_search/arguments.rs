//! The arguments of `web_search`: their schema, and how they become a [`SearchQuery`].

use serde_json::{Value, json};

use super::query::{ContextSize, MAX_LIMIT, SearchQuery};
use crate::{Arguments, ToolError};

/// Maximum bytes of a query: more than any engine accepts, less than the limit of a URL.
const MAX_QUERY: usize = 2048;

/// The JSON Schema of the arguments.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, as one would type it into a search box."},
            "limit": {
                "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 5,
                "description": "How many results to return.",
            },
            "allowed_domains": {
                "type": "array", "items": {"type": "string"},
                "description": "Only results of these domains, such as 'example.com', and what is below them.",
            },
            "country": {"type": "string", "description": "From where to search: ISO code of two letters."},
            "region": {"type": "string", "description": "The region within the country."},
            "city": {"type": "string", "description": "The city within the region."},
            "timezone": {"type": "string", "description": "IANA name such as 'Europe/Berlin'."},
            "search_context_size": {
                "type": "string", "enum": ["low", "medium", "high"],
                "description": "How much to return where no limit is given: 3, 5 or 10 results.",
            },
        },
        "required": ["query"],
    })
}

/// Parses validated arguments.
pub(super) fn read(arguments: &Arguments) -> Result<SearchQuery, ToolError> {
    // Models fill optional arguments with empty strings.
    let text = |name: &str| {
        arguments.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
    };
    let owned = |name: &str| text(name).map(str::to_owned);
    let query = text("query").ok_or_else(|| ToolError::argument("query parameter required"))?;
    if query.len() > MAX_QUERY {
        return Err(ToolError::argument(format!("query is longer than {MAX_QUERY} bytes")));
    }
    Ok(SearchQuery {
        limit: arguments.get("limit").and_then(Value::as_f64).map(whole),
        allowed_domains: domains(arguments.get("allowed_domains"))?,
        country: owned("country"),
        region: owned("region"),
        city: owned("city"),
        timezone: owned("timezone"),
        context_size: match text("search_context_size") {
            Some("low") => ContextSize::Low,
            Some("high") => ContextSize::High,
            _ => ContextSize::Medium,
        },
        ..SearchQuery::new(query)
    })
}

/// A limit as models write it: 5, 5.0, and sometimes -1 for "all".
fn whole(number: f64) -> usize {
    if number < 1.0 { 1 } else { number.min(MAX_LIMIT as f64) as usize }
}

fn domains(value: Option<&Value>) -> Result<Vec<String>, ToolError> {
    let wrong = || ToolError::argument("allowed_domains must be an array of strings");
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => {
            list.iter().map(|entry| entry.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}
