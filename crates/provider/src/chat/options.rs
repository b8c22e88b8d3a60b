//! Options of the translators: the settings of a provider that shape requests and answers.

use antwort_config::{
    ForwardedField, MaxTokensField, Preset, ProviderFeatures, ProviderSettings, ReasoningField, RoleSettings,
    ThinkTags,
};
use antwort_response::turn::ModelRequest;

/// How one provider differs from others.
#[derive(Debug, Clone)]
pub(crate) struct ChatOptions {
    /// How roles are mapped, and which orders of messages are accepted.
    pub roles: RoleSettings,
    pub max_tokens_field: MaxTokensField,
    /// The field in which reasoning is sent back.
    pub reasoning_field: ReasoningField,
    pub supports: ProviderFeatures,
    /// Metadata fields of the request that are forwarded.
    pub forward: Vec<ForwardedField>,
    /// Whether answers contain reasoning in `<think>` tags.
    pub think: ThinkTags,
    /// Whether ids of calls must be nine letters and digits.
    pub(crate) short_call_ids: bool,
}

impl ChatOptions {
    /// Whether the provider is asked for a stream, of which a whole answer can be made as well.
    pub(crate) fn streams(&self, request: &ModelRequest) -> bool {
        request.stream || !self.supports.json
    }
}

impl From<&ProviderSettings> for ChatOptions {
    fn from(settings: &ProviderSettings) -> Self {
        Self {
            roles: settings.roles.clone(),
            max_tokens_field: settings.max_tokens_field,
            reasoning_field: settings.reasoning_field,
            supports: settings.supports,
            forward: settings.forward.clone(),
            think: settings.think_tags,
            // Its API refuses a history with any other id.
            short_call_ids: settings.preset == Preset::Mistral,
        }
    }
}
