//! The part of a response in its conversation.

use antwort_protocol::id::Id;
use antwort_protocol::response::ResponseStatus;

/// Estimated tokens of the users' messages before a summary that are shown beside it.
pub const RETAINED_TOKENS: u64 = 64_000;

/// What becomes of an item when a summary takes the place of all items before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextRole {
    /// It is hidden from the model.
    Plain,
    /// A user's message: the newest ones are shown beside the summary, up to [`RETAINED_TOKENS`].
    User {
        /// Estimated.
        tokens: u64,
    },
    /// A message of a system or developer, which is shown beside the summary.
    Instructions,
    /// It is such a summary.
    Summary {
        /// Whether the item before it asked for the summary.
        with_trigger: bool,
    },
}

/// The part that a response has in a conversation.
#[derive(Debug, Clone)]
pub struct ConversationTurn {
    /// The conversation.
    pub id: Id,
    /// The position from which the response has read it.
    pub first: u64,
    /// The position behind the last item that it has read.
    pub until: u64,
    /// The roles of the response's items, by place; those of a running response are not needed.
    pub roles: Vec<ContextRole>,
}

/// Whether the items of a response that ends so belong to its conversation. What has failed will be sent again.
pub fn is_appended(status: ResponseStatus) -> bool {
    match status {
        ResponseStatus::Completed | ResponseStatus::Incomplete | ResponseStatus::RequiresAction => true,
        ResponseStatus::Queued
        | ResponseStatus::InProgress
        | ResponseStatus::Failed
        | ResponseStatus::Cancelled => false,
    }
}
