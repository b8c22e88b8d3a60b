//! What an account is made of: turns, calls, waits and limits, with short keys and times as offsets from the start.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use antwort_protocol::response::Usage;

/// A shorter wait is not noted.
const MIN_NOTED_WAIT: Duration = Duration::from_millis(1);

/// Milliseconds since the run was started.
pub(crate) type Offset = i64;

/// An inference and its calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TurnTrace {
    #[serde(rename = "s")]
    pub sent: Offset,
    /// Only calls, no inference: those that were approved are made before the model is asked.
    #[serde(rename = "n", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_no_inference: bool,
    /// The model that wrote a summary of the conversation, which is no turn of the agent loop.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Box<CompactionModel>>,
    /// When each further attempt was sent.
    #[serde(rename = "r", default, skip_serializing_if = "Vec::is_empty")]
    pub retried: Vec<Offset>,
    /// Why: the kinds of the failures before them.
    #[serde(rename = "y", default, skip_serializing_if = "Vec::is_empty")]
    pub retry_reasons: Vec<Cow<'static, str>>,
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<Offset>,
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_token: Option<Offset>,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Offset>,
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TurnTokens>,
    /// US dollars.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    #[serde(rename = "f", default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallRecord>,
    /// Calls that were refused, of which none was made.
    #[serde(rename = "d", default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<CallRecord>,
}

/// Which model was asked for a summary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CompactionModel {
    #[serde(rename = "p")]
    pub provider: String,
    #[serde(rename = "m")]
    pub model: String,
}

/// Input, of that cached, output, of that reasoning, total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TurnTokens(pub u64, pub u64, pub u64, pub u64, pub u64);

impl TurnTokens {
    pub(crate) fn add(&mut self, usage: &Usage) {
        self.0 += usage.input_tokens;
        self.1 += usage.input_tokens_details.cached_tokens;
        self.2 += usage.output_tokens;
        self.3 += usage.output_tokens_details.reasoning_tokens;
        self.4 += usage.total_tokens;
    }

    pub(crate) fn input(self) -> u64 {
        self.0
    }

    pub(crate) fn output(self) -> u64 {
        self.2
    }
}

/// A call that the gateway has made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallRecord {
    /// The item that shows it; of one that no item shows, its id in the audit log.
    #[serde(rename = "i")]
    pub call_id: String,
    #[serde(rename = "n")]
    pub name: String,
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    #[serde(rename = "a", default, skip_serializing_if = "is_default")]
    pub attempts: u32,
    #[serde(rename = "r", default, skip_serializing_if = "Vec::is_empty")]
    pub retried: Vec<Offset>,
    #[serde(rename = "s")]
    pub started: Offset,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Offset>,
    #[serde(rename = "u", default, skip_serializing_if = "is_default")]
    pub outcome: CallOutcomeKind,
    /// The code of the failure.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(rename = "h", default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// The executor that failed and was replaced.
    #[serde(rename = "f", default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    #[serde(rename = "z", default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Why no response has followed its result: a code.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub follow_up_error: Option<String>,
    /// Whether a response is to follow its result.
    #[serde(rename = "w", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_followed: bool,
}

impl CallRecord {
    /// Whether its id is that of the audit log: no item is known that shows it.
    pub(super) fn is_unnamed(&self) -> bool {
        self.call_id.contains('/')
    }
}

/// What became of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallOutcomeKind {
    /// Nobody knows: it has not returned, or its process is gone.
    #[default]
    Unknown,
    Completed,
    Failed,
    /// Its work goes on.
    Async,
    Cancelled,
}

/// For whom a run has waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WaitKind {
    /// The client, for outputs of its functions.
    Client,
    /// The user, for answers to questions of a tool.
    Elicitation,
    /// A callback, for the result of a call whose work went on.
    Callback,
    /// A place: a run slot or a worker.
    Queue,
    /// MCP servers, for the lists of their tools.
    McpListTools,
}

/// A time in this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interval {
    pub from: Instant,
    pub to: Instant,
}

impl Interval {
    /// Whether it is long enough to be told.
    pub(crate) fn is_noticed(&self) -> bool {
        self.to.saturating_duration_since(self.from) >= MIN_NOTED_WAIT
    }
}

/// A time in which the run waited for somebody else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WaitTrace {
    #[serde(rename = "k")]
    pub kind: WaitKind,
    #[serde(rename = "s")]
    pub from: Offset,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Offset>,
}

/// A limit that has stopped the run, or calls of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LimitTrace {
    #[serde(rename = "n")]
    pub name: Cow<'static, str>,
    #[serde(rename = "s")]
    pub at: Offset,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
