//! The body of `POST /v1/responses`: what a client asks for, checked, with defaults applied.
//!
//! The object is split into fields without looking into them; a table says how each is read, so an
//! error names its field and nothing is parsed that nobody uses. Null means the default everywhere.
//! What the API has and this gateway does not serve is refused here; what depends on the provider,
//! the store or the server's own tools is left to the engine.

mod body;
mod compaction;
mod extra;
mod fields;
mod include;
mod input;
mod limits;
mod metadata;
mod options;
mod run_options;
mod scalar;
#[cfg(test)]
mod tests;
mod text;

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::cancellation;
use super::error::ApiError;
use super::item::InputItem;
use super::json::RawJson;
use super::parse::{self, FromJson, ParseError, truncate_for_display};
use super::tool::Tool;
use super::tool_choice::ToolChoice;

pub use compaction::COMPACTION_FIELDS;
pub use fields::{FIELDS, NO_OPS};
pub(crate) use include::Include;
pub use limits::RequestSizeLimits;
pub(crate) use metadata::Metadata;
pub(crate) use options::{
    PromptCacheRetention, ReasoningEffort, ReasoningRequest, ServiceTier, StreamOptions, SummaryMode,
    Truncation,
};
pub use run_options::{ClientActionStatus, OnMismatch, ToolVisibility};
pub(crate) use run_options::{PromptRef, RequestedLimits, RunOptions, StructuredOptions, ToolCacheMode};
pub(crate) use text::{JsonSchemaFormat, TextConfig, TextFormat, Verbosity};

/// A request for a response. `None` means that the client did not say.
#[derive(Debug, Clone)]
pub struct CreateResponse {
    /// The model; [`Self::model`] demands one where there is no default.
    pub model: Option<String>,
    /// What is new in this turn; empty only if a previous response is continued.
    pub input: Vec<InputItem>,
    /// Bytes of it as it was sent.
    pub input_bytes: usize,
    /// Bytes of all fields as they were sent.
    pub bytes: usize,
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
    pub prompt_cache_retention: Option<PromptCacheRetention>,
    /// The agent profile that is asked for; an extension. OpenAI's name for the same is `prompt`.
    pub agent: Option<String>,
    /// The agent profile that is asked for, with variables.
    pub prompt: Option<PromptRef>,
    /// How the run is limited; an extension.
    pub antwort: Option<RunOptions>,
    /// Fields that the API does not have, in the order they came; see [`Self::check_unknown_fields`].
    pub extra: Vec<(String, Box<RawValue>)>,
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
            agent: None,
            prompt: None,
            antwort: None,
            extra: Vec::new(),
        }
    }
}

impl CreateResponse {
    /// Reads a request body.
    ///
    /// Unknown fields are kept in [`Self::extra`] until the provider is known that may want them.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        Self::parse_with_limits(body, RequestSizeLimits::default())
    }

    /// As [`Self::parse`], of a request that may hold so much.
    pub fn parse_with_limits(body: &[u8], limits: RequestSizeLimits) -> Result<Self, ApiError> {
        Self::read(&body::split_fields(body)?, limits)
    }

    fn read(pairs: &body::RawFields<'_>, limits: RequestSizeLimits) -> Result<Self, ApiError> {
        // All of it before any of it is read: work is in proportion to what is counted.
        limits::RequestSizeCounter::new(limits).check(pairs)?;
        let given = |name: &str| pairs.iter().any(|(key, raw)| key == name && !parse::is_null(raw));
        check_exclusive(given)?;
        let mut request = Self::default();
        let mut seen = HashSet::with_capacity(pairs.len());
        for (name, raw) in pairs {
            // Two values for one field mean that two readers of the body may disagree about it.
            if !seen.insert(name.as_ref()) {
                let problem = ParseError::invalid("", "the field is given twice.");
                return Err(problem.into_api_error(&truncate_for_display(name)));
            }
            request.bytes += raw.get().len();
            request
                .read_field(name, raw)
                .map_err(|error| error.into_api_error(&truncate_for_display(name)))?;
        }
        request.check_field_combinations(given)?;
        Ok(request)
    }

    fn read_field(&mut self, name: &str, raw: &RawValue) -> Result<(), ParseError> {
        // Null means "not given", also for fields that nobody here knows.
        if parse::is_null(raw) {
            return Ok(());
        }
        cancellation::check()?;
        match fields::READERS.binary_search_by_key(&name, |(field, _)| field) {
            Ok(found) => match fields::READERS.get(found) {
                Some((_, read)) => read(self, raw),
                None => Ok(()),
            },
            Err(_) => {
                self.extra.push((name.to_owned(), RawJson::from_json(raw)?.into()));
                Ok(())
            }
        }
    }

    /// Rules that concern several fields.
    fn check_field_combinations(&self, given: impl Fn(&str) -> bool) -> Result<(), ApiError> {
        if self.input.is_empty() && self.previous_response_id.is_none() {
            return Err(ParseError::missing("input").into_api_error(""));
        }
        if given("stream_options") && !self.stream {
            let problem = "it is only allowed together with 'stream': true.";
            return Err(ParseError::invalid("", problem).into_api_error("stream_options"));
        }
        Ok(())
    }

    /// The model that was asked for, where there is no default.
    pub fn model(&self) -> Result<&str, ApiError> {
        self.model.as_deref().ok_or_else(|| ParseError::missing("model").into_api_error(""))
    }
}

/// Comes before anything is read, since one of the two is refused for another reason as long as it is not served.
fn check_exclusive(given: impl Fn(&str) -> bool) -> Result<(), ApiError> {
    if given("previous_response_id") && given("conversation") {
        let problem = "give either 'previous_response_id' or 'conversation'.";
        let error = ParseError::invalid("", problem).with_code("mutually_exclusive_parameters");
        return Err(error.into_api_error("previous_response_id"));
    }
    if given("prompt") && given("agent") {
        let problem = "give either 'prompt' or 'agent': both name an agent profile.";
        let error = ParseError::invalid("", problem).with_code("mutually_exclusive_parameters");
        return Err(error.into_api_error("agent"));
    }
    Ok(())
}
