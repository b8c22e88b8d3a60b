//! Token counts as servers report them.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::LenientNumber;
use antwort_protocol::response::{InputTokensDetails, OutputTokensDetails, Usage};

/// Parses usage; `None` if all counts are 0, as in chunks of servers that report usage later.
pub(super) fn read_usage(raw: &RawValue) -> Option<Usage> {
    let object = Some(raw.get()).filter(|text| text.starts_with('{'))?;
    let tokens: UsageCounts = serde_json::from_str(object).ok()?;
    let prompt = tokens.prompt_tokens_details.unwrap_or_default();
    let completion = tokens.completion_tokens_details.unwrap_or_default();
    let cached = [prompt.cached_tokens, tokens.cached_tokens, tokens.prompt_cache_hit_tokens];
    let cached = cached.into_iter().map(LenientNumber::count).max().unwrap_or(0);
    let (input_tokens, output_tokens) = (tokens.prompt_tokens.count(), tokens.completion_tokens.count());
    let total = match tokens.total_tokens {
        LenientNumber(None) => input_tokens.saturating_add(output_tokens),
        total => total.count(),
    };
    let usage = Usage {
        input_tokens,
        input_tokens_details: InputTokensDetails {
            cached_tokens: cached,
            cache_write_tokens: prompt.cache_write_tokens.count(),
        },
        output_tokens,
        output_tokens_details: OutputTokensDetails { reasoning_tokens: completion.reasoning_tokens.count() },
        total_tokens: total,
    };
    Some(usage).filter(|usage| *usage != Usage::default())
}

/// Token counts, under all names that servers use.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct UsageCounts {
    prompt_tokens: LenientNumber,
    completion_tokens: LenientNumber,
    total_tokens: LenientNumber,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// Moonshot has the cached tokens beside the others.
    cached_tokens: LenientNumber,
    /// DeepSeek's name for cached tokens.
    prompt_cache_hit_tokens: LenientNumber,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: LenientNumber,
    cache_write_tokens: LenientNumber,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: LenientNumber,
}
