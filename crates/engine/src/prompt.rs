//! How the model is asked: by which provider, and with which conversation, which grows with each turn and is kept within the context
//! window.

use std::sync::Arc;

use super::compaction::{self, AutoCompaction};
use super::redaction::Redaction;
use super::truncate::{self, ContextBudget};
use antwort_config::CompactionSettings;
use antwort_protocol::error::ApiError;
use antwort_protocol::request::{TextFormat, Truncation};
use antwort_provider::{Provider, ProviderError};
use antwort_response::turn::ModelRequest;

/// How the model is asked.
pub(super) struct Prompt {
    pub provider: Arc<dyn Provider>,
    /// Shared with the provider during an inference, and not copied: by the next turn the provider has dropped it.
    pub request: Arc<ModelRequest>,
    /// The context window, if the model's is known.
    pub budget: Option<ContextBudget>,
    pub truncation: Truncation,
    /// Removes the agent's instructions from errors of the provider.
    pub(crate) redaction: Option<Redaction>,
    /// When the conversation is compacted while the run goes on.
    pub(crate) auto_compaction: Option<AutoCompaction>,
}

impl Prompt {
    /// The request, to be changed between inferences.
    pub(super) fn request_mut(&mut self) -> &mut ModelRequest {
        Arc::make_mut(&mut self.request)
    }

    /// Of a compaction the model is asked for a plain-text summary.
    pub(super) fn ask_for_summary(&mut self, settings: &CompactionSettings) -> Result<(), ApiError> {
        if self.request.conversation.is_empty() {
            return Err(ApiError::invalid("invalid_value", "input", "There is no conversation to compact."));
        }
        let request = self.request_mut();
        request.tools = compaction::tools::for_summary(&request.tools, &request.conversation);
        request.conversation.push(compaction::summary_prompt(settings.instructions.as_deref()));
        request.max_output_tokens = request.max_output_tokens.or(settings.max_output_tokens);
        request.format = TextFormat::Text;
        Ok(())
    }

    /// Drops the oldest items so that the conversation fits the context window, or refuses the request.
    pub(super) fn truncate_to_window(&mut self) -> Result<(), ApiError> {
        let Some(budget) = &self.budget else { return Ok(()) };
        if !truncate::exceeds(&self.request.conversation, budget) {
            return Ok(());
        }
        if self.truncation == Truncation::Disabled {
            return Err(truncate::too_long(truncate::estimate(&self.request.conversation), budget));
        }
        let request = Arc::make_mut(&mut self.request);
        let dropped = truncate::drop_oldest(&mut request.conversation, budget, (1, 1));
        tracing::debug!(dropped, "dropped the oldest items to fit the context window");
        Ok(())
    }

    /// Drops more items after the provider has said that the conversation is too long. False if nothing more can go.
    pub(super) fn truncate_half(&mut self) -> bool {
        if self.truncation == Truncation::Disabled {
            return false;
        }
        let window = truncate::estimate(&self.request.conversation) as u64;
        let known = ContextBudget { window, answer: 0, fixed: 0 };
        truncate::drop_oldest(&mut self.request_mut().conversation, &known, (1, 2)) > 0
    }

    /// Takes tokens off `max_output_tokens`, which is for the whole response. Returns whether none are left.
    pub(super) fn spend_tokens(&mut self, spent: u64) -> bool {
        if self.request.max_output_tokens.is_none() || spent == 0 {
            return false;
        }
        let left = self.request_mut().max_output_tokens.as_mut();
        left.is_some_and(|left| {
            *left = left.saturating_sub(spent);
            *left == 0
        })
    }

    /// An error of the provider as clients see it.
    pub(super) fn redact(&self, error: ProviderError) -> ApiError {
        match &self.redaction {
            Some(redaction) => redaction.apply(error).into(),
            None => error.into(),
        }
    }
}
