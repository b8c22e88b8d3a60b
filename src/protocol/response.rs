//! The response object: every key in every snapshot.
//!
//! What merely echoes the request is serialised once per run ([`RequestEcho`]) and shared by all snapshots.

mod report;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::dialect::Dialect;
use super::error::ErrorBody;
use super::id::Id;
use super::item::Item;
use super::request::PromptRef;

pub use report::{RunOutcome, RunReport, StructuredValidation};

/// Where a response stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ResponseStatus {
    Queued,
    InProgress,
    Completed,
    /// Ours: waits for the client to run functions. Seed 000 and design D1.
    RequiresAction,
    Incomplete,
    Failed,
    Cancelled,
}

impl ResponseStatus {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::RequiresAction => "requires_action",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The response object. Field order is the order on the wire.
#[derive(Debug, Clone, Serialize)]
pub struct Response {
    /// `resp_…`
    pub id: Id,
    /// Always `response`.
    pub object: &'static str,
    /// Unix seconds.
    pub created_at: i64,
    /// Unix seconds; null unless `completed` or `requires_action`.
    pub completed_at: Option<i64>,
    /// Where it stands.
    pub status: ResponseStatus,
    /// Why it failed.
    pub error: Option<ErrorBody>,
    /// Why it is incomplete.
    pub incomplete_details: Option<IncompleteDetails>,
    /// What was made, in order.
    pub output: OutputItems,
    /// Null while in progress.
    pub usage: Option<Usage>,
    /// The tier that served it; before the end, the one that was asked for.
    pub service_tier: String,
    /// The request, echoed.
    #[serde(flatten)]
    pub echo: Arc<RequestEcho>,
    /// What the request said of its run, and once it has ended what came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub antwort: Option<Box<RunReport>>,
}

/// The items of a response, written as its dialect names them.
#[derive(Debug, Clone, Default)]
pub struct OutputItems {
    items: Vec<Item>,
    dialect: Dialect,
}

impl OutputItems {
    /// No items yet.
    pub fn new(dialect: Dialect) -> Self {
        Self { items: Vec::new(), dialect }
    }

    /// How they are written.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }
}

impl Deref for OutputItems {
    type Target = Vec<Item>;

    fn deref(&self) -> &Vec<Item> {
        &self.items
    }
}

impl DerefMut for OutputItems {
    fn deref_mut(&mut self) -> &mut Vec<Item> {
        &mut self.items
    }
}

impl Serialize for OutputItems {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.items.iter().map(|item| item.in_dialect(self.dialect, false)))
    }
}

/// Which limit or filter ended a response early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncompleteDetails {
    /// `max_output_tokens`, `content_filter`, or the name of the limit that was reached.
    pub reason: String,
}

/// Tokens spent, over all inferences of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens the model read.
    pub input_tokens: u64,
    /// Of those.
    pub input_tokens_details: InputTokensDetails,
    /// Tokens the model wrote, reasoning included.
    pub output_tokens: u64,
    /// Of those.
    pub output_tokens_details: OutputTokensDetails,
    /// Both.
    pub total_tokens: u64,
}

/// How input tokens met the provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InputTokensDetails {
    /// Read from the cache.
    pub cached_tokens: u64,
    /// Written to the cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
}

/// What output tokens were spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutputTokensDetails {
    /// Spent on reasoning.
    pub reasoning_tokens: u64,
}

impl Usage {
    /// Adds another inference's usage.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens += other.input_tokens;
        self.input_tokens_details.cached_tokens += other.input_tokens_details.cached_tokens;
        self.input_tokens_details.cache_write_tokens += other.input_tokens_details.cache_write_tokens;
        self.output_tokens += other.output_tokens;
        self.output_tokens_details.reasoning_tokens += other.output_tokens_details.reasoning_tokens;
        self.total_tokens += other.total_tokens;
    }
}

/// The parts of a response that repeat the request; the larger ones already serialised.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "each field is the request field of the same name; see request.rs")]
pub struct RequestEcho {
    pub background: bool,
    pub conversation: Option<()>,
    pub frequency_penalty: f64,
    pub instructions: Option<String>,
    pub max_output_tokens: Option<u64>,
    pub max_tool_calls: Option<u64>,
    pub metadata: Box<RawValue>,
    pub model: String,
    pub parallel_tool_calls: bool,
    pub presence_penalty: f64,
    pub previous_response_id: Option<String>,
    pub prompt_cache_key: Option<String>,
    pub prompt_cache_retention: Option<String>,
    pub reasoning: Box<RawValue>,
    pub safety_identifier: Option<String>,
    pub store: bool,
    pub temperature: f64,
    pub text: Box<RawValue>,
    pub tool_choice: Box<RawValue>,
    pub tools: Box<RawValue>,
    pub top_logprobs: u8,
    pub top_p: f64,
    pub truncation: &'static str,
    pub user: Option<String>,
    /// Only where the request named an agent profile by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptRef>,
    /// Only where the request named an agent profile by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// A response at one moment, with its JSON: the same bytes serve the client, the store and every replay.
#[derive(Debug, Clone)]
pub struct ResponseSnapshot {
    /// The response.
    pub response: Response,
    json: Box<RawValue>,
}

impl ResponseSnapshot {
    /// Serialises the response once.
    pub fn new(response: Response) -> Self {
        let json = to_raw(&response);
        Self { response, json }
    }

    /// The response as sent.
    pub fn json(&self) -> &str {
        self.json.get()
    }
}

impl Serialize for ResponseSnapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

/// Serialises a wire type to raw JSON.
///
/// Wire types serialise without fail: they have string keys, and floats that were checked to be finite.
/// Should one fail all the same, null is sent in its place rather than a panic raised.
pub fn to_raw<T: Serialize>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|error| {
        tracing::error!(%error, "a wire type did not serialise");
        RawValue::NULL.to_owned()
    })
}
