//! The body of `POST /v1/responses/compact`: a request for a response that is a compaction of its input.

use super::{CreateResponse, FIELDS, RequestSizeLimits, body};
use crate::error::ApiError;
use crate::item::{CompactionTrigger, InputItem, Item};

/// The fields that apply to a compaction, with the same meaning as for a response.
pub const COMPACTION_FIELDS: &[&str] = &[
    "client_metadata",
    "input",
    "instructions",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "service_tier",
    // An extension: the prompt begins with them, so that the provider's cache hits.
    "tools",
    // An extension: without it a conversation that does not fit the context window could never be compacted.
    "truncation",
];

/// Fields that some clients send along and that have no effect: a summary is made without calls and has no format.
const IGNORED_FIELDS: &[&str] = &["text", "tool_choice"];

impl CreateResponse {
    /// Parses the body of a compaction request. Its response is neither stored nor streamed.
    pub fn parse_compaction(body: &[u8], limits: RequestSizeLimits) -> Result<Box<Self>, ApiError> {
        let mut pairs = body::split_fields(body)?;
        pairs.retain(|(name, _)| !IGNORED_FIELDS.contains(&name.as_ref()));
        let is_of_responses_only = |name: &str| FIELDS.contains(&name) && !COMPACTION_FIELDS.contains(&name);
        if let Some((name, _)) = pairs.iter().find(|(name, _)| is_of_responses_only(name)) {
            let message = format!("'{name}' is not a parameter of compaction requests.");
            return Err(ApiError::unsupported(name.as_ref(), message));
        }
        let mut request = Self::read(&pairs, limits, true)?;
        request.store = false;
        if !matches!(request.input.last(), Some(InputItem::Item(Item::CompactionTrigger(_)))) {
            request.input.push(InputItem::Item(Item::CompactionTrigger(CompactionTrigger::default())));
        }
        Ok(request)
    }
}
