//! The first request to the provider.

use std::sync::Arc;

use crate::context::EngineParts;
use crate::prompt::Prompt;
use crate::redaction::Redaction;
use crate::tools::offered::OfferedTools;
use crate::truncate::{self, ContextBudget};
use antwort_protocol::request::CreateResponse;
use antwort_provider::routing::ModelRoute;
use antwort_response::turn::{HistoryItem, ModelRequest, ProviderHints, SamplingParams};

pub(super) fn logprobs(request: &CreateResponse) -> Option<u8> {
    let asked = request.include.output_text_logprobs || request.top_logprobs.is_some_and(|n| n > 0);
    asked.then(|| request.top_logprobs.unwrap_or(0))
}

/// How the model is asked for this conversation, with the instructions of the agent if the request has none.
pub(super) fn prompt(
    parts: &EngineParts,
    request: Box<CreateResponse>,
    route: ModelRoute,
    (conversation, instructions): (Vec<HistoryItem>, Option<String>),
    offer: &OfferedTools,
) -> Prompt {
    let window = route.provider.info().context_window.for_model(&route.model);
    let budget = window.map(|window| ContextBudget {
        window,
        answer: request.max_output_tokens.unwrap_or(0),
        fixed: truncate::fixed_tokens(request.instructions.as_deref(), &offer.tools),
    });
    Prompt {
        budget,
        truncation: request.truncation,
        redaction: instructions.as_deref().map(Redaction::new),
        request: Arc::new(model_request(parts, *request, route.model, (conversation, instructions), offer)),
        provider: route.provider,
        auto_compaction: None,
    }
}

fn model_request(
    parts: &EngineParts,
    request: CreateResponse,
    model: String,
    (conversation, instructions): (Vec<HistoryItem>, Option<String>),
    offer: &OfferedTools,
) -> ModelRequest {
    let logprobs = logprobs(&request);
    ModelRequest {
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
    }
}
