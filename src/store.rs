//! Persistent state: responses with their items and owners, journals of tool calls, approvals.
//!
//! [`Store`] is the contract; `sqlite` is the embedded implementation. Rows keep the response as it was sent, byte
//! for byte, and beside it the items that a continuation shows to the model.

mod approval;
mod runs;
pub(crate) mod sqlite;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::admission::Requester;
pub use crate::identity::Owner;
use crate::protocol::error::{ApiError, ErrorKind};
use crate::protocol::id::Id;
use crate::protocol::item::Item;
use crate::protocol::parse;
use crate::protocol::response::ResponseStatus;

pub use self::approval::{ApprovalClaim, ClaimOutcome, PendingApproval};
pub use self::runs::{RunRegistration, RunRegistry};

/// `Retry-After` of a full store.
const FULL_RETRY_AFTER: Duration = Duration::from_secs(10);

/// Everything that is stored of a response.
#[derive(Debug, Clone)]
pub struct ResponseRecord {
    /// The response's id.
    pub id: Id,
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
    /// The response object as it was sent.
    pub body: Arc<str>,
    /// Its own input and output in order, without those of its ancestors.
    pub items: Vec<StoredItem>,
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

    /// The key as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
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

/// A turn of a running response: the model's output, and the calls that the gateway is about to make.
#[derive(Debug, Clone)]
pub struct TurnRecord {
    /// The id of the response.
    pub id: Id,
    /// The response's row, if it was not written yet.
    pub begin: Option<ResponseRecord>,
    /// The items since the row was written, or since the turn before.
    pub items: Vec<StoredItem>,
    /// The place of the first item among the response's input and output.
    pub first_position: usize,
    /// The number of the inference, from 0.
    pub turn: u32,
    /// The calls that are about to be made, in order.
    pub calls: Vec<JournaledCall>,
}

/// A call that is about to be made.
#[derive(Debug, Clone)]
pub struct JournaledCall {
    /// The label of the tool's server; `antwort` for the gateway's own tools.
    pub server_label: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
}

/// The outcome of a journalled call.
#[derive(Debug, Clone)]
pub struct CallOutcome {
    /// The id of the response.
    pub id: Id,
    /// The number of the inference that asked for the call.
    pub turn: u32,
    /// The place of the call in that inference.
    pub index: u32,
    /// The text that the model was given.
    pub output: String,
    /// The code of the failure.
    pub error: Option<&'static str>,
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

/// The size of a page: it ends before the element that would exceed it, but has at least one.
pub const MAX_PAGE_BYTES: u64 = 4 << 20;

/// A request for a page of a list.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// 1 to 100; a page of large elements has fewer, see [`MAX_PAGE_BYTES`].
    pub limit: usize,
    /// Whether the oldest element comes first.
    pub ascending: bool,
    /// The id of the element before the page, in the page's order.
    pub after: Option<String>,
    /// The id of the element after the page, in the page's order.
    pub before: Option<String>,
    /// If the page has more bytes than this, none is read, and the error is [`StoreError::TooLarge`] with the size.
    pub max_bytes: u64,
}

/// JSON of the elements, and whether more follow.
#[derive(Debug, Clone)]
pub struct Page {
    /// Each an object with an `id`.
    pub data: Vec<(Id, Arc<str>)>,
    /// Whether more follow in the page's order; of a page before a cursor, whether more come before it.
    pub has_more: bool,
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

/// Why a store operation failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The database failed, is full, or is gone.
    #[error("the database failed: {0}")]
    Database(String),
    /// The schema is that of an earlier or a later version.
    #[error("{0}")]
    Schema(String),
    /// There is no room for more data.
    #[error("there is no room: {0}")]
    Full(String),
    /// The path leads to another file than the open one, or to none.
    #[error("{0} was removed or replaced while it was open: stop the gateway, and put the file back")]
    Replaced(String),
    /// A response of the chain was deleted or has expired.
    #[error("response {missing} of the chain no longer exists")]
    BrokenChain {
        /// The missing response.
        missing: Id,
    },
    /// A row cannot be read: it is damaged, or of a later version.
    #[error("a stored row cannot be read: {0}")]
    Corrupt(String),
    /// A read exceeded its time limit, waiting included.
    #[error("a read took longer than it may")]
    Timeout,
    /// The data is larger than the limit of the read.
    #[error("it is {bytes} bytes and more than may be read")]
    TooLarge {
        /// The size, or how far it was measured.
        bytes: u64,
    },
    /// The chain has more responses than one query follows.
    #[error("the chain of responses is too long")]
    ChainTooLong,
    /// A cursor names an element that the list does not have.
    #[error("the list has no element {cursor}")]
    UnknownCursor {
        /// The parameter with the cursor: `after` or `before`.
        param: &'static str,
        /// The cursor.
        cursor: String,
    },
    /// The row has ended or is owned by another process; it was not changed.
    #[error("the row was not changed: it has ended or belongs to another process")]
    Superseded,
}

/// Stores responses. Implementations pass the suite in `tests/it/store.rs`.
#[async_trait]
pub trait Store: Send + Sync {
    /// Registers a run whose id is known to its owner before it has a row. Until the registration is dropped, the
    /// owner can delete it; later writes of a deleted run are dropped without an error.
    fn register_run(&self, id: &Id, owner: &Owner) -> RunRegistration;

    /// Writes the row of a running response, leased by this process. Runs do not wait for it: the write happens even
    /// if the future is dropped, once it was polled and the queue had room.
    async fn begin(&self, record: ResponseRecord) -> Result<(), StoreError>;

    /// Writes a turn of a running response, and returns when it is committed. The turn's calls are made only then.
    async fn commit_turn(&self, turn: TurnRecord) -> Result<(), StoreError>;

    /// Writes the outcome of a call, without waiting. Until it is committed, the outcome is unknown.
    fn record_tool_result(&self, outcome: CallOutcome);

    /// Writes a response in its final state, and returns when it is committed. Extends the life of its ancestors.
    ///
    /// A response that was deleted since it was begun or registered stays deleted, without an error. One that has
    /// ended, or that another process has taken over, is [`StoreError::Superseded`].
    async fn finish(&self, record: ResponseRecord) -> Result<(), StoreError>;

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
    async fn responses(&self, owner: &Owner, page: &PageRequest) -> Result<Page, StoreError>;

    /// Writes approval requests, all or none, and returns when they are committed.
    ///
    /// Those of a response that was deleted since it was begun or registered are dropped, without an error.
    async fn add_approvals(&self, pending: Vec<PendingApproval>) -> Result<(), StoreError>;

    /// Approval requests of this owner that are neither used nor expired, in the requested order.
    async fn approvals(&self, owner: &Owner, ids: &[Id]) -> Result<Vec<Option<PendingApproval>>, StoreError>;

    /// Consumes approvals, all of them or, for the first reason there is, none. Of several claims of one approval, in
    /// whatever processes, exactly one is granted. A caller that stops waiting may have consumed them nevertheless.
    /// `now` is in Unix seconds.
    async fn claim_approvals(
        &self,
        owner: &Owner,
        claims: Vec<ApprovalClaim>,
        now: i64,
    ) -> Result<ClaimOutcome, StoreError>;

    /// Renews the leases of this process's running responses, ends those of dead processes, deletes expired rows.
    async fn maintain(&self) -> Result<(), StoreError>;

    /// Whether a write is possible now.
    async fn ready(&self) -> Result<(), StoreError>;

    /// Replaces the requesters that share its readers. Does nothing in a store that has no shares.
    fn set_requesters(&self, _requesters: &[Requester]) {}

    /// Whether responses are known not to be storable now. Costs nothing.
    fn is_impaired(&self) -> bool;

    /// Whether a response can be stored, as far as is known without writing one. If it could not be, checks again, at
    /// most once a second.
    async fn check_writable(&self) -> Result<(), StoreError>;

    /// Commits what is queued, releases leases and closes.
    async fn close(&self);
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::BrokenChain { missing } => Self::invalid(
                "previous_response_not_found",
                "previous_response_id",
                format!(
                    "The conversation cannot be continued: response '{missing}' of its chain was deleted or has expired."
                ),
            ),
            StoreError::ChainTooLong => Self::invalid(
                "previous_response_not_found",
                "previous_response_id",
                "The conversation cannot be continued: its chain of responses is too long. Send the items as input instead.",
            ),
            StoreError::UnknownCursor { param, cursor } => Self::invalid(
                "invalid_value",
                param,
                format!(
                    "Invalid value for '{param}': the list has no element '{}'.",
                    parse::truncate_for_display(&cursor)
                ),
            ),
            StoreError::Timeout => {
                tracing::warn!(%error, "a read of the response store timed out");
                Self::new(ErrorKind::Unavailable, "The response store did not read this within 10 seconds. Try again shortly.").with_code("storage_timeout")
                .with_retry_after(Duration::from_secs(1))
            }
            StoreError::TooLarge { bytes } => Self::invalid(
                "context_length_exceeded",
                "input",
                format!("What the request refers to is {bytes} bytes and more than may be read."),
            ),
            // Logged once, when it was found out.
            StoreError::Full(_) => Self::new(ErrorKind::Unavailable, "The gateway has no room to store a response. Delete responses, send 'store': false, or try again later.").with_code("storage_full")
            .with_retry_after(FULL_RETRY_AFTER),
            StoreError::Database(_)
            | StoreError::Replaced(_)
            | StoreError::Schema(_)
            | StoreError::Corrupt(_)
            | StoreError::Superseded => {
                tracing::error!(%error, "the response store failed");
                Self::new(ErrorKind::Internal, "The response store failed. Try again.").with_code("storage_error")
            }
        }
    }
}
