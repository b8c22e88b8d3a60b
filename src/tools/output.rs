//! What a call gave, told apart by who sees it.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

/// What came of a call that was made. Pauses (approval, input, jobs) join with the tools that have them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ToolOutcome {
    /// It is over.
    Done(ToolOutput),
}

/// A result.
#[derive(Debug, Clone, Default)]
pub struct ToolOutput {
    /// What the model reads; always there.
    pub for_model: String,
    /// What the user is shown directly; the model never sees it.
    pub for_user: Option<String>,
    /// Nothing is shown to the user, whatever `for_user` says.
    pub silent: bool,
    /// The user is shown `for_user` also where the tools of the gateway are not to speak to users.
    pub forces_user_output: bool,
    /// What clients are shown in place of `for_model`, where some of that is for the model alone.
    pub for_client: Option<String>,
    /// The tool says that it failed; `for_model` says how.
    pub is_error: bool,
    /// The same result for programs.
    pub structured: Option<Value>,
    /// Where it comes from, for annotations of the answer.
    pub citations: Vec<Citation>,
    /// How it came about.
    pub meta: OutputMeta,
}

/// A source on the web.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Citation {
    /// Its address.
    pub url: String,
    /// Its title.
    pub title: String,
}

/// How a result came about; filled by the layers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OutputMeta {
    /// From dispatch to result.
    pub duration_ms: u64,
    /// It was in the cache.
    pub cached: bool,
    /// Who ran it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<Arc<str>>,
    /// How often it was tried; 0 for a cached result.
    pub attempts: u32,
    /// The model sees only its head and tail.
    pub truncated: bool,
    /// The call failed, and the model is told to do without its result.
    pub skipped: bool,
    /// The executor that should have run it and could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_from: Option<Arc<str>>,
}

impl ToolOutput {
    /// A text for the model.
    pub fn text(for_model: impl Into<String>) -> Self {
        Self { for_model: for_model.into(), ..Self::default() }
    }

    /// The same text for model and user.
    pub fn user(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { for_user: Some(text.clone()), ..Self::text(text) }
    }

    /// A text for the model of which the user sees nothing.
    pub fn silent(for_model: impl Into<String>) -> Self {
        Self { silent: true, ..Self::text(for_model) }
    }

    /// A failure, in the tool's own words.
    pub fn error(message: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(message) }
    }

    /// A value: JSON for the model, the value itself for programs.
    pub fn value(value: Value) -> Self {
        Self { for_model: value.to_string(), structured: Some(value), ..Self::default() }
    }
}
