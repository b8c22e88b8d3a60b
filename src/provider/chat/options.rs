//! Options of the translators: the settings of a provider that shape requests and answers.

use crate::config::{
    ForwardedField, MaxTokensField, ProviderFeatures, ProviderSettings, ReasoningField, Roles, ThinkTags,
};

/// How one provider differs from others.
#[derive(Debug, Clone)]
pub(crate) struct ChatOptions {
    /// How roles are mapped.
    pub roles: Roles,
    pub max_tokens_field: MaxTokensField,
    /// The field in which reasoning is sent back.
    pub reasoning_field: ReasoningField,
    pub supports: ProviderFeatures,
    /// Metadata fields of the request that are forwarded.
    pub forward: Vec<ForwardedField>,
    /// Whether answers contain reasoning in `<think>` tags.
    pub think: ThinkTags,
}

impl From<&ProviderSettings> for ChatOptions {
    fn from(settings: &ProviderSettings) -> Self {
        Self {
            roles: settings.roles,
            max_tokens_field: settings.max_tokens_field,
            reasoning_field: settings.reasoning_field,
            supports: settings.supports,
            forward: settings.forward.clone(),
            think: settings.think_tags,
        }
    }
}
