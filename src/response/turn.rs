//! One inference, neutral of any provider: what is asked ([`ModelRequest`]) and what comes back
//! ([`ModelEvent`]).

pub(crate) mod tool_name;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub(crate) use self::tool_name::ToolName;
use crate::config::ResultFormat;
use crate::protocol::content::{Annotation, LogProb};
use crate::protocol::item::Item;
use crate::protocol::request::{Metadata, ReasoningRequest, ServiceTier, TextFormat, Verbosity};
use crate::protocol::response::Usage;

/// What one inference is asked.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The provider's own name of the model.
    pub model: String,
    /// Goes first; not part of the history.
    pub instructions: Option<String>,
    /// What the model sees, oldest first.
    pub conversation: Vec<HistoryItem>,
    /// All tools, in a stable order; the same in every turn of a run.
    pub tools: Arc<[Arc<ModelTool>]>,
    /// As it binds this inference.
    pub tool_choice: CallChoice,
    /// How results of calls that the gateway made are told.
    pub result_format: ResultFormat,
    /// Whether several calls may come in one turn.
    pub parallel_tool_calls: bool,
    /// Tokens left for this inference.
    pub max_output_tokens: Option<u64>,
    /// Form of the answer.
    pub format: TextFormat,
    /// Length of the answer.
    pub verbosity: Option<Verbosity>,
    /// How much to think, and what to show of it.
    pub reasoning: ReasoningRequest,
    /// Sampling; `None` leaves it to the provider.
    pub sampling: SamplingParams,
    /// What some providers take and others refuse: forwarded by the provider's configuration.
    pub hints: ProviderHints,
    /// Fields that are none of the API's and that the provider's configuration lets through.
    pub extra: Vec<(String, Box<RawValue>)>,
    /// Whether to ask the provider for a stream.
    pub stream: bool,
}

/// Which tools the model may or must call in one inference. Places are those among its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallChoice {
    /// None.
    None,
    /// As it likes.
    Auto,
    /// At least one.
    Required,
    /// This one.
    One(usize),
    /// Only these.
    Among {
        /// In ascending order.
        places: Vec<usize>,
        /// At least one of them.
        required: bool,
    },
}

/// An item as the model sees it, with what only its provider understands.
#[derive(Debug, Clone)]
pub struct HistoryItem {
    /// The item.
    pub item: Arc<Item>,
    /// State of the provider that made it, if it is the one now asked: of a reasoning item, or of the answer that
    /// the item is a part of.
    pub state: Option<ProviderState>,
    /// Of a call: fields that the provider sent with it and wants back with it.
    pub call_fields: Option<ProviderFields>,
    /// Whether another answer of the model begins with it. Calls whose outputs stand in their items do not tell
    /// of themselves which of them were made in one answer.
    pub begins_turn: bool,
}

impl From<Item> for HistoryItem {
    fn from(item: Item) -> Self {
        Self { item: Arc::new(item), state: None, call_fields: None, begins_turn: false }
    }
}

/// Fields of a message or of a call, by name, as the provider sent them.
pub type ProviderFields = Map<String, Value>;

/// What a provider wants back with its answer, word for word. Sealed before it leaves the gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProviderState {
    /// The raw reasoning, also where clients see only a summary or nothing of it.
    #[serde(default)]
    pub text: String,
    /// Fields of the assistant message, such as `reasoning_details`.
    #[serde(default)]
    pub fields: ProviderFields,
    /// Fields of calls, such as `extra_content`, by the id under which the call goes back to the provider.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, ProviderFields>,
    /// Where it stands in the answer that it belongs to.
    #[serde(default, skip_serializing_if = "StatePosition::is_default")]
    pub place: StatePosition,
}

/// Where provider state stands in its answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatePosition {
    /// Before what it belongs to. Behind calls that have their results, another answer begins with it.
    #[default]
    Leads,
    /// Amid the answer.
    Within,
    /// Behind the answer: it came when what it belongs to had been written.
    Trails,
}

impl StatePosition {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl ProviderState {
    /// Whether there is nothing to give back.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.fields.is_empty() && self.calls.is_empty()
    }

    /// Adds what came later: lists grow, other fields are replaced.
    pub fn merge_fields(&mut self, more: ProviderFields) {
        for (name, value) in more {
            match (self.fields.get_mut(&name), value) {
                (Some(Value::Array(list)), Value::Array(mut more)) => list.append(&mut more),
                (_, value) => {
                    self.fields.insert(name, value);
                }
            }
        }
    }

    /// Adds what another stretch of the same answer had.
    pub fn merge(&mut self, more: Self) {
        if !self.text.is_empty() && !more.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(&more.text);
        self.merge_fields(more.fields);
        self.calls.extend(more.calls);
    }
}

/// A tool that the model may call, under the name that the provider sees.
#[derive(Debug, Clone)]
pub struct ModelTool {
    /// What is sent upstream: unique in the request, at most 64 characters.
    pub wire_name: ToolName,
    /// The client's name for it.
    pub name: ToolName,
    /// The client's namespace for it.
    pub namespace: Option<String>,
    /// Shown to the model.
    pub description: Option<String>,
    /// What it takes.
    pub input: ToolInput,
    /// Whose it is to run, and so which item a call of it becomes.
    pub kind: CallKind,
}

/// What a tool takes.
#[derive(Debug, Clone)]
pub enum ToolInput {
    /// A JSON object by this schema (`None`: an empty object).
    Json {
        /// JSON Schema, byte for byte as the client sent it.
        schema: Option<Box<RawValue>>,
        /// Whether the provider must hold the model to it.
        strict: Option<bool>,
    },
    /// Free text. Providers without such tools get a function with one string argument, `input`.
    Text {
        /// What the text looks like, in words or as a grammar; part of the description upstream.
        grammar: Option<String>,
    },
}

/// Which item a call becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// `function_call`
    Function,
    /// `custom_tool_call`
    Custom,
    /// The gateway runs it.
    Server(Presentation),
}

/// What a call that the gateway runs looks like to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presentation {
    /// `mcp_call`: every SDK shows it and none tries to run it.
    Mcp,
    /// `antwort:tool_call`, in the dialect that knows no `mcp_call`.
    Extension,
    /// `web_search_call`
    WebSearch,
    /// `function_call`, without a result: seed 001.
    Hidden,
    /// `mcp_approval_request`: a person has to allow it first.
    Approval,
}

/// A call of a tool that the gateway runs, as the model asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallRequest {
    /// The tool's own name.
    pub name: String,
    /// Its server's label.
    pub namespace: Option<String>,
    /// The arguments as the model wrote them: a JSON object, if it did well.
    pub arguments: String,
}

/// Sampling parameters as the client gave them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SamplingParams {
    /// 0 to 2.
    pub temperature: Option<f64>,
    /// 0 to 1.
    pub top_p: Option<f64>,
    /// Penalty for tokens that occurred.
    pub presence_penalty: Option<f64>,
    /// Penalty for tokens by how often they occurred.
    pub frequency_penalty: Option<f64>,
    /// Whether log probabilities are wanted, and how many alternatives a token (0 to 20).
    pub logprobs: Option<u8>,
}

/// Request fields that concern the provider's own bookkeeping.
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

/// A piece of a model's answer, in the order in which it came.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// Visible text; never empty.
    Text {
        /// The piece.
        delta: String,
        /// Of the tokens in it.
        logprobs: Vec<LogProb>,
    },
    /// The model declines.
    Refusal(String),
    /// Raw reasoning; never empty.
    Reasoning(String),
    /// Reasoning that the provider calls a summary.
    ReasoningSummary(String),
    /// More of what the provider wants back with this answer's message.
    ReasoningState(ProviderFields),
    /// What the provider wants back with a call, where it comes after the call has begun; the last one counts.
    CallState {
        /// Which call.
        slot: u32,
        /// The fields.
        fields: Box<ProviderFields>,
    },
    /// A source of the text so far.
    Annotation(Annotation),
    /// A call begins; its name is known.
    CallStarted {
        /// Number of the call in this turn, by which its arguments find it: 0, 1, 2 …
        slot: u32,
        /// What kind of tool is called.
        kind: CallKind,
        /// The provider's id for the call, if it gave one in time.
        call_id: Option<String>,
        /// The client's name of the tool.
        name: String,
        /// The client's namespace of the tool.
        namespace: Option<String>,
        /// What the provider wants back with the call, if it came with its beginning.
        fields: Option<Box<ProviderFields>>,
    },
    /// More of a call's arguments (or of a custom tool's input, decoded).
    CallDelta {
        /// Which call.
        slot: u32,
        /// The piece.
        delta: String,
    },
    /// Tokens spent; the last one counts.
    Usage(Usage),
    /// The tier that served the request.
    ServiceTier(String),
    /// The answer is whole, or was ended for this reason. Comes once; usage may follow.
    Finish(FinishReason),
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// It was done, with or without calls.
    Stop,
    /// The token limit.
    Length,
    /// The provider's filter.
    ContentFilter,
}
