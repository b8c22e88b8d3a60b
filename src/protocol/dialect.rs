//! Where OpenAI's Responses API and the Open Responses specification disagree on the wire, and
//! which of the two a response speaks. All differences live here.
//!
//! The dialect is fixed when a response is created, so that every replay is the same bytes.

use serde::{Deserialize, Serialize};

/// Which of the two specifications names things.
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
    pub fn reasoning_done(self) -> &'static str {
        match self {
            Self::OpenAi => "response.reasoning_text.done",
            Self::OpenResponses => "response.reasoning.done",
        }
    }

    /// Whether `text.format.schema` is echoed. The Open Responses response object allows only null there.
    pub fn echoes_json_schema(self) -> bool {
        self == Self::OpenAi
    }
}
