//! The response object; every snapshot has every key.
//!
//! The echo of the request is serialized once per run ([`RequestEcho`]) and shared by all snapshots.

mod report;
mod stored;

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::dialect::Dialect;
use super::error::ErrorBody;
use super::id::Id;
use super::item::Item;
use super::json;
use super::request::{PromptRef, Truncation};

pub use report::{RunOutcome, RunReport, StructuredValidation};

/// The status of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ResponseStatus {
    Queued,
    InProgress,
    Completed,
    /// An extension: waits for the client to run functions.
    RequiresAction,
    Incomplete,
    Failed,
    Cancelled,
}

impl ResponseStatus {
    /// Every status.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::InProgress,
        Self::Completed,
        Self::RequiresAction,
        Self::Incomplete,
        Self::Failed,
        Self::Cancelled,
    ];

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
    /// The status.
    pub status: ResponseStatus,
    /// The error, if it failed.
    pub error: Option<ErrorBody>,
    /// Why it is incomplete.
    pub incomplete_details: Option<IncompleteDetails>,
    /// The output items in order.
    pub output: OutputItems,
    /// Null while the response is in progress.
    pub usage: Option<Usage>,
    /// The service tier that was used; before the end, the requested one.
    pub service_tier: String,
    /// The request, echoed.
    #[serde(flatten)]
    pub echo: Arc<RequestEcho>,
    /// The run options of the request, and at the end the outcome of the run.
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
    /// An empty list.
    pub fn new(dialect: Dialect) -> Self {
        Self { items: Vec::new(), dialect }
    }

    /// The dialect in which the items are written.
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

/// Tokens used by all inferences of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens the model read.
    pub input_tokens: u64,
    /// Details of these tokens.
    pub input_tokens_details: InputTokensDetails,
    /// Tokens the model wrote, reasoning included.
    pub output_tokens: u64,
    /// Details of these tokens.
    pub output_tokens_details: OutputTokensDetails,
    /// Input and output tokens together.
    pub total_tokens: u64,
}

/// Input tokens and the provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InputTokensDetails {
    /// Read from the cache.
    pub cached_tokens: u64,
    /// Written to the cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
}

/// Details of the output tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutputTokensDetails {
    /// Tokens used for reasoning.
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

/// The parts of a response that echo the request; the larger ones are serialized already.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each field is the request field of the same name; see request.rs")]
pub struct RequestEcho {
    pub background: bool,
    pub conversation: Option<ResponseConversation>,
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
    pub truncation: Truncation,
    pub user: Option<String>,
    /// Only if the request named an agent profile by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptRef>,
    /// Only if the request named an agent profile by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// The conversation that a response was made in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseConversation {
    /// `conv_…`
    pub id: String,
}

/// A response at one moment, with its JSON: the client, the store and every replay get the same bytes.
#[derive(Debug, Clone)]
pub struct ResponseSnapshot {
    /// The response.
    pub response: Response,
    /// Of the first events of a run that nobody streams, it is never asked for.
    json: OnceLock<Arc<str>>,
}

impl ResponseSnapshot {
    /// A snapshot whose JSON is written when it is first asked for.
    pub fn new(response: Response) -> Self {
        Self { response, json: OnceLock::new() }
    }

    /// The response as it is sent.
    pub fn json(&self) -> &Arc<str> {
        self.json.get_or_init(|| json::to_text(&self.response))
    }
}

/// As [`ResponseSnapshot::json`], which an event's encoder writes without this.
impl Serialize for ResponseSnapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.response.serialize(serializer)
    }
}
