//! The smaller options of a request: reasoning, streaming, service, truncation, caching.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::parse::{self, FromJson, ParseError};

/// How much the model reasons, and what is shown of it. Both keys are echoed, null if not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReasoningRequest {
    /// The effort.
    #[serde(default)]
    pub effort: Option<ReasoningEffort>,
    /// Whether and how the reasoning is summarized.
    #[serde(default)]
    pub summary: Option<SummaryMode>,
}

impl FromJson for ReasoningRequest {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            #[serde(default)]
            effort: Option<ReasoningEffort>,
            #[serde(default)]
            summary: Option<SummaryMode>,
            /// The earlier name of `summary`.
            #[serde(default)]
            generate_summary: Option<SummaryMode>,
            #[serde(default)]
            mode: Option<String>,
            #[serde(default)]
            context: Option<String>,
        }
        let fields: Fields = parse::read(raw)?;
        if fields.mode.is_some_and(|mode| mode != "standard") {
            return Err(ParseError::unsupported("mode", "only 'standard' is supported."));
        }
        // Whatever a client replays is replayed to the provider.
        if fields.context.is_some_and(|context| context != "auto" && context != "all_turns") {
            return Err(ParseError::unsupported("context", "only 'auto' and 'all_turns' are supported."));
        }
        Ok(Self { effort: fields.effort, summary: fields.summary.or(fields.generate_summary) })
    }
}

/// The effort of reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    #[serde(rename = "xhigh")]
    XHigh,
    Max,
}

impl ReasoningEffort {
    /// The name on the wire, the same as in the chat API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// How reasoning is summarized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum SummaryMode {
    Auto,
    Concise,
    Detailed,
}

/// Options of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamOptions {
    /// Whether delta events are padded so that their sizes tell less about the text.
    pub include_obfuscation: bool,
}

impl FromJson for StreamOptions {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            #[serde(default)]
            include_obfuscation: Option<bool>,
            /// A field of the chat API: the usage is always sent.
            #[serde(default, rename = "include_usage")]
            _include_usage: IgnoredAny,
        }
        let fields: Fields = parse::read(raw)?;
        Ok(Self { include_obfuscation: fields.include_obfuscation.unwrap_or_default() })
    }
}

/// What happens if the conversation does not fit the context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truncation {
    /// The oldest items are dropped.
    Auto,
    /// The request is refused.
    #[default]
    Disabled,
}

impl Truncation {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Disabled => "disabled",
        }
    }
}

/// The service tier that is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ServiceTier {
    Auto,
    Default,
    Flex,
    Scale,
    Priority,
    Fast,
    #[serde(rename = "ultrafast")]
    UltraFast,
}

impl ServiceTier {
    /// The service tier that a provider reports. Clients know only those of the API.
    pub fn from_provider(name: &str) -> Self {
        const ALL: [ServiceTier; 7] = [
            ServiceTier::Auto,
            ServiceTier::Default,
            ServiceTier::Flex,
            ServiceTier::Scale,
            ServiceTier::Priority,
            ServiceTier::Fast,
            ServiceTier::UltraFast,
        ];
        ALL.into_iter().find(|tier| tier.as_str() == name).unwrap_or(Self::Default)
    }

    /// The name on the wire, the same as in the chat API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Default => "default",
            Self::Flex => "flex",
            Self::Scale => "scale",
            Self::Priority => "priority",
            Self::Fast => "fast",
            Self::UltraFast => "ultrafast",
        }
    }
}

/// How long the provider's cache should keep a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum PromptCacheRetention {
    #[serde(rename = "in_memory")]
    InMemory,
    #[serde(rename = "24h")]
    Day,
}

impl PromptCacheRetention {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InMemory => "in_memory",
            Self::Day => "24h",
        }
    }
}
