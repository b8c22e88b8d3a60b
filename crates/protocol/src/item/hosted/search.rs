//! Items of the search on the web.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::content::null_is_default;
use crate::id::Id;
use crate::item::ItemStatus;
use crate::item::optional_id::{id_or_unset, unset};
use crate::json::RawJson;
use crate::parse::{self, FromJson, ParseError};

/// A search on the web.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WebSearchCall {
    /// `ws_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The status.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
    /// The action. Always sent by the gateway; some clients replay the item without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<WebSearchAction>,
}

/// The action of a web search.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WebSearchAction {
    /// Searched.
    Search {
        /// The only or first query.
        #[serde(skip_serializing_if = "Option::is_none")]
        query: Option<String>,
        /// All queries.
        #[serde(skip_serializing_if = "Option::is_none")]
        queries: Option<Vec<String>>,
        /// What was read; only where `include` asks for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        sources: Option<Vec<WebSource>>,
    },
    /// Opened a page.
    OpenPage {
        /// Its address.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
    /// Searched a page for a text.
    FindInPage {
        /// The page's address.
        url: String,
        /// The text.
        pattern: String,
    },
    /// An action of another API version: kept as sent, since clients replay what they were given.
    #[serde(untagged)]
    Other(RawJson),
}

/// One source of a web search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSource {
    /// `url`; other servers also send `api`.
    #[serde(rename = "type", default = "url_kind")]
    pub kind: String,
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The name of an `api` source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl FromJson for WebSearchAction {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        #[derive(Deserialize)]
        struct Search {
            #[serde(default)]
            query: Option<String>,
            #[serde(default)]
            queries: Option<Vec<String>>,
            #[serde(default)]
            sources: Option<Vec<WebSource>>,
        }
        #[derive(Deserialize)]
        struct OpenPage {
            #[serde(default)]
            url: Option<String>,
        }
        #[derive(Deserialize)]
        struct FindInPage {
            url: String,
            pattern: String,
        }
        Ok(match parse::peek_discriminator(raw)?.kind.as_deref() {
            Some("search") => {
                let Search { query, queries, sources } = parse::read(raw)?;
                Self::Search { query, queries, sources }
            }
            Some("open_page") => {
                let OpenPage { url } = parse::read(raw)?;
                Self::OpenPage { url }
            }
            Some("find_in_page") => {
                let FindInPage { url, pattern } = parse::read(raw)?;
                Self::FindInPage { url, pattern }
            }
            _ => Self::Other(RawJson::from_json(raw)?),
        })
    }
}

impl<'de> Deserialize<'de> for WebSearchAction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse::deserialize_from_json(deserializer)
    }
}

fn url_kind() -> String {
    "url".to_owned()
}
