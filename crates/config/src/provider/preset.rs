//! Presets: the defaults that each kind of model server changes, and why.

use serde::{Deserialize, Serialize};

use super::roles::Roles;
use super::variants::{
    DeveloperRole, ForwardedField, MaxTokensField, ProviderFeatures, ReasoningField, SystemPlacement,
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
    Mistral,
}

impl Preset {
    pub(super) fn roles(self) -> Roles {
        let (developer, system) = match self {
            Self::OpenAi | Self::OpenRouter => (DeveloperRole::Developer, SystemPlacement::Keep),
            // These apply the model's chat template, and most templates raise an error on a second system message.
            Self::Generic | Self::Vllm | Self::Ollama | Self::LlamaCpp | Self::LiteLlm | Self::Mistral => {
                (DeveloperRole::System, SystemPlacement::Merge)
            }
        };
        // Its API refuses a message of the user behind a tool's output, and the templates of its models want user and
        // assistant to alternate.
        let is_strict = self == Self::Mistral;
        Roles { developer, system, alternate: is_strict, assistant_after_tool: is_strict }
    }

    pub(super) fn max_tokens_field(self) -> MaxTokensField {
        match self {
            // OpenAI's reasoning models refuse `max_tokens`; vLLM calls it deprecated.
            Self::OpenAi | Self::Vllm => MaxTokensField::MaxCompletionTokens,
            Self::Generic
            | Self::Ollama
            | Self::LlamaCpp
            | Self::OpenRouter
            | Self::LiteLlm
            | Self::Mistral => MaxTokensField::MaxTokens,
        }
    }

    pub(super) fn reasoning_field(self) -> ReasoningField {
        match self {
            // Reasoning is only sent back to a server that sent it, and most servers use this field.
            Self::Generic | Self::LlamaCpp | Self::LiteLlm => ReasoningField::ReasoningContent,
            Self::Vllm | Self::Ollama | Self::OpenRouter => ReasoningField::Reasoning,
            // OpenAI and Mistral refuse unknown message fields.
            Self::OpenAi | Self::Mistral => ReasoningField::None,
        }
    }

    pub(super) fn supports(self) -> ProviderFeatures {
        let local = matches!(self, Self::Ollama | Self::LlamaCpp);
        ProviderFeatures {
            json: true,
            // Mistral refuses unknown fields, and sends the usage of every stream.
            stream_options: self != Self::Mistral,
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
            // Mistral has parts of its own for both.
            audio: !matches!(self, Self::Ollama | Self::Mistral),
            files: !local && !matches!(self, Self::Vllm | Self::Mistral),
            video: matches!(self, Self::Vllm | Self::Generic),
        }
    }

    /// Only servers that run the model have its tokenizer.
    pub(super) fn tokenizer_api(self) -> Option<TokenizerApi> {
        match self {
            Self::Vllm => Some(TokenizerApi::Vllm),
            Self::LlamaCpp => Some(TokenizerApi::LlamaCpp),
            // Ollama has no route for it.
            Self::Generic
            | Self::OpenAi
            | Self::Ollama
            | Self::OpenRouter
            | Self::LiteLlm
            | Self::Mistral => None,
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
            Self::Ollama | Self::LlamaCpp | Self::Mistral => &[],
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
            Self::Mistral => &["random_seed", "stop", "safe_prompt", "prompt_mode"],
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
