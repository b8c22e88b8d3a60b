//! Tools that find something: on the web, in files, among tools.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::RawJson;
use crate::parse::{self, FromJson, ParseError};
use crate::tagged::tagged;

/// Web search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSearchTool {
    /// The name by which it was asked for.
    #[serde(rename = "type")]
    pub kind: WebSearchKind,
    /// Whether live pages may be fetched; true when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_web_access: Option<bool>,
    /// The domains to search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<WebSearchFilters>,
    /// The approximate location of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_location: Option<UserLocation>,
    /// How much of the results the model reads; medium if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search_context_size: Option<SearchContextSize>,
    /// What is searched for: text, images or both. Not in the API, but sent by Codex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search_content_types: Option<Vec<ContentKind>>,
}

/// The names of [`WebSearchTool`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum WebSearchKind {
    #[serde(rename = "web_search")]
    Current,
    #[serde(rename = "web_search_2025_08_26")]
    August2025,
}

impl WebSearchKind {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Current => "web_search",
            Self::August2025 => "web_search_2025_08_26",
        }
    }
}

/// Restricts a web search to domains. Unknown fields are refused: a misspelt restriction would be none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebSearchFilters {
    /// These domains and what is below them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_domains: Option<Vec<String>>,
}

/// The approximate location of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "approximate")]
pub struct UserLocation {
    /// Always `approximate`.
    #[serde(rename = "type", default)]
    pub kind: Approximate,
    /// Two letters, ISO 3166-1.
    #[serde(default)]
    pub country: Option<String>,
    /// A message for people.
    #[serde(default)]
    pub region: Option<String>,
    /// A message for people.
    #[serde(default)]
    pub city: Option<String>,
    /// IANA name.
    #[serde(default)]
    pub timezone: Option<String>,
}

/// The only kind of [`UserLocation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the name is the API's own")]
pub enum Approximate {
    #[default]
    Approximate,
}

/// How much of the results the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum SearchContextSize {
    Low,
    Medium,
    High,
}

/// What a search returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ContentKind {
    Text,
    Image,
}

/// The earlier web search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSearchPreviewTool {
    /// The name by which it was asked for.
    #[serde(rename = "type")]
    pub kind: WebSearchPreviewKind,
    /// The approximate location of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_location: Option<UserLocation>,
    /// How much of the results the model reads; medium if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search_context_size: Option<SearchContextSize>,
    /// Text, images or both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search_content_types: Option<Vec<ContentKind>>,
}

/// The names of [`WebSearchPreviewTool`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum WebSearchPreviewKind {
    #[serde(rename = "web_search_preview")]
    Current,
    #[serde(rename = "web_search_preview_2025_03_11")]
    March2025,
}

impl WebSearchPreviewKind {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Current => "web_search_preview",
            Self::March2025 => "web_search_preview_2025_03_11",
        }
    }
}

/// Search in vector stores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileSearchTool {
    /// Which stores.
    pub vector_store_ids: Vec<String>,
    /// 1 to 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_num_results: Option<u8>,
    /// How results are ranked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ranking_options: Option<RankingOptions>,
    /// Which files are searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<FileSearchFilter>,
}

/// How results of a file search are ranked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RankingOptions {
    /// `auto` or the name of a version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ranker: Option<String>,
    /// 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) score_threshold: Option<f64>,
    /// How the two kinds of search are weighed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hybrid_search: Option<HybridSearch>,
}

/// How search by meaning and search by words are weighed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct HybridSearch {
    /// Of search by meaning.
    pub(crate) embedding_weight: f64,
    /// Of search by words.
    pub(crate) text_weight: f64,
}

tagged! {
    /// Picks files by their attributes.
    #[derive(Debug, Clone, PartialEq)]
    #[allow(missing_docs, reason = "the names are the API's own")]
    pub enum FileSearchFilter {
        Eq { key: String, value: FilterValue },
        Ne { key: String, value: FilterValue },
        Gt { key: String, value: FilterValue },
        Gte { key: String, value: FilterValue },
        Lt { key: String, value: FilterValue },
        Lte { key: String, value: FilterValue },
        In { key: String, value: FilterValue },
        Nin { key: String, value: FilterValue },
        And { filters: Vec<FileSearchFilter> },
        Or { filters: Vec<FileSearchFilter> },
    }
}

/// What an attribute is compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[allow(missing_docs, reason = "the names say it")]
pub enum FilterValue {
    Text(String),
    Bool(bool),
    Number(serde_json::Number),
    List(Vec<FilterValue>),
}

impl FromJson for FileSearchTool {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let tool: Self = parse::read(raw)?;
        if tool.vector_store_ids.is_empty() {
            return Err(ParseError::invalid("vector_store_ids", "at least one is needed."));
        }
        match tool.max_num_results {
            Some(0) => Err(ParseError::invalid("max_num_results", "expected at least 1.")
                .with_code("integer_below_min_value")),
            Some(51..) => Err(ParseError::invalid("max_num_results", "expected at most 50.")
                .with_code("integer_above_max_value")),
            _ => Ok(tool),
        }
    }
}

/// Search among the tools that are not shown from the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSearchTool {
    /// Who searches; the server when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ToolSearchExecution>,
    /// The description for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON schema of the search's arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<RawJson>,
}

/// Where a tool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ToolSearchExecution {
    #[default]
    Server,
    Client,
}
