//! What the translators must know of a provider: the part of its settings that shapes requests and answers.

use crate::config::{
    ForwardedField, MaxTokensField, ProviderFeatures, ProviderSettings, ReasoningField, Roles, ThinkTags,
};

/// How one provider likes to be asked.
#[derive(Debug, Clone)]
pub(crate) struct ChatOptions {
    /// What it makes of roles.
    pub roles: Roles,
    /// The field for `max_output_tokens`.
    pub max_tokens_field: MaxTokensField,
    /// The field in which it takes its reasoning back.
    pub reasoning_field: ReasoningField,
    /// What it understands.
    pub supports: ProviderFeatures,
    /// Bookkeeping fields that it gets.
    pub forward: Vec<ForwardedField>,
    /// Whether its answers hold reasoning in tags.
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
