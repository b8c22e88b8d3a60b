//! The body of `POST /v1/responses`, parsed and checked, with defaults applied.
//!
//! The object is split into its fields first; a table says how each is parsed, so that an error names its field
//! and unused parts are not parsed. Null means the default everywhere. Parts of the API that this gateway does not
//! support are refused here; checks that depend on the provider, the store or the server-side tools are made by the
//! engine.

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

/// A request for a response. `None` means that the client did not set the field.
#[derive(Debug, Clone)]
pub struct CreateResponse {
    /// The model; [`Self::model`] requires one if no default applies.
    pub model: Option<String>,
    /// The new items of this turn; empty only if a previous response is continued.
    pub input: Vec<InputItem>,
    /// Bytes of `input` as sent.
    pub input_bytes: usize,
    /// Bytes of all fields as sent.
    pub bytes: usize,
    /// The instructions of this response only; never inherited.
    pub instructions: Option<String>,
    /// The id of the response that this one continues.
    pub previous_response_id: Option<String>,
    /// Whether the response can be retrieved and continued later.
    pub store: bool,
    /// Whether events are streamed.
    pub stream: bool,
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
    /// Parses a request body.
    ///
    /// Unknown fields are kept in [`Self::extra`] until the provider is known, which may accept them.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        Self::parse_with_limits(body, RequestSizeLimits::default())
    }

    /// As [`Self::parse`], with these size limits.
    pub fn parse_with_limits(body: &[u8], limits: RequestSizeLimits) -> Result<Self, ApiError> {
        Self::read(&body::split_fields(body)?, limits)
    }

    fn read(pairs: &body::RawFields<'_>, limits: RequestSizeLimits) -> Result<Self, ApiError> {
        // All fields are counted before any is parsed: the cost of parsing is bounded by the counts.
        limits::RequestSizeCounter::new(limits).check(pairs)?;
        let given = |name: &str| pairs.iter().any(|(key, raw)| key == name && !parse::is_null(raw));
        check_exclusive(given)?;
        let mut request = Self::default();
        let mut seen = HashSet::with_capacity(pairs.len());
        for (name, raw) in pairs {
            // A duplicate field means that two parsers of the body may read different values.
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
        // Null means "not given", also for unknown fields.
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

    /// Checks rules that concern several fields.
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

    /// The requested model, where no default applies.
    pub fn model(&self) -> Result<&str, ApiError> {
        self.model.as_deref().ok_or_else(|| ParseError::missing("model").into_api_error(""))
    }
}

/// Checked before anything is parsed, since one of the two is refused for another reason while it is not supported.
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
