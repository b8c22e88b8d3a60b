//! The body of `POST /v1/responses`: what a client asks for, checked, with defaults applied.
//!
//! The object is split into fields without looking into them; a table says how each is read, so an
//! error names its field and nothing is parsed that nobody uses. Null means the default everywhere.
//! What the API has and this gateway does not serve is refused here; what depends on the provider,
//! the store or the server's own tools is left to the engine.

mod include;
mod metadata;
mod options;
mod text;

use serde_json::value::RawValue;

use super::error::ApiError;
use super::item::InputItem;
use super::tool::Tool;
use super::tool_choice::ToolChoice;

pub use include::Include;
pub use metadata::Metadata;
pub use options::{
    CacheRetention, Effort, ReasoningRequest, ServiceTier, StreamOptions, SummaryMode, Truncation,
};
pub use text::{JsonSchemaFormat, TextConfig, TextFormat, Verbosity};

/// A request for a response. `None` means that the client did not say.
#[derive(Debug, Clone)]
pub struct CreateResponse {
    /// The model; [`Self::model`] demands one where there is no default.
    pub model: Option<String>,
    /// What is new in this turn; empty only if a previous response is continued.
    pub input: Vec<InputItem>,
    /// For this response only; never inherited.
    pub instructions: Option<String>,
    /// The response that is continued.
    pub previous_response_id: Option<String>,
    /// Whether the response can be retrieved and continued later.
    pub store: bool,
    /// Whether events are streamed.
    pub stream: bool,
    /// How they are streamed.
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
    /// At least 1; of calls that the server runs.
    pub max_tool_calls: Option<u64>,
    /// Whether the model may call several tools at once.
    pub parallel_tool_calls: bool,
    /// The tools that the model sees; names are unique.
    pub tools: Vec<Tool>,
    /// Which of them it may or must call.
    pub tool_choice: ToolChoice,
    /// Names of the tools that it may call, of any kind; all when empty. An extension, design D6.
    pub allowed_tools: Vec<String>,
    /// What the answer looks like.
    pub text: TextConfig,
    /// How much the model thinks, and what is shown of it.
    pub reasoning: ReasoningRequest,
    /// What is sent beyond the usual.
    pub include: Include,
    /// What happens when the context does not fit.
    pub truncation: Truncation,
    /// The client's own notes.
    pub metadata: Metadata,
    /// Which service the client wants to pay for.
    pub service_tier: Option<ServiceTier>,
    /// The client's user, in its own terms.
    pub user: Option<String>,
    /// The client's user, for abuse detection; at most 64 characters.
    pub safety_identifier: Option<String>,
    /// What belongs together in the provider's cache; at most 64 characters.
    pub prompt_cache_key: Option<String>,
    /// How long the provider's cache should keep the prompt.
    pub prompt_cache_retention: Option<CacheRetention>,
    /// Fields that the API does not have, in the order they came; see [`Self::check_extra`].
    pub extra: Vec<(String, Box<RawValue>)>,
}

impl Default for CreateResponse {
    fn default() -> Self {
        Self {
            model: None,
            input: Vec::new(),
            instructions: None,
            previous_response_id: None,
            store: true,
            stream: false,
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
            metadata: Metadata::default(),
            service_tier: None,
            user: None,
            safety_identifier: None,
            prompt_cache_key: None,
            prompt_cache_retention: None,
            extra: Vec::new(),
        }
    }
}

impl CreateResponse {
    /// Reads a request body.
    pub fn parse(_body: &[u8]) -> Result<Self, ApiError> {
        Err(ApiError::internal())
    }

    /// Refuses fields that the API does not have, but for those that `allowed` lets through to the provider.
    pub fn check_extra(&self, _allowed: impl Fn(&str) -> bool) -> Result<(), ApiError> {
        Ok(())
    }

    /// The model that was asked for, where there is no default.
    pub fn model(&self) -> Result<&str, ApiError> {
        self.model.as_deref().ok_or_else(|| {
            ApiError::invalid("missing_required_parameter", "model", "Missing required parameter 'model'.")
        })
    }
}
