//! Stored responses: their records, and what is read and deleted of them.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::approvals::PendingApproval;
use super::conversation_turn::ConversationTurn;
use super::error::StoreError;
use super::lease::Lease;
use super::outbox::OutboxNotice;
use super::paging::{Page, PageRequest, ResponseFilter};
use antwort_identity::Owner;
use antwort_protocol::id::Id;
use antwort_protocol::item::Item;
use antwort_protocol::response::ResponseStatus;

/// Everything that is stored of a response.
#[derive(Debug, Clone)]
pub struct ResponseRecord {
    /// The response's id, and the right of the run that writes it.
    pub lease: Lease,
    /// The owner, who alone sees it.
    pub owner: Owner,
    /// The status; a row with a terminal status never changes.
    pub status: ResponseStatus,
    /// The model as the client named it.
    pub model: String,
    /// Unix seconds.
    pub created_at: i64,
    /// The response that it continues.
    pub previous: Option<Id>,
    /// Its part in the conversation that it was made in; such a response continues no other.
    pub conversation: Option<ConversationTurn>,
    /// The response object as it was sent.
    pub body: Arc<str>,
    /// Its own input and output in order, without those of its ancestors.
    pub items: Vec<StoredItem>,
    /// Notices to webhooks, which are written when the response ends.
    pub outbox: Vec<OutboxNotice>,
    /// Its approval requests, which are written when the response ends.
    pub approvals: Vec<PendingApproval>,
    /// The account of its run, written when the response ends; the store does not read it.
    pub trace: Option<Arc<str>>,
    /// Whether its client wants it polled, but not stored: it is found by its id alone, and kept as long as its log.
    /// Counts when the row is written first.
    pub is_unlisted: bool,
}

impl ResponseRecord {
    /// The response that it continues, or the conversation that it was made in.
    pub fn continued(&self) -> Option<&Id> {
        self.conversation.as_ref().map(|turn| &turn.id).or(self.previous.as_ref())
    }
}

/// An item of a response.
#[derive(Debug, Clone)]
pub struct StoredItem {
    /// The item's id; unique only in its response, since clients replay items.
    pub id: Id,
    /// Whether it came from the client or the model.
    pub direction: Direction,
    /// The item as clients see it.
    pub wire: Arc<str>,
    /// The item as the model sees it.
    pub model_view: ModelView,
    /// The state of the provider that made it.
    pub state: Option<StoredState>,
}

/// Provider state that is stored beside an item.
#[derive(Debug, Clone)]
pub struct StoredState {
    /// The key of the state.
    pub key: StateKey,
    /// The sealed state.
    pub blob: Arc<str>,
}

/// The key under which the state of an item is found when a client replays the item: its id, with the owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StateKey(String);

impl StateKey {
    /// The key of a call by its `call_id`, or of another item by its id.
    pub fn new(owner: &Owner, id: &str) -> Self {
        // The owner comes first, so that ids which model servers count from zero do not lead to the rows of others.
        Self(format!("{}\u{1f}{}\u{1f}{id}", owner.tenant, owner.principal))
    }

    /// A key that was stored.
    pub(super) fn stored(key: String) -> Self {
        Self(key)
    }

    /// The key as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id in a stored key.
    pub fn item_of(key: &str) -> &str {
        key.rsplit_once('\u{1f}').map_or(key, |(_, id)| id)
    }
}

/// An item with the state that is stored beside it.
#[derive(Debug, Clone)]
pub struct ItemWithState {
    /// The item as clients see it.
    pub item: Item,
    /// The sealed state.
    pub blob: Arc<str>,
}

/// Whether an item came from the client or from the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Direction {
    Input,
    Output,
}

/// What a continuation shows to the model in place of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelView {
    /// The item as clients see it.
    Same,
    /// Another item: JSON of an [`Item`], with sealed provider state.
    Override(Arc<str>),
    /// Nothing: the item was cut off and never finished.
    Hidden,
}

/// A limit of how much is read into memory. It is measured before anything is read, by the stored texts and
/// [`ReadLimit::ITEM_OVERHEAD`] for each item.
#[derive(Debug, Clone, Copy)]
pub struct ReadLimit {
    /// If there are more bytes than this, nothing is read, and the error is [`StoreError::TooLarge`] with the size.
    pub max_read_bytes: u64,
    /// Measuring stops beyond this many bytes.
    pub max_count_bytes: u64,
}

impl ReadLimit {
    /// Bytes of an item beside its text.
    pub const ITEM_OVERHEAD: u64 = 256;
    /// No limit.
    pub const UNLIMITED: Self = Self { max_read_bytes: u64::MAX, max_count_bytes: u64::MAX };
}

/// What a continuation starts from: the chain of responses before it.
#[derive(Debug, Clone)]
pub struct Lineage {
    /// The items of the whole chain as the model saw them, oldest first.
    pub items: Vec<Item>,
    /// Sealed state that is stored beside them, by place.
    pub states: HashMap<usize, Arc<str>>,
    /// The first response of the chain.
    pub root: Id,
    /// The status of the last response of the chain.
    pub status: ResponseStatus,
}

/// Stored responses. Of another owner's responses none exists.
#[async_trait]
pub trait ResponseStore: Send + Sync {
    /// The response object as it was sent. If it has more than `max_bytes`, it is not read, and the error is
    /// [`StoreError::TooLarge`] with its size.
    async fn response(&self, owner: &Owner, id: &str, max_bytes: u64)
    -> Result<Option<Arc<str>>, StoreError>;

    /// Deletes a response, its items and its approvals, or a registered run without a row. Returns whether it
    /// existed.
    async fn delete(&self, owner: &Owner, id: &str) -> Result<bool, StoreError>;

    /// The conversation that a continuation of this response starts from.
    async fn lineage(&self, owner: &Owner, id: &str, limit: ReadLimit)
    -> Result<Option<Lineage>, StoreError>;

    /// Items by id as the model sees them, for `item_reference`: in the requested order, `None` for one that does not
    /// exist or that the model does not see, the newest of several with one id. The limit counts an item as often as
    /// it is requested.
    async fn items(
        &self,
        owner: &Owner,
        ids: &[Id],
        limit: ReadLimit,
    ) -> Result<Vec<Option<Item>>, StoreError>;

    /// States by key, for items that a client replays: in the requested order, of several with one key the newest
    /// few, newest first, since model servers reuse ids.
    async fn provider_states(
        &self,
        owner: &Owner,
        keys: &[StateKey],
        limit: ReadLimit,
    ) -> Result<Vec<Vec<ItemWithState>>, StoreError>;

    /// The input that the client sent for this response, without that of its ancestors; `None` if there is no such
    /// response.
    async fn input_items(
        &self,
        owner: &Owner,
        id: &str,
        page: &PageRequest,
    ) -> Result<Option<Page>, StoreError>;

    /// The owner's responses, ordered by id and so by time. The id of a deleted response is a valid cursor: clients
    /// delete while they page.
    async fn responses(
        &self,
        owner: &Owner,
        page: &PageRequest,
        filter: &ResponseFilter,
    ) -> Result<Page, StoreError>;

    /// The accounts of the runs of responses, in the requested order; `None` for one that has none, or is not the owner's.
    async fn traces(&self, owner: &Owner, ids: &[Id]) -> Result<Vec<Option<Arc<str>>>, StoreError>;
}
