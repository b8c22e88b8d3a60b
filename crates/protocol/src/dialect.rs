//! The differences between OpenAI's Responses API and the Open Responses specification on the wire; all of them are
//! here.
//!
//! The dialect is fixed when a response is created, so that every replay has the same bytes.

use serde::{Deserialize, Serialize};

/// Prefix of types that the specification does not define: of items, and of the events about them.
pub const EXTENSION_PREFIX: &str = "antwort:";

/// The items of the Open Responses specification.
const STANDARD_ITEMS: &[&str] =
    &["message", "function_call", "function_call_output", "reasoning", "compaction"];

/// The plain name of an item's type, which clients may send with or without the prefix.
pub(crate) fn canonical_item_type(kind: &str) -> &str {
    match kind.strip_prefix(EXTENSION_PREFIX) {
        // These have no plain name.
        None | Some("tool_call" | "user_message") => kind,
        Some(plain) if STANDARD_ITEMS.contains(&plain) => kind,
        Some(plain) => plain,
    }
}

/// The specification whose names a response uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// OpenAI's API as its SDKs speak it.
    #[default]
    #[serde(rename = "openai")]
    OpenAi,
    /// The Open Responses specification of 2026-04-24.
    OpenResponses,
}

impl Dialect {
    /// Reads the value of the request header `antwort-dialect`.
    pub fn from_header(value: &str) -> Option<Self> {
        match value.trim() {
            "openai" => Some(Self::OpenAi),
            "open_responses" => Some(Self::OpenResponses),
            _ => None,
        }
    }

    /// Name of the event that carries a piece of raw reasoning text.
    ///
    /// OpenAI's Node SDK throws on the Open Responses name, whose compliance suite rejects OpenAI's.
    pub fn reasoning_delta(self) -> &'static str {
        match self {
            Self::OpenAi => "response.reasoning_text.delta",
            Self::OpenResponses => "response.reasoning.delta",
        }
    }

    /// Name of the event that ends a raw reasoning text.
    pub(crate) fn reasoning_done(self) -> &'static str {
        match self {
            Self::OpenAi => "response.reasoning_text.done",
            Self::OpenResponses => "response.reasoning.done",
        }
    }

    /// Whether `text.format.schema` is echoed. The Open Responses response object allows only null there.
    pub(crate) fn echoes_json_schema(self) -> bool {
        self == Self::OpenAi
    }

    /// The prefix of an item's type: the specification wants types marked that are not its own.
    pub(crate) fn item_prefix(self, kind: &str) -> &'static str {
        let foreign = self == Self::OpenResponses && !kind.starts_with(EXTENSION_PREFIX);
        if foreign && !STANDARD_ITEMS.contains(&kind) { EXTENSION_PREFIX } else { "" }
    }

    /// Whether every item has a status: OpenAI's API has none for some, the specification wants one for each.
    pub(crate) fn requires_item_status(self) -> bool {
        self == Self::OpenResponses
    }

    /// The name of an event that only OpenAI's API has.
    pub(crate) fn foreign_event(self, openai: &'static str, prefixed: &'static str) -> &'static str {
        match self {
            Self::OpenAi => openai,
            Self::OpenResponses => prefixed,
        }
    }

    /// Whether an `error` event also has its fields at the top level, where OpenAI's clients look for them.
    pub(crate) fn has_flat_error_fields(self) -> bool {
        self == Self::OpenAi
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_a_type_are_one() {
        for (sent, plain) in [
            ("web_search_call", "web_search_call"),
            ("antwort:web_search_call", "web_search_call"),
            ("antwort:tool_call", "antwort:tool_call"),
            ("antwort:message", "antwort:message"),
        ] {
            assert_eq!(canonical_item_type(sent), plain);
        }
        for (kind, prefix) in
            [("web_search_call", EXTENSION_PREFIX), ("message", ""), ("antwort:tool_call", "")]
        {
            assert_eq!(Dialect::OpenResponses.item_prefix(kind), prefix);
            assert_eq!(Dialect::OpenAi.item_prefix(kind), "");
        }
    }
}
