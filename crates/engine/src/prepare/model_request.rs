//! The request to the provider.

use std::sync::Arc;

use crate::context::EngineParts;
use crate::tools::offered::OfferedTools;
use antwort_protocol::request::CreateResponse;
use antwort_response::turn::{HistoryItem, ModelRequest, ProviderHints, SamplingParams};

pub(super) fn logprobs(request: &CreateResponse) -> Option<u8> {
    let asked = request.include.output_text_logprobs || request.top_logprobs.is_some_and(|n| n > 0);
    asked.then(|| request.top_logprobs.unwrap_or(0))
}

/// Moves out of the request the fields that go into the model request.
fn request_fields(request: &mut CreateResponse) -> CreateResponse {
    let kept = CreateResponse {
        truncation: request.truncation,
        store: request.store,
        background: request.background,
        ..CreateResponse::default()
    };
    std::mem::replace(request, kept)
}

pub(super) fn model_request(
    parts: &EngineParts,
    request: &mut CreateResponse,
    model: String,
    conversation: Vec<HistoryItem>,
    offer: &OfferedTools,
    instructions: Option<String>,
) -> Arc<ModelRequest> {
    let request = request_fields(request);
    let logprobs = logprobs(&request);
    Arc::new(ModelRequest {
        model,
        instructions: request.instructions.or(instructions),
        conversation,
        tools: Arc::clone(&offer.tools),
        tool_choice: offer.choice.first_turn_choice(offer.tools.len()),
        result_format: parts.options.tools.result_format,
        parallel_tool_calls: request.parallel_tool_calls,
        max_output_tokens: request.max_output_tokens,
        format: request.text.format.unwrap_or_default(),
        verbosity: request.text.verbosity,
        reasoning: request.reasoning,
        sampling: SamplingParams {
            temperature: request.temperature,
            top_p: request.top_p,
            presence_penalty: request.presence_penalty,
            frequency_penalty: request.frequency_penalty,
            logprobs,
        },
        hints: ProviderHints {
            user: request.user,
            safety_identifier: request.safety_identifier,
            prompt_cache_key: request.prompt_cache_key,
            prompt_cache_retention: request.prompt_cache_retention.map(|kept| kept.as_str().to_owned()),
            service_tier: request.service_tier,
            metadata: request.metadata,
        },
        extra: request.extra,
        stream: request.stream,
    })
}
