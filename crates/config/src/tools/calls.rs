//! Calls of tools: timeouts, concurrency, retries, circuit breakers, fallbacks and routes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units;

/// How a failed call is treated. Written `continue`, `fail`, `skip` or `fallback:<tool>`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum OnError {
    /// The model gets the error.
    #[default]
    Continue,
    /// The response fails.
    Fail,
    /// The model is told to answer without it.
    Skip,
    /// Another tool is called with the same arguments.
    Fallback(String),
}

impl TryFrom<String> for OnError {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "continue" => Ok(Self::Continue),
            "fail" => Ok(Self::Fail),
            "skip" => Ok(Self::Skip),
            other => match other.strip_prefix("fallback:") {
                Some(tool) if !tool.is_empty() => Ok(Self::Fallback(tool.to_owned())),
                _ => Err(format!("expected continue, fail, skip or fallback:<tool>, found \"{other}\"")),
            },
        }
    }
}

impl From<OnError> for String {
    fn from(on_error: OnError) -> Self {
        match on_error {
            OnError::Continue => "continue".into(),
            OnError::Fail => "fail".into(),
            OnError::Skip => "skip".into(),
            OnError::Fallback(tool) => format!("fallback:{tool}"),
        }
    }
}

/// Retries of calls of idempotent tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolRetry {
    /// Maximum retries.
    pub max: u32,
    /// Backoff before the first retry; doubles with each, with jitter.
    #[serde(with = "units::HumanDuration")]
    pub delay: Duration,
    /// Maximum backoff.
    #[serde(with = "units::HumanDuration")]
    pub max_delay: Duration,
}

impl Default for ToolRetry {
    fn default() -> Self {
        Self { max: 2, delay: Duration::from_millis(200), max_delay: Duration::from_secs(2) }
    }
}

/// The circuit breaker of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerSettings {
    /// Consecutive failures to reach the tool that open the circuit; 0: never.
    pub failures: u32,
    /// How long the circuit stays open before one call probes the tool.
    #[serde(with = "units::HumanDuration")]
    pub open_for: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(30) }
    }
}

/// Settings of one tool; absent ones are the general ones.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolOverride {
    /// Timeout of a call.
    #[serde(with = "units::OptionalDuration", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Maximum concurrent calls of it in the whole process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<usize>,
    /// One call at a time, in the whole process.
    pub serial: bool,
    /// Maximum calls of it in one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u64>,
    /// Whether results are cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cacheable: Option<bool>,
    /// Cached results are used only for the same user.
    pub cache_per_user: bool,
    /// How failed calls are treated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// Retries of calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<ToolRetry>,
    /// The circuit breaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerSettings>,
    /// Maximum bytes of a result that the model reads.
    #[serde(with = "units::OptionalSize", skip_serializing_if = "Option::is_none")]
    pub max_result_bytes: Option<usize>,
    /// Whether calls may be repeated, if the executor does not declare it or is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Whether its work may go on after its answer; absent: as its executor says, which is `deny` for MCP servers.
    #[serde(rename = "async", skip_serializing_if = "Option::is_none")]
    pub asynchronous: Option<AsyncMode>,
    /// What the result of such work leads to; absent: as the agent says, or `follow_up`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_complete: Option<OnComplete>,
    /// Additional tags.
    pub tags: Vec<String>,
}

/// Whether the work of a tool may go on after its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AsyncMode {
    /// A call returns with its result.
    #[default]
    Deny,
    /// A call may return when the work was started; the result is reported later.
    Allow,
}

impl AsyncMode {
    /// Whether it is [`Self::Deny`], which a serialized tool definition leaves out.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    pub fn is_deny(&self) -> bool {
        *self == Self::Deny
    }
}

/// What the result of work leads to that has gone on after its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnComplete {
    /// A new response in the same conversation, with the result as its input.
    #[default]
    FollowUp,
    /// The response waits at its end for the result, and goes on with it, if it is one that can wait: a background response, or
    /// one whose client tools run inline. Others are followed.
    Resume,
    /// The result becomes that of the call, and whoever continues the response sees it.
    Store,
}

impl OnComplete {
    /// Its name in settings and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FollowUp => "follow_up",
            Self::Resume => "resume",
            Self::Store => "store",
        }
    }
}

/// Settings of all tools of one executor.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecutorSettings {
    /// Timeout of one attempt; the tool's own timeout applies in any case.
    #[serde(with = "units::OptionalDuration", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Maximum concurrent calls of all its tools in the whole process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<usize>,
    /// Additional tags of all its tools.
    pub tags: Vec<String>,
}

/// The label of the MCP server in the id of an executor.
pub fn mcp_label(executor: &str) -> Option<&str> {
    executor.strip_prefix("mcp:")
}

/// A tool that several executors serve.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RouteSettings {
    /// Ids of the executors, in order of preference.
    pub executors: Vec<String>,
    /// Tags that an executor's tool must have.
    pub require: Vec<String>,
    /// How the executor of a call is chosen.
    pub strategy: RouteStrategy,
    /// By executor, for `weighted`; 1 if absent.
    pub weights: BTreeMap<String, u32>,
}

/// How the executor of a call is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteStrategy {
    /// The first one that works.
    #[default]
    Ordered,
    /// Round robin.
    RoundRobin,
    /// The one with the fewest calls in flight.
    LeastInflight,
    /// At random, by weight.
    Weighted,
    /// The one with fewer calls in flight of two random ones.
    P2c,
    /// The same one for a conversation, or else for a user.
    Sticky,
}
