//! Conversations: lists of items that requests read, and append their turns to.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::conversation_turn::ContextRole;
use super::error::StoreError;
use super::paging::{Page, PageRequest};
use super::responses::{ReadLimit, StoredItem};
use antwort_identity::Owner;
use antwort_protocol::id::Id;
use antwort_protocol::item::Item;

/// A new conversation.
#[derive(Debug, Clone)]
pub struct ConversationRecord {
    /// `conv_…`
    pub id: Id,
    /// The owner, who alone sees it.
    pub owner: Owner,
    /// Unix seconds.
    pub created_at: i64,
    /// A JSON object.
    pub metadata: Arc<str>,
    /// Its first items.
    pub items: Vec<ConversationItem>,
}

/// A conversation without its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredConversation {
    /// `conv_…`
    pub id: Id,
    /// Unix seconds.
    pub created_at: i64,
    /// A JSON object.
    pub metadata: Arc<str>,
}

/// An item of a conversation. Its id is unique there.
#[derive(Debug, Clone)]
pub struct ConversationItem {
    /// The item.
    pub item: StoredItem,
    /// What becomes of it when the conversation is compacted.
    pub role: ContextRole,
}

/// What a request starts from: what the model sees of a conversation.
#[derive(Debug, Clone)]
pub struct ConversationContext {
    /// The items as the model sees them, oldest first.
    pub items: Vec<Item>,
    /// Sealed state that is stored beside them, by place.
    pub states: HashMap<usize, Arc<str>>,
    /// The position from which all items were read.
    pub first: u64,
    /// The position behind the last one.
    pub until: u64,
}

/// What came of adding items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddedItems {
    /// They were added.
    Added,
    /// There is no such conversation.
    Unknown,
    /// None was added: the conversation, or an item before it, has the id of the item at this place.
    Duplicate(usize),
}

/// Conversations. Of another owner's conversations none exists.
///
/// A response that was made in a conversation says so in its record
/// ([`ResponseRecord::conversation`](super::ResponseRecord::conversation)): its items are appended by the write that
/// ends it, if it ended well. If the conversation is gone by then, nothing is appended. An item whose id the
/// conversation has already gets another.
#[async_trait]
pub trait ConversationStore: Send + Sync {
    /// Writes a new conversation. [`AddedItems::Duplicate`] if two of its items have one id.
    async fn create_conversation(&self, record: ConversationRecord) -> Result<AddedItems, StoreError>;

    /// The conversation without its items.
    async fn conversation(&self, owner: &Owner, id: &str) -> Result<Option<StoredConversation>, StoreError>;

    /// Replaces the metadata. Returns whether there is such a conversation.
    async fn update_conversation(
        &self,
        owner: &Owner,
        id: &str,
        metadata: Arc<str>,
    ) -> Result<bool, StoreError>;

    /// Deletes a conversation with its items. Returns whether it existed.
    async fn delete_conversation(&self, owner: &Owner, id: &str) -> Result<bool, StoreError>;

    /// Adds items behind the others, all or none.
    async fn add_conversation_items(
        &self,
        owner: &Owner,
        id: &str,
        items: Vec<ConversationItem>,
    ) -> Result<AddedItems, StoreError>;

    /// An item as clients see it. If it has more than `max_bytes`, it is not read, and the error is
    /// [`StoreError::TooLarge`] with its size.
    async fn conversation_item(
        &self,
        owner: &Owner,
        id: &str,
        item: &str,
        max_bytes: u64,
    ) -> Result<Option<Arc<str>>, StoreError>;

    /// Deletes an item. Returns whether it existed.
    async fn delete_conversation_item(&self, owner: &Owner, id: &str, item: &str)
    -> Result<bool, StoreError>;

    /// The items; `None` if there is no such conversation.
    async fn conversation_items(
        &self,
        owner: &Owner,
        id: &str,
        page: &PageRequest,
    ) -> Result<Option<Page>, StoreError>;

    /// What the model sees of a conversation.
    async fn conversation_context(
        &self,
        owner: &Owner,
        id: &str,
        limit: ReadLimit,
    ) -> Result<Option<ConversationContext>, StoreError>;

    /// Locks a conversation for a run; `None` while another run has it. Of a conversation that does not exist, the id is
    /// locked.
    async fn lock_conversation(
        &self,
        owner: &Owner,
        id: &str,
    ) -> Result<Option<ConversationLock>, StoreError>;
}

/// The right to run in a conversation, until it is dropped.
#[must_use = "the conversation is unlocked when this is dropped"]
pub struct ConversationLock {
    _guard: Box<dyn Send + Sync>,
}

impl ConversationLock {
    /// A lock that is released when the guard is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

impl std::fmt::Debug for ConversationLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConversationLock")
    }
}

type LockKey = (Owner, Box<str>);

/// Locks of a backend that has one process.
#[derive(Debug, Clone, Default)]
pub struct ConversationLocks(Arc<Mutex<HashSet<LockKey>>>);

impl ConversationLocks {
    /// Locks a conversation, unless it is locked.
    pub fn lock(&self, owner: &Owner, id: &str) -> Option<ConversationLock> {
        let key: LockKey = (owner.clone(), id.into());
        let is_free = self.0.lock().insert(key.clone());
        is_free.then(|| ConversationLock::new(HeldLock { locks: self.clone(), key }))
    }

    /// Whether a run has the conversation.
    pub fn is_locked(&self, owner: &Owner, id: &str) -> bool {
        let locks = self.0.lock();
        !locks.is_empty() && locks.contains(&(owner.clone(), id.into()))
    }
}

struct HeldLock {
    locks: ConversationLocks,
    key: LockKey,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.locks.0.lock().remove(&self.key);
    }
}
