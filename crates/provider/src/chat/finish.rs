//! Why a model has ended its answer.

use crate::errors::{ProviderError, ProviderErrorKind};
use antwort_response::turn::FinishReason;

/// Maps a `finish_reason`. `tool_calls` is treated as `stop`, which servers use interchangeably. An unknown reason may stand
/// for a failure, and is an error.
pub(super) fn read_finish(reason: &str) -> Result<FinishReason, ProviderError> {
    Ok(match reason.to_ascii_lowercase().as_str() {
        "stop" | "tool_calls" | "tool_call" | "tool_use" | "function_call" | "end_turn" | "eos"
        | "eos_token" | "stop_sequence" | "complete" | "completed" => FinishReason::Stop,
        "length"
        | "max_tokens"
        | "max_output_tokens"
        | "max_completion_tokens"
        | "model_length"
        | "model_context_window_exceeded" => FinishReason::Length,
        "content_filter" | "content-filter" | "safety" | "sensitive" | "refusal" | "recitation"
        | "blocklist" | "prohibited_content" => FinishReason::ContentFilter,
        _ => {
            let shown: String = reason.chars().filter(|c| !c.is_control()).take(40).collect();
            let message = format!("The model provider ended its answer with finish_reason '{shown}'.");
            return Err(ProviderError::new(ProviderErrorKind::Reported, message));
        }
    })
}
