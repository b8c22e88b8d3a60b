//! The writes of clients to conversations.

use std::sync::Arc;

use crate::{ConversationItem, ConversationRecord, Owner, StoredItem};

/// A write to a conversation.
pub enum ConversationWrite {
    /// Makes a conversation with its first items, whose ids must differ.
    Create(ConversationRecord),
    /// Replaces the metadata.
    Update {
        /// Who writes; only own conversations are found.
        owner: Owner,
        /// `conv_…`
        id: String,
        /// A JSON object.
        metadata: Arc<str>,
    },
    /// Marks a conversation as deleted: nobody sees it any more, and its items are removed afterwards.
    Delete {
        /// Who writes; only own conversations are found.
        owner: Owner,
        /// `conv_…`
        id: String,
    },
    /// Adds items behind the others, all or none.
    AddItems {
        /// Who writes; only own conversations are found.
        owner: Owner,
        /// `conv_…`
        id: String,
        /// The items, whose ids must be new to the conversation.
        items: Vec<ConversationItem>,
    },
    /// Deletes an item. What a summary stood for is seen again without it.
    DeleteItem {
        /// Who writes; only own conversations are found.
        owner: Owner,
        /// `conv_…`
        id: String,
        /// The id of the item.
        item: String,
    },
}

impl ConversationWrite {
    /// Whether the write adds data.
    pub(super) fn adds(&self) -> bool {
        !matches!(self, Self::Delete { .. } | Self::DeleteItem { .. })
    }

    /// The approximate number of bytes that it adds.
    pub(super) fn size(&self, of_item: impl Fn(&StoredItem) -> usize) -> usize {
        let of_items =
            |items: &[ConversationItem]| items.iter().map(|item| of_item(&item.item)).sum::<usize>();
        match self {
            Self::Create(record) => record.metadata.len() + of_items(&record.items),
            Self::Update { metadata, .. } => metadata.len(),
            Self::AddItems { items, .. } => of_items(items),
            Self::Delete { .. } | Self::DeleteItem { .. } => 0,
        }
    }
}
