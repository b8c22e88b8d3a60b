//! Presets: the defaults that each kind of model server changes, and why.

use serde::{Deserialize, Serialize};

use super::variants::{
    DeveloperRole, ForwardedField, MaxTokensField, ProviderFeatures, ReasoningField, Roles, SystemPlacement,
    TokenizerApi,
};

/// A kind of model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Preset {
    /// Any OpenAI-compatible server.
    #[default]
    Generic,
    #[serde(rename = "openai")]
    OpenAi,
    Vllm,
    Ollama,
    LlamaCpp,
    #[serde(rename = "openrouter")]
    OpenRouter,
    #[serde(rename = "litellm")]
    LiteLlm,
}

impl Preset {
    pub(super) fn roles(self) -> Roles {
        match self {
            Self::OpenAi | Self::OpenRouter => {
                Roles { developer: DeveloperRole::Developer, system: SystemPlacement::Keep }
            }
            // These apply the model's chat template, and most templates raise an error on a second system message.
            Self::Generic | Self::Vllm | Self::Ollama | Self::LlamaCpp | Self::LiteLlm => {
                Roles { developer: DeveloperRole::System, system: SystemPlacement::Merge }
            }
        }
    }

    pub(super) fn max_tokens_field(self) -> MaxTokensField {
        match self {
            // OpenAI's reasoning models refuse `max_tokens`; vLLM calls it deprecated.
            Self::OpenAi | Self::Vllm => MaxTokensField::MaxCompletionTokens,
            Self::Generic | Self::Ollama | Self::LlamaCpp | Self::OpenRouter | Self::LiteLlm => {
                MaxTokensField::MaxTokens
            }
        }
    }

    pub(super) fn reasoning_field(self) -> ReasoningField {
        match self {
            // Reasoning is only sent back to a server that sent it, and most servers use this field.
            Self::Generic | Self::LlamaCpp | Self::LiteLlm => ReasoningField::ReasoningContent,
            Self::Vllm | Self::Ollama | Self::OpenRouter => ReasoningField::Reasoning,
            // OpenAI refuses unknown message fields.
            Self::OpenAi => ReasoningField::None,
        }
    }

    pub(super) fn supports(self) -> ProviderFeatures {
        let local = matches!(self, Self::Ollama | Self::LlamaCpp);
        ProviderFeatures {
            stream_options: true,
            // A server of unknown kind refuses the field itself if it does not support it.
            strict: !local,
            parallel_tool_calls: self != Self::Ollama,
            response_format: true,
            custom_tools: false,
            // llama.cpp accepts only a string, no object.
            named_tool_choice: self != Self::LlamaCpp,
            // Other servers refuse the type, or treat it as `auto`.
            allowed_tools: self == Self::OpenAi,
            images: true,
            audio: self != Self::Ollama,
            files: !local && self != Self::Vllm,
            video: matches!(self, Self::Vllm | Self::Generic),
        }
    }

    /// Only servers that run the model have its tokenizer.
    pub(super) fn tokenizer_api(self) -> Option<TokenizerApi> {
        match self {
            Self::Vllm => Some(TokenizerApi::Vllm),
            Self::LlamaCpp => Some(TokenizerApi::LlamaCpp),
            // Ollama has no route for it.
            Self::Generic | Self::OpenAi | Self::Ollama | Self::OpenRouter | Self::LiteLlm => None,
        }
    }

    pub(super) fn forward(self) -> &'static [ForwardedField] {
        match self {
            // Not `metadata`: OpenAI accepts it only with `store: true`, and responses are stored here.
            Self::OpenAi => &[
                ForwardedField::User,
                ForwardedField::SafetyIdentifier,
                ForwardedField::PromptCacheKey,
                ForwardedField::PromptCacheRetention,
                ForwardedField::ServiceTier,
            ],
            Self::Generic | Self::OpenRouter | Self::LiteLlm | Self::Vllm => &[ForwardedField::User],
            Self::Ollama | Self::LlamaCpp => &[],
        }
    }

    /// Only fields that the server honours: a request with a field that it would silently drop is refused instead.
    pub(super) fn passthrough(self) -> &'static [&'static str] {
        match self {
            Self::Generic | Self::LiteLlm => &[
                "top_k",
                "min_p",
                "seed",
                "stop",
                "repetition_penalty",
                "logit_bias",
                "chat_template_kwargs",
            ],
            Self::OpenAi => &["seed", "stop", "logit_bias"],
            Self::Vllm => &[
                "top_k",
                "min_p",
                "seed",
                "stop",
                "stop_token_ids",
                "min_tokens",
                "ignore_eos",
                "repetition_penalty",
                "logit_bias",
                "chat_template_kwargs",
                "cache_salt",
                "priority",
            ],
            Self::Ollama => &["seed", "stop"],
            Self::LlamaCpp => &[
                "top_k",
                "min_p",
                "typical_p",
                "seed",
                "stop",
                "repeat_penalty",
                "repeat_last_n",
                "logit_bias",
                "chat_template_kwargs",
                "cache_prompt",
            ],
            Self::OpenRouter => {
                &["top_k", "min_p", "top_a", "seed", "stop", "repetition_penalty", "logit_bias", "provider"]
            }
        }
    }
}
