//! The writes of clients to conversations.

use std::sync::Arc;

use crate::{ConversationItem, ConversationRecord, Owner, StoredItem};

/// A write to a conversation.
pub enum ConversationWrite {
    Create(ConversationRecord),
    Update { owner: Owner, id: String, metadata: Arc<str> },
    Delete { owner: Owner, id: String },
    AddItems { owner: Owner, id: String, items: Vec<ConversationItem> },
    DeleteItem { owner: Owner, id: String, item: String },
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
