//! One inference in terms that no provider defines: its request ([`ModelRequest`]) and what the model answers
//! ([`ModelEvent`]).

pub(crate) mod refused_call;
pub(crate) mod tool_call;
pub mod tool_name;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub use self::refused_call::RefusedCall;
pub use self::tool_call::ToolCallRequest;
pub use self::tool_name::ToolName;
use super::presentation::Presentation;
use antwort_protocol::content::{Annotation, LogProb};
use antwort_protocol::item::Item;
use antwort_protocol::request::{Metadata, ReasoningRequest, ServiceTier, TextFormat, Verbosity};
use antwort_protocol::response::Usage;
use antwort_protocol::result_format::ResultFormat;

/// The request of one inference.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The provider's name of the model.
    pub model: String,
    /// The instructions, which come first and are no part of the conversation.
    pub instructions: Option<String>,
    /// The conversation as the model sees it, oldest item first.
    pub conversation: Vec<HistoryItem>,
    /// All tools in a stable order, the same in every turn of a run (for prompt caches).
    pub tools: Arc<[Arc<ModelTool>]>,
    /// The tool choice of this inference.
    pub tool_choice: CallChoice,
    /// The form in which results of server-side calls are written.
    pub result_format: ResultFormat,
    /// Whether a turn may hold several calls.
    pub parallel_tool_calls: bool,
    /// Tokens that this inference may use.
    pub max_output_tokens: Option<u64>,
    /// The format of the answer.
    pub format: TextFormat,
    /// How long the answer should be.
    pub verbosity: Option<Verbosity>,
    /// How much to reason, and what to show of it.
    pub reasoning: ReasoningRequest,
    /// Sampling parameters; `None` leaves them to the provider.
    pub sampling: SamplingParams,
    /// Fields that some providers accept and others refuse; sent as the provider's configuration says.
    pub hints: ProviderHints,
    /// Fields outside of the API that the provider's configuration passes through.
    pub extra: Vec<(String, Box<RawValue>)>,
    /// Whether the provider is asked for a stream.
    pub stream: bool,
}

/// Which tools may or must be called in one inference. Places are those in the list of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallChoice {
    /// No tool.
    None,
    /// Any tool or none.
    Auto,
    /// At least one call.
    Required,
    /// A call of this tool.
    One(usize),
    /// These tools only.
    Among {
        /// In ascending order.
        places: Vec<usize>,
        /// Whether at least one must be called.
        required: bool,
    },
}

/// An item as the model sees it, with the provider's state for it.
#[derive(Debug, Clone)]
pub struct HistoryItem {
    /// The item as the model sees it.
    pub item: Arc<Item>,
    /// The provider's state of a reasoning item, or of the answer that the item is part of; only if this provider
    /// made it.
    pub state: Option<ProviderState>,
    /// Of a call: the provider's id of it and fields that it sent with it, to be returned with it.
    pub call_state: Option<CallState>,
    /// Of a call that was refused: what the model reads as its result.
    pub refused: Option<Arc<str>>,
    /// Whether an answer of the model begins with this item. Calls that hold their own outputs do not show otherwise
    /// which of them were made in one answer.
    pub begins_turn: bool,
}

impl From<Item> for HistoryItem {
    fn from(item: Item) -> Self {
        Arc::new(item).into()
    }
}

impl From<Arc<Item>> for HistoryItem {
    fn from(item: Arc<Item>) -> Self {
        Self { item, state: None, call_state: None, refused: None, begins_turn: false }
    }
}

/// Fields of a message or of a call, by name, as the provider sent them.
pub type ProviderFields = Map<String, Value>;

/// Adds fields that came later: lists are extended, objects merged in the same way, other fields replaced.
pub fn merge_fields(fields: &mut ProviderFields, more: ProviderFields) {
    for (name, value) in more {
        match (fields.get_mut(&name), value) {
            (Some(Value::Array(list)), Value::Array(mut more)) => list.append(&mut more),
            (Some(Value::Object(fields)), Value::Object(more)) => merge_fields(fields, more),
            (_, value) => {
                fields.insert(name, value);
            }
        }
    }
}

/// What a provider wants returned with its answer, unchanged. Sealed before it leaves the gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProviderState {
    /// The raw reasoning, even if clients see only a summary or nothing of it.
    #[serde(default)]
    pub text: String,
    /// Fields of the assistant message, such as `reasoning_details`.
    #[serde(default)]
    pub fields: ProviderFields,
    /// What belongs to calls, by the id that the gateway has for the call.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, CallState>,
    /// Calls of the answer that were refused and are no items, in the order in which the model made them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedCall>,
    /// The position in the answer that it belongs to.
    #[serde(default, skip_serializing_if = "StatePosition::is_default")]
    pub place: StatePosition,
    /// Whether the answer begins with the item that holds this. Calls that hold their own outputs do not show otherwise which of
    /// them were made in one answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begins_turn: bool,
    /// The answers right before the one that begins with the item that holds this, as far as they have no items: all their calls
    /// were refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Self>,
}

/// What a provider wants returned with a call of its model, as it sent it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallState {
    /// The provider's id of the call, where clients see another: ids belong to whoever made them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Fields of the call, such as `extra_content`. Those of its `function` are in a field of that name.
    #[serde(flatten)]
    pub fields: ProviderFields,
}

impl CallState {
    /// Whether there is nothing to return.
    pub fn is_empty(&self) -> bool {
        self.id.is_none() && self.fields.is_empty()
    }

    /// Whether a provider may refuse the call without it. An id of letters and digits is a name only; others hold an index,
    /// the name of the tool or a signature.
    pub(crate) fn is_signed(&self) -> bool {
        let is_name = |id: &str| {
            is_call_id(id)
                && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        };
        !self.fields.is_empty() || self.id.as_deref().is_some_and(|id| !is_name(id))
    }

    /// Adds what came later, which counts.
    pub fn merge(&mut self, more: Self) {
        self.id = more.id.or_else(|| self.id.take());
        self.fields.extend(more.fields);
    }
}

/// Whether a provider's id is one that clients can be given: they may send ids of up to 64 characters.
pub(crate) fn is_call_id(id: &str) -> bool {
    (1..=64).contains(&id.chars().count())
}

/// The position of provider state within its answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatePosition {
    /// Before the item that it belongs to. After calls with results it begins another answer.
    #[default]
    #[serde(rename = "leads")]
    Before,
    /// Between the items of the answer.
    Within,
    /// After the answer: it came when the items had been written.
    #[serde(rename = "trails")]
    After,
}

impl StatePosition {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl ProviderState {
    /// Whether there is nothing to return.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.has_more_than_text()
    }

    pub(crate) fn has_more_than_text(&self) -> bool {
        let Self { text: _, fields, calls, refused, place: _, begins_turn, earlier } = self;
        *begins_turn || !(fields.is_empty() && calls.is_empty() && refused.is_empty() && earlier.is_empty())
    }

    /// Adds fields that came later.
    pub fn merge_fields(&mut self, more: ProviderFields) {
        merge_fields(&mut self.fields, more);
    }

    /// Adds the state of a later part of the same answer.
    pub fn merge(&mut self, more: Self) {
        if !self.text.is_empty() && !more.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(&more.text);
        self.merge_fields(more.fields);
        for (key, state) in more.calls {
            self.calls.entry(key).or_default().merge(state);
        }
        self.refused.extend(more.refused);
        self.begins_turn |= more.begins_turn;
        self.earlier.extend(more.earlier);
    }
}

/// A tool that the model may call, under the name that the provider sees.
#[derive(Debug, Clone)]
pub struct ModelTool {
    /// Sent to the provider: unique in the request, at most 64 characters.
    pub wire_name: ToolName,
    /// The client's name for it.
    pub name: ToolName,
    /// The client's namespace for it.
    pub namespace: Option<String>,
    /// The description for the model.
    pub description: Option<String>,
    /// What its input looks like.
    pub input: ToolInput,
    /// Who runs it, and so which type of item a call becomes.
    pub kind: CallKind,
}

/// The input of a tool.
#[derive(Debug, Clone)]
pub enum ToolInput {
    /// A JSON object by this schema; an empty object if there is none.
    Json {
        /// JSON Schema, byte for byte as the client sent it.
        schema: Option<Box<RawValue>>,
        /// Whether the provider must enforce the schema.
        strict: Option<bool>,
    },
    /// Free text. Providers without such tools are given a function with one string argument, `input`.
    Text {
        /// Describes the text; added to the tool's description for the provider.
        grammar: Option<String>,
    },
}

/// The type of item that a call becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// `function_call`
    Function,
    /// `custom_tool_call`
    Custom,
    /// A call that the gateway makes.
    Server(Presentation),
}

/// Sampling parameters as the client set them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SamplingParams {
    /// 0 to 2.
    pub temperature: Option<f64>,
    /// 0 to 1.
    pub top_p: Option<f64>,
    /// The presence penalty.
    pub presence_penalty: Option<f64>,
    /// The frequency penalty.
    pub frequency_penalty: Option<f64>,
    /// Whether log probabilities are wanted, and how many alternatives for each token (0 to 20).
    pub logprobs: Option<u8>,
}

/// Request fields for the provider's own bookkeeping.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "each field is the request field of the same name")]
pub struct ProviderHints {
    pub user: Option<String>,
    pub safety_identifier: Option<String>,
    pub prompt_cache_key: Option<String>,
    pub prompt_cache_retention: Option<String>,
    pub service_tier: Option<ServiceTier>,
    pub metadata: Metadata,
}

/// An event of a model's answer, in the order of arrival.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelEvent {
    /// Visible text; never empty.
    Text {
        /// The delta.
        delta: String,
        /// Log probabilities of its tokens.
        logprobs: Vec<LogProb>,
    },
    /// A refusal to answer.
    Refusal(String),
    /// Raw reasoning; never empty.
    Reasoning(String),
    /// Reasoning that the provider itself calls a summary.
    ReasoningSummary(String),
    /// Fields of the assistant message that the provider wants returned.
    ReasoningState(ProviderFields),
    /// Fields of a call that the provider wants returned, sent after the call has begun; the last ones count.
    CallState {
        /// The number of the call.
        slot: u32,
        /// The fields.
        fields: Box<ProviderFields>,
    },
    /// The provider's id of a call, sent after the call has begun.
    CallId {
        /// The number of the call.
        slot: u32,
        /// The id.
        call_id: String,
    },
    /// A citation in the text so far.
    Annotation(Annotation),
    /// A call begins; its name is known.
    CallStarted {
        /// The number of the call in this turn (0, 1, 2 …), which its arguments refer to.
        slot: u32,
        /// The kind of the tool.
        kind: CallKind,
        /// The provider's id of the call, if it was sent with its beginning.
        call_id: Option<String>,
        /// The client's name of the tool.
        name: String,
        /// The client's namespace of the tool.
        namespace: Option<String>,
        /// Fields that the provider wants returned, if they came with the call's beginning.
        fields: Option<Box<ProviderFields>>,
    },
    /// A piece of a call's arguments, or of a custom tool's input, decoded.
    CallDelta {
        /// The number of the call.
        slot: u32,
        /// The delta.
        delta: String,
    },
    /// Tokens used; the last report counts.
    Usage(Usage),
    /// The service tier that the provider used.
    ServiceTier(String),
    /// The answer is complete, or was ended for this reason. Sent once; usage may follow.
    Finish(FinishReason),
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model was done, with or without calls.
    Stop,
    /// The token limit.
    Length,
    /// The provider's content filter.
    ContentFilter,
}
