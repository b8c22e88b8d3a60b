//! Agent profiles and the limits of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::units;
use crate::protocol::request::{ReasoningEffort, StructuredOptions, SummaryMode, TextFormat, Verbosity};
use crate::protocol::schema::CompiledSchema;

/// A model with instructions and tools under one name, chosen by `prompt.id` or `agent`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentSettings {
    /// What it is for, in `GET /v1/agents`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Used where the request names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Used where the request has none; `{{name}}` stands for a variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Values of variables that the request does not give.
    pub variables: BTreeMap<String, String>,
    /// Names of server-side tools that it has beside those of the request.
    pub tools: Vec<String>,
    /// Labels of the MCP servers that it has beside those of the request.
    pub mcp_servers: Vec<String>,
    /// Globs of the tools that it may use; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Globs of the tools that it may not use.
    pub blocked_tools: Vec<String>,
    /// `false`: single-shot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_enabled: Option<bool>,
    /// Limits that differ from the general ones.
    pub limits: LimitOverrides,
    /// What becomes of answers that miss their form, where it differs from what is general.
    #[serde(skip_serializing_if = "is_default")]
    pub structured: StructuredOptions,
    /// 0 to 2; used where the request has none, as the following.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// At least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// How much the model thinks, and what is shown of it.
    #[serde(skip_serializing_if = "ReasoningDefaults::is_empty")]
    pub reasoning: ReasoningDefaults,
    /// What the answer looks like.
    #[serde(skip_serializing_if = "TextDefaults::is_empty")]
    pub text: TextDefaults,
}

/// `reasoning` of a request that does not say it; each key for itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReasoningDefaults {
    /// How much the model thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<ReasoningEffort>,
    /// Whether and how its thoughts are summarised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<SummaryMode>,
}

impl ReasoningDefaults {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// `text` of a request that does not say it; each key for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextDefaults {
    /// Free text, or JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<TextFormat>,
    /// How long-winded the answer is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<Verbosity>,
}

impl TextDefaults {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The most tokens of an answer that a request may name, too.
const MAX_OUTPUT_TOKENS: u64 = u32::MAX as u64;

impl AgentSettings {
    /// What requests would be refused for: the keys of model options that are out of range, and why.
    pub(super) fn invalid_model_options(&self) -> Vec<(&'static [&'static str], String)> {
        let mut wrong: Vec<(&'static [&'static str], String)> = Vec::new();
        let outside = |value: Option<f64>, most| value.is_some_and(|value| !(0.0..=most).contains(&value));
        if outside(self.temperature, 2.0) {
            wrong.push((&["temperature"], "expected a number from 0 to 2".into()));
        }
        if outside(self.top_p, 1.0) {
            wrong.push((&["top_p"], "expected a number from 0 to 1".into()));
        }
        if self.max_output_tokens.is_some_and(|tokens| !(1..=MAX_OUTPUT_TOKENS).contains(&tokens)) {
            wrong.push((&["max_output_tokens"], format!("expected 1 to {MAX_OUTPUT_TOKENS}")));
        }
        if let Some(TextFormat::JsonSchema(format)) = &self.text.format {
            let schema = serde_json::from_str(format.schema.get()).unwrap_or_default();
            if let Err(problem) = CompiledSchema::compile(&schema) {
                wrong.push((&["text", "format", "schema"], problem));
            }
        }
        wrong
    }
}

fn is_default(structured: &StructuredOptions) -> bool {
    *structured == StructuredOptions::default()
}

/// Limits of one run, over all its turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunLimits {
    /// Inferences.
    pub max_turns: u32,
    /// Calls of server-side tools; the request's `max_tool_calls` lowers it.
    #[serde(with = "units::count_or_off")]
    pub max_tool_calls: Option<u64>,
    /// Tokens in and out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total_tokens: Option<u64>,
    /// Wall clock; `run_timeout` holds in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
    /// US dollars, by the provider's prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Calls of one tool with the same arguments.
    pub max_identical_calls: u32,
    /// Turns one after the other in which every call failed.
    pub max_consecutive_failures: u32,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            max_turns: 10,
            max_tool_calls: Some(128),
            max_total_tokens: None,
            max_seconds: None,
            max_cost_usd: None,
            max_identical_calls: 6,
            max_consecutive_failures: 3,
        }
    }
}

/// Limits that differ: in an agent's profile, or as the ceiling for what requests may ask.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "each field is the one of `RunLimits` of the same name")]
pub struct LimitOverrides {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_identical_calls: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_consecutive_failures: Option<u32>,
}

/// Prices of a model in US dollars per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    /// Of tokens in.
    pub input: f64,
    /// Of tokens in that the provider had in its cache; as `input` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
    /// Of tokens out.
    pub output: f64,
}

impl RunLimits {
    /// Where a deadline is set, how long a run may take.
    pub fn wall_clock(&self) -> Option<Duration> {
        self.max_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }
}
