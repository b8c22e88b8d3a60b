//! `web_search`: the model writes the query, and the request sets everything else.

use serde_json::{Map, Value, json};

use super::tool::HostedTool;
use antwort_protocol::error::ApiError;
use antwort_protocol::item::Item;
use antwort_protocol::tool::{ContentKind, SearchContextSize, Tool, UserLocation};
use antwort_response::presentation::web_search_call;

pub(crate) static TOOL: HostedTool = HostedTool {
    types: &["web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"],
    executor: "web_search",
    parameters,
    model_arguments: &["query"],
    fixed_arguments,
    presenter: &web_search_call::PRESENTER,
    is_item: |item| matches!(item, Item::WebSearchCall(_)),
    not_configured: "Web search is not configured on this gateway.",
    given_twice: "The web search is given twice, with different options. Give it once.",
};

/// Only the query, as options are set by the request.
fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": { "query": { "type": "string", "description": "What to search for." } },
        "required": ["query"],
        "additionalProperties": false
    })
}

/// The request's options as arguments of the tool.
fn fixed_arguments(tool: &Tool, path: &str) -> Result<Map<String, Value>, ApiError> {
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

#[cfg(test)]
mod tests {
    use super::super::tool::HostedBinding;
    use super::*;

    #[test]
    fn the_request_s_options_are_not_the_model_s_to_change() {
        let fixed_arguments = serde_json::from_str(r#"{"search_context_size":"low"}"#).unwrap();
        let binding = HostedBinding { tool: &TOOL, fixed_arguments };
        let said = r#"{"query":"x","search_context_size":"high","allowed_domains":["a"]}"#;
        assert_eq!(binding.arguments(said), r#"{"query":"x","search_context_size":"low"}"#);
        assert_eq!(binding.arguments("{"), "{");
    }
}
