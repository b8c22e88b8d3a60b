//! The conversation that a run reads and appends to.

use std::sync::Arc;

use super::context::{EngineParts, RunContext};
use super::truncate;
use antwort_config::StorePolicy;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::id::Id;
use antwort_protocol::item::{Item, Role};
use antwort_protocol::parse::truncate_for_display;
use antwort_protocol::request::CreateResponse;
use antwort_response::seal::SummarySeal;
use antwort_store::{ContextRole, ConversationLock, ConversationTurn};

/// The conversation of a run.
pub(super) struct RunConversation {
    id: Id,
    /// The positions that were read.
    range: (u64, u64),
    summaries: Arc<SummarySeal>,
}

impl RunConversation {
    /// The conversation with the positions that were read; `None` if the run has none.
    pub(super) fn of(
        id: Option<&Id>,
        range: Option<(u64, u64)>,
        summaries: &Arc<SummarySeal>,
    ) -> Option<Self> {
        let (id, range) = id.zip(range)?;
        Some(Self { id: id.clone(), range, summaries: Arc::clone(summaries) })
    }

    /// The part of a response that goes on.
    pub(super) fn running(&self) -> ConversationTurn {
        ConversationTurn { id: self.id.clone(), first: self.range.0, until: self.range.1, roles: Vec::new() }
    }

    /// The part of a response that has ended with these items.
    pub(super) fn ended<'a>(&self, items: impl Iterator<Item = &'a Item>) -> ConversationTurn {
        ConversationTurn { roles: roles(items, &self.summaries), ..self.running() }
    }
}

/// What becomes of items when a summary takes the place of all before it.
pub(super) fn roles<'a>(items: impl Iterator<Item = &'a Item>, seal: &SummarySeal) -> Vec<ContextRole> {
    let mut with_trigger = false;
    let role = |item: &Item| {
        let role = match item {
            Item::Message(message) => match message.role {
                Role::User => ContextRole::User { tokens: truncate::tokens(item) as u64 },
                Role::System | Role::Developer => ContextRole::Instructions,
                Role::Assistant => ContextRole::Plain,
            },
            Item::Compaction(_) if with_trigger => ContextRole::Summary { with_trigger },
            Item::Compaction(summary) => match seal.open(&summary.encrypted_content) {
                Some(opened) if opened.replaces_all => ContextRole::Summary { with_trigger },
                _ => ContextRole::Plain,
            },
            _ => ContextRole::Plain,
        };
        with_trigger = matches!(item, Item::CompactionTrigger(_));
        role
    };
    items.map(role).collect()
}

/// Locks the conversation of a request, if that is to run in it.
pub(super) async fn lock(
    parts: &EngineParts,
    caller: &RunContext,
    request: &CreateResponse,
    runs: bool,
) -> Result<Option<ConversationLock>, ApiError> {
    let Some(id) = &request.conversation else { return Ok(None) };
    check_policy(caller.store)?;
    if !request.store {
        return Err(ApiError::unsupported(
            "conversation",
            "A response in a conversation is stored: 'store': false cannot be combined with 'conversation'.",
        ));
    }
    if !runs {
        return Ok(None);
    }
    match parts.store.lock_conversation(&caller.owner, id).await? {
        Some(lock) => Ok(Some(lock)),
        None => Err(ApiError::new(
            ErrorKind::Conflict,
            format!(
                "Another response is being made in conversation '{}'. Send the request again when it has ended.",
                truncate_for_display(id)
            ),
        )
        .with_code("conversation_locked")
        .with_param("conversation")),
    }
}

/// Refuses a caller whose key stores nothing.
pub(super) fn check_policy(policy: StorePolicy) -> Result<(), ApiError> {
    match policy {
        StorePolicy::Allow => Ok(()),
        StorePolicy::Refuse => Err(ApiError::invalid(
            "unsupported_value",
            "conversation",
            "This API key does not allow responses to be stored, and so no conversations.",
        )),
        StorePolicy::Never => Err(ApiError::unsupported(
            "conversation",
            "Nothing is stored for this API key, and so no conversations: send the items as the 'input' of each response.",
        )),
    }
}

/// There is no such conversation of this owner.
pub(super) fn not_found(id: &str) -> ApiError {
    ApiError::not_found(format!("Conversation with id '{}' not found.", truncate_for_display(id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use antwort_protocol::parse::FromJson;
    use antwort_response::seal::SealKeys;
    use serde_json::{Value, json, value::to_raw_value};

    #[test]
    fn a_compaction_hides_what_is_before_it_only_if_it_was_made_of_all() {
        let seal = SealKeys::new(&[vec![7; 32]]).unwrap().summaries_of("acme");
        let sealed = seal.seal_all("the summary").unwrap();
        let read = |item: &Value| Item::from_json(&to_raw_value(item).unwrap()).unwrap();
        let compaction = |text: &str| json!({"type": "compaction", "encrypted_content": text});
        let items = [
            json!({"role": "developer", "content": "rules"}),
            json!({"role": "user", "content": "a question"}),
            json!({"role": "assistant", "content": "an answer"}),
            compaction("of some messages beside it"),
            compaction(&sealed),
            json!({"type": "compaction_trigger"}),
            compaction("asked for"),
            json!({"role": "system", "content": "rules"}),
        ];
        let items: Vec<_> = items.iter().map(read).collect();
        let tokens = truncate::tokens(&items[1]) as u64;
        assert_eq!(
            roles(items.iter(), &seal),
            [
                ContextRole::Instructions,
                ContextRole::User { tokens },
                ContextRole::Plain,
                ContextRole::Plain,
                ContextRole::Summary { with_trigger: false },
                ContextRole::Plain,
                ContextRole::Summary { with_trigger: true },
                ContextRole::Instructions,
            ]
        );
    }
}
