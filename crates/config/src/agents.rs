//! Agent profiles and the limits of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::tools::OnComplete;
use super::units;
use antwort_protocol::request::{
    ClientToolMode, ReasoningEffort, StructuredOptions, SummaryMode, TextFormat, Verbosity,
};
use antwort_protocol::schema::CompiledSchema;

/// An agent profile: a model with instructions and tools, selected by `prompt.id` or `agent`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentSettings {
    /// Shown in `GET /v1/agents`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Applies if the request has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Applies if the request has none; `{{name}}` is replaced by a variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Values of variables that the request does not set.
    pub variables: BTreeMap<String, String>,
    /// Names of server-side tools, in addition to those of the request.
    pub tools: Vec<String>,
    /// Labels of MCP servers, in addition to those of the request.
    pub mcp_servers: Vec<String>,
    /// Globs of allowed tools; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Globs of blocked tools.
    pub blocked_tools: Vec<String>,
    /// `false`: single-shot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_enabled: Option<bool>,
    /// Whether a response ends at calls of the client's functions (`pause`), or waits for their outputs (`inline`), if the
    /// request does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_tools: Option<ClientToolMode>,
    /// How long it waits; absent: `engine.client_tool_timeout`.
    #[serde(skip_serializing_if = "Option::is_none", with = "units::OptionalDuration")]
    pub client_tool_timeout: Option<Duration>,
    /// What the results of tools lead to whose work goes on, where the tool's own setting does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_complete: Option<OnComplete>,
    /// Limits that override the general ones.
    pub limits: LimitOverrides,
    /// Structured output, if it differs from the general setting.
    #[serde(skip_serializing_if = "is_default")]
    pub structured: StructuredOptions,
    /// 0 to 2; applies if the request has none, like the following.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// At least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Reasoning effort and summary.
    #[serde(skip_serializing_if = "ReasoningDefaults::is_empty")]
    pub reasoning: ReasoningDefaults,
    /// Format and verbosity of the output.
    #[serde(skip_serializing_if = "TextDefaults::is_empty")]
    pub text: TextDefaults,
}

/// `reasoning` of requests that do not set it, key by key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReasoningDefaults {
    /// `reasoning.effort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<ReasoningEffort>,
    /// `reasoning.summary`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<SummaryMode>,
}

impl ReasoningDefaults {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// `text` of requests that do not set it, key by key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextDefaults {
    /// Text, or JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<TextFormat>,
    /// `text.verbosity`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<Verbosity>,
}

impl TextDefaults {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The API's maximum, too.
const MAX_OUTPUT_TOKENS: u64 = u32::MAX as u64;

impl AgentSettings {
    /// Model options that would be refused in a request: their keys, and why.
    pub fn invalid_model_options(&self) -> Vec<(&'static [&'static str], String)> {
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
    /// Calls of server-side tools; `None`: no limit. The request's `max_tool_calls` lowers it.
    #[serde(with = "units::CountOrOff")]
    pub max_tool_calls: Option<u64>,
    /// Input and output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total_tokens: Option<u64>,
    /// Wall-clock time; `run_timeout` applies in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
    /// US dollars, computed from the provider's prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Calls of one tool with the same arguments.
    pub max_identical_calls: u32,
    /// Consecutive turns in which every call failed.
    pub max_consecutive_failures: u32,
    /// Responses that follow results of asynchronous tools, and the results of these; 0: none follows.
    pub max_follow_ups: u32,
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
            max_follow_ups: 10,
        }
    }
}

/// Limits that override the general ones: of an agent, or the ceilings for requests.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_follow_ups: Option<u32>,
}

/// Prices of a model in US dollars per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    /// Of input tokens.
    pub input: f64,
    /// Of cached input tokens; absent: as `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
    /// Of output tokens.
    pub output: f64,
}

impl RunLimits {
    /// The deadline of a run, if there is one.
    pub fn wall_clock(&self) -> Option<Duration> {
        self.max_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }
}
