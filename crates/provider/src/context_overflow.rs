//! Which errors mean that a prompt is longer than the context window: servers have no common code for it.
//!
//! The table has a row for each of their ways to say so; its test has the whole body of each server's error. Rate limits and
//! refused values of `max_tokens` use similar words, and never count.

use std::sync::LazyLock;

use regex::{RegexSet, RegexSetBuilder};

/// An error as it was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ErrorWords<'a> {
    pub status: Option<u16>,
    /// `error.type`.
    pub kind: &'a str,
    /// `error.code`.
    pub code: &'a str,
    pub message: &'a str,
}

/// One way to say it. What a row does not name may be anything.
#[derive(Debug, Default)]
struct Row {
    /// Who says so.
    servers: &'static str,
    status: Option<u16>,
    kind: Option<&'static str>,
    code: Option<&'static str>,
    /// A regular expression for the message, case ignored.
    pattern: &'static str,
}

const fn coded(servers: &'static str, code: &'static str) -> Row {
    Row { servers, status: None, kind: None, code: Some(code), pattern: "" }
}

const fn typed(servers: &'static str, kind: &'static str) -> Row {
    Row { servers, status: None, kind: Some(kind), code: None, pattern: "" }
}

const fn said(servers: &'static str, pattern: &'static str) -> Row {
    Row { servers, status: None, kind: None, code: None, pattern }
}

const ROWS: &[Row] = &[
    coded("OpenAI, Azure, Groq, Cerebras", "context_length_exceeded"),
    coded("GitHub Copilot", "model_max_prompt_tokens_exceeded"),
    coded("GitHub Models", "tokens_limit_reached"),
    coded("Zhipu", "1261"),
    typed("llama.cpp", "exceed_context_size_error"),
    said("OpenAI, Azure, vLLM, DeepSeek, OpenRouter, NVIDIA NIM", r"maximum context length"),
    said("OpenAI", r"exceeds? the context window"),
    said("any", r"context[ _]length[ _]exceeded"),
    said("vLLM, with the answer", r"context length is only [\d,]+ tokens"),
    said("vLLM, with pictures", r"too long to fit into the model"),
    said("vLLM, before the first version", r"longer than the maximum model length"),
    said("SGLang", r"longer than the model's context length"),
    said("SGLang, Poolside", r"exceeds the maximum allowed (input )?length"),
    said("llama.cpp, LocalAI", r"exceeds? the available context size"),
    Row {
        servers: "llama.cpp, LM Studio (MLX)",
        status: Some(500),
        kind: Some("server_error"),
        code: None,
        pattern: r"^context size has been exceeded",
    },
    said("LM Studio (MLX), in a stream", r"^context size has been exceeded\.?$"),
    said("llama-cpp-python", r"exceed context window of \d+"),
    said("Ollama", r"exceed(s|ed) (the |max |maximum )+context length"),
    // Word for word.
    said("LM Studio", r"context the overflows"),
    said("LM Studio", r"n_keep.{0,20}>= ?n_ctx"),
    said("LM Studio", r"tokens to keep from the initial prompt is greater than the context length"),
    said("LM Studio", r"mid-generation context overflow"),
    said("TGI, Together, DeepInfra", r"`?inputs`? tokens \+ `?max_new_tokens`? must be <="),
    said("TGI, Together", r"`inputs` must have less than \d+ tokens"),
    said("TensorRT-LLM, Triton", r"prompt length \([\d.]+\).* exceeds? maximum (input|sequence) length"),
    said("TensorRT-LLM, Triton", r"prompt length \([\d.]+\).* should not exceed max_(num_tokens|seq_len)"),
    said("TabbyAPI", r"prompt length \d+ is greater than max_seq_len"),
    said("TabbyAPI", r"job requires \d+ pages .*cannot be enqueued"),
    said("Anthropic, Bedrock, Fireworks", r"prompt is too long"),
    said("Anthropic", r"input length and `?max_tokens`? exceed context limit"),
    said("Gemini, Vertex AI", r"input token count.* exceeds the maximum number of tokens"),
    said("Vertex AI", r"input token count is [\d,]+ but .*model only supports"),
    said("Mistral", r"too large for model with \d+ maximum context"),
    said("xAI", r"maximum prompt length is \d+"),
    said("Groq, Cerebras", r"reduce the length of the messages"),
    said("Cohere", r"too many tokens: (size limit exceeded|total number of tokens in the prompt)"),
    said("Bedrock", r"input is too long for requested model"),
    said("Bedrock", r"max input tokens: \d+, request input token count"),
    said("Moonshot", r"exceeded model token limit"),
    said("Moonshot", r"model max length exceeded"),
    said("Zhipu", r"prompt exceeds max(imum)? length"),
    said("Alibaba Qwen", r"range of input length should be"),
    said("MiniMax", r"context window exceeds limit"),
    said("LiteLLM", r"ContextWindowExceededError"),
    said("MLX servers", r"prompt too long: [\d,]+ tokens"),
    said("Replicate", r"your input is too long"),
    said("DeepInfra", r"input length \(?[\d,]+\)?( tokens)? exceeds (the |model's )*maximum"),
    said("Perplexity", r"length of all messages is too long"),
    said("watsonx", r"number of input tokens [\d,]+ cannot exceed the total tokens limit"),
    said("GitHub Copilot", r"prompt token count of [\d,]+ exceeds the limit"),
    said("GitHub Models", r"request body too large for .* model\. max size: [\d,]+ tokens"),
    said("Cloudflare", r"exceeded this model context window limit"),
];

/// Messages about rates and about the length of the answer.
const OTHERS: &[&str] = &[
    r"tokens? per (second|min|minute|hour|day|month)",
    r"\b(TPM|TPD|RPM)\b",
    r"rate.?limit",
    r"too many requests",
    r"throttl",
    r"quota",
    r"please wait",
    // vLLM names the window there, too.
    r"max_(completion_|new_|output_)?tokens['`]?( or ['`]?max_completion_tokens['`]?)? is too large",
    // Not behind a `+`: a sum with the prompt is one about the window.
    r"^[^+]{0,20}max_(completion_|new_|output_)?tokens['`]? must be",
    r"invalid max_(completion_|new_|output_)?tokens",
];

static TABLE: LazyLock<Option<RegexSet>> = LazyLock::new(|| compile(ROWS.iter().map(|row| row.pattern)));
static GUARD: LazyLock<Option<RegexSet>> = LazyLock::new(|| compile(OTHERS.iter().copied()));

/// `None` is excluded by a test.
fn compile(patterns: impl Iterator<Item = &'static str>) -> Option<RegexSet> {
    RegexSetBuilder::new(patterns).case_insensitive(true).build().ok()
}

/// Whether an error of this status may be about the length of the prompt, if it has these words.
fn may_be_overflow(status: Option<u16>, message: &str) -> bool {
    !matches!(status, Some(401..=404 | 429)) && !GUARD.as_ref().is_some_and(|guard| guard.is_match(message))
}

/// Whether an error means that the prompt is too long.
pub(super) fn is_overflow(words: ErrorWords<'_>) -> bool {
    if !may_be_overflow(words.status, words.message) {
        return false;
    }
    let Some(table) = TABLE.as_ref() else { return false };
    let places = table.matches(words.message);
    let row = places.into_iter().filter_map(|place| ROWS.get(place)).find(|row| row.fits(words));
    if let Some(row) = row {
        tracing::debug!(servers = row.servers, "the provider's error means that the prompt is too long");
    }
    row.is_some()
}

impl Row {
    /// Whether all fields but the message are as the row says.
    fn fits(&self, words: ErrorWords<'_>) -> bool {
        // In a stream there is no status.
        self.status.is_none_or(|status| words.status.is_none_or(|told| told == status))
            && self.kind.is_none_or(|kind| kind == words.kind)
            && self.code.is_none_or(|code| code == words.code)
    }
}

#[cfg(test)]
mod tests;
