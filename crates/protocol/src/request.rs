//! The body of `POST /v1/responses`, parsed and checked, with defaults applied.
//!
//! The object is split into its fields first; a table says how each is parsed, so that an error names its field
//! and unused parts are not parsed. Null means the default everywhere. Parts of the API that this gateway does not
//! support are refused here; checks that depend on the provider, the store or the server-side tools are made by the
//! engine.

mod body;
mod compaction;
mod context_management;
mod conversation;
mod extra;
mod field_table;
mod fields;
mod frame;
mod include;
mod input;
mod known_fields;
mod limits;
mod metadata;
mod options;
mod reading;
mod response_input;
mod run_options;
mod scalar;
mod sent;
mod session_tools;
#[cfg(test)]
mod tests;
mod text;
mod unserved;

use serde_json::value::RawValue;

use super::dialect::Dialect;
use super::elicitation::ElicitationModes;
use super::error::ApiError;
use super::item::InputItem;
use super::parse::ParseError;
use super::tool::Tool;
use super::tool_choice::ToolChoice;

pub use compaction::COMPACTION_FIELDS;
pub use context_management::ContextManagement;
pub use conversation::{AddItems, CreateConversation, UpdateConversation};
pub use field_table::{DefaultValue, REQUEST_OBJECTS, RefusedField, RequestObject};
pub use fields::{FIELDS, NO_OPS};
pub use frame::{ClientMessage, CreateMessage, MessageContent};
pub use include::Include;
pub use limits::RequestSizeLimits;
pub use metadata::Metadata;
pub use options::Truncation;
pub use options::{
    PromptCacheRetention, ReasoningEffort, ReasoningRequest, ServiceTier, StreamOptions, SummaryMode,
};
pub use response_input::{A2aInput, CallbackResult, InputResult, ResponseInput};
pub use run_options::{ClientActionStatus, OnDisconnect, OnMismatch, ToolVisibility};
pub use run_options::{
    ClientToolMode, PromptRef, RequestedLimits, RunOptions, StructuredOptions, ToolCacheMode,
};
pub use sent::{Continuation, SentFields};
pub use session_tools::SessionTool;
pub use text::{JsonSchemaFormat, TextConfig, TextFormat, Verbosity};
pub use unserved::{UnservedField, judge_unserved};

/// A request for a response. `None` means that the client did not set the field.
#[derive(Debug, Clone)]
pub struct CreateResponse {
    /// The model; [`Self::model`] requires one if no default applies.
    pub model: Option<String>,
    /// The new items of this turn; empty only if a previous response or a conversation is continued.
    pub input: Vec<InputItem>,
    /// Bytes of `input` as sent.
    pub input_bytes: usize,
    /// Bytes of all fields as sent.
    pub bytes: usize,
    /// The instructions of this response only; never inherited.
    pub instructions: Option<String>,
    /// The id of the response that this one continues.
    pub previous_response_id: Option<String>,
    /// The id of the conversation that it is made in.
    pub conversation: Option<String>,
    /// Whether the response can be retrieved and continued later.
    pub store: bool,
    /// Whether events are streamed.
    pub stream: bool,
    /// Whether the run goes on apart from its client, in whichever process.
    pub background: bool,
    /// Options of the stream.
    pub stream_options: StreamOptions,
    /// 0 to 2.
    pub temperature: Option<f64>,
    /// 0 to 1.
    pub top_p: Option<f64>,
    /// -2 to 2.
    pub presence_penalty: Option<f64>,
    /// -2 to 2.
    pub frequency_penalty: Option<f64>,
    /// 0 to 20.
    pub top_logprobs: Option<u8>,
    /// At least 1; OpenAI's minimum is 16, but scripts written for self-hosted models send less.
    pub max_output_tokens: Option<u64>,
    /// At least 1; counts server-side calls.
    pub max_tool_calls: Option<u64>,
    /// Whether the model may call several tools at once.
    pub parallel_tool_calls: bool,
    /// The tools that the model sees; names are unique.
    pub tools: Vec<Tool>,
    /// Which tools the model may or must call.
    pub tool_choice: ToolChoice,
    /// Names of the tools that may be called, of any kind; all if empty. An extension.
    pub allowed_tools: Vec<String>,
    /// The format and the length of the answer.
    pub text: TextConfig,
    /// How much the model reasons, and what is shown of it.
    pub reasoning: ReasoningRequest,
    /// Optional parts of the response.
    pub include: Include,
    /// What happens if the conversation does not fit the context window.
    pub truncation: Truncation,
    /// Whether a conversation that grows is compacted.
    pub context_management: Option<ContextManagement>,
    /// Key-value pairs of the client.
    pub metadata: Metadata,
    /// The service tier that is requested.
    pub service_tier: Option<ServiceTier>,
    /// The client's name of its user.
    pub user: Option<String>,
    /// The client's user, for abuse detection; at most 64 characters.
    pub safety_identifier: Option<String>,
    /// The key of the provider's prompt cache; at most 64 characters.
    pub prompt_cache_key: Option<String>,
    /// How long the provider's cache should keep the prompt.
    pub prompt_cache_retention: Option<PromptCacheRetention>,
    /// The name of an agent profile; an extension. OpenAI's name for the same is `prompt`.
    pub agent: Option<String>,
    /// An agent profile with variables.
    pub prompt: Option<PromptRef>,
    /// Options of the run; an extension.
    pub antwort: Option<RunOptions>,
    /// Fields that the API does not have, in the order they came; see [`Self::check_unknown_fields`].
    pub extra: Vec<(String, Box<RawValue>)>,
    /// Fields inside tools and options that have no effect, in the order they came.
    pub unserved_fields: Vec<UnservedField>,
    /// The fields as they were sent, for what is asked on behalf of the same caller later.
    pub sent: Option<SentFields>,
}

impl Default for CreateResponse {
    fn default() -> Self {
        Self {
            model: None,
            input: Vec::new(),
            input_bytes: 0,
            bytes: 0,
            instructions: None,
            previous_response_id: None,
            conversation: None,
            store: true,
            stream: false,
            background: false,
            stream_options: StreamOptions::default(),
            temperature: None,
            top_p: None,
            presence_penalty: None,
            frequency_penalty: None,
            top_logprobs: None,
            max_output_tokens: None,
            max_tool_calls: None,
            parallel_tool_calls: true,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            allowed_tools: Vec::new(),
            text: TextConfig::default(),
            reasoning: ReasoningRequest::default(),
            include: Include::default(),
            truncation: Truncation::Disabled,
            context_management: None,
            metadata: Metadata::default(),
            service_tier: None,
            user: None,
            safety_identifier: None,
            prompt_cache_key: None,
            prompt_cache_retention: None,
            agent: None,
            prompt: None,
            antwort: None,
            extra: Vec::new(),
            unserved_fields: Vec::new(),
            sent: None,
        }
    }
}

impl CreateResponse {
    /// The questions of tools to the user that the client shows.
    pub fn shown_questions(&self) -> ElicitationModes {
        self.antwort.as_ref().map(|options| ElicitationModes::of(&options.elicitation)).unwrap_or_default()
    }

    /// Refuses values that the responses of a dialect, which echo the request, cannot express.
    pub fn check_dialect(&self, dialect: Dialect) -> Result<(), ApiError> {
        match self.reasoning.effort {
            Some(ReasoningEffort::Minimal | ReasoningEffort::Max) if dialect == Dialect::OpenResponses => {
                let problem = "expected one of `none`, `low`, `medium`, `high`, `xhigh`: the Open Responses \
                    specification has no other.";
                Err(ParseError::invalid("effort", problem).into_api_error("reasoning"))
            }
            _ => Ok(()),
        }
    }

    /// The requested model, where no default applies.
    pub fn model(&self) -> Result<&str, ApiError> {
        self.model.as_deref().ok_or_else(|| ParseError::missing("model").into_api_error(""))
    }
}
