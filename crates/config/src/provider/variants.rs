//! How chat-completions servers differ: which fields and roles they know, and what they support.

use serde::{Deserialize, Serialize};

/// What the role `developer` becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeveloperRole {
    /// `system`.
    System,
    /// `developer`, unchanged.
    Developer,
    /// `user`, for models that support neither.
    User,
}

/// Where system messages, and messages that became one, are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemPlacement {
    /// Merged into one at the head: many chat templates refuse any other placement.
    Merge,
    /// At their positions.
    Keep,
}

/// The field that carries `max_output_tokens`. Only one of them is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// OpenAI's current name.
    MaxCompletionTokens,
    /// The legacy name, which most servers support.
    MaxTokens,
}

/// The field of an assistant message in which reasoning is sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningField {
    /// DeepSeek, llama.cpp, SGLang, LiteLLM.
    ReasoningContent,
    /// vLLM, Ollama, OpenRouter.
    Reasoning,
    /// Reasoning is not sent back.
    None,
}

/// Whether a provider leaves a model's reasoning in the text of its answers, up to `</think>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkTags {
    /// No: the text is passed on unchanged.
    #[default]
    None,
    /// An answer may begin with `<think>`.
    Tagged,
    /// The chat template opens the tag: an answer begins inside it.
    Opened,
}

/// Which HTTP client makes a provider's completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderClient {
    /// The lean one for HTTP/1.1, unless the provider is reached through a proxy.
    #[default]
    Auto,
    /// The one that also does HTTP/2, with a task for each connection.
    Pooled,
}

/// Whether a provider's tokenizer is asked to count prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenizerUse {
    /// If the preset has one.
    #[default]
    Auto,
    /// Prompts are estimated.
    None,
}

/// How a provider's tokenizer is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenizerApi {
    /// `POST /tokenize` with messages.
    Vllm,
    /// `POST /apply-template`, then `POST /tokenize` with its text.
    LlamaCpp,
}

/// Supported features of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProviderFeatures {
    /// Answers that are not streamed; otherwise every request asks for a stream.
    pub json: bool,
    /// `stream_options.include_usage`
    pub stream_options: bool,
    /// `strict` of functions and of JSON schemas.
    pub strict: bool,
    /// The field `parallel_tool_calls`.
    pub parallel_tool_calls: bool,
    /// `response_format`
    pub response_format: bool,
    /// Tools of type `custom`; otherwise each becomes a function with one string argument.
    pub custom_tools: bool,
    /// `tool_choice` that names a function; otherwise `required` is sent, and the gateway checks which function is
    /// called.
    pub named_tool_choice: bool,
    /// `tool_choice` of type `allowed_tools`; otherwise only the gateway enforces it.
    pub allowed_tools: bool,
    /// Content parts of type `image_url`.
    pub images: bool,
    /// Content parts of type `input_audio`.
    pub audio: bool,
    /// Content parts of type `file`.
    pub files: bool,
    /// Content parts of type `video_url`.
    pub video: bool,
}

/// A request field for the provider's own bookkeeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is the request field of the same name")]
pub enum ForwardedField {
    User,
    SafetyIdentifier,
    PromptCacheKey,
    PromptCacheRetention,
    ServiceTier,
    Metadata,
}
