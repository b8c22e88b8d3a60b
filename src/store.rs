//! What outlives a request: responses, their items, and who owns them.
//!
//! [`Store`] is the contract; `sqlite` is the embedded one. Rows keep the response as it was sent, byte
//! for byte, and apart from it the items that a continuation shows to the model.

mod approval;
mod runs;
pub(crate) mod sqlite;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::admission::Requester;
use crate::protocol::error::ApiError;
use crate::protocol::id::Id;
use crate::protocol::item::Item;
use crate::protocol::parse;
use crate::protocol::response::ResponseStatus;

pub use self::approval::{ApprovalClaim, ClaimOutcome, PendingApproval};
pub use self::runs::{RunRegistration, RunRegistry};

/// When a client may try again for which there was no room.
const FULL_RETRY_AFTER: Duration = Duration::from_secs(10);

/// Whose rows an operation may see. Rows of others do not exist for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The harder wall.
    pub tenant: Arc<str>,
    /// Within the tenant.
    pub principal: Arc<str>,
}

/// Everything that is kept of a response.
#[derive(Debug, Clone)]
pub struct ResponseRecord {
    /// The response's id.
    pub id: Id,
    /// Who may see it.
    pub owner: Owner,
    /// Where it stands; once terminal, a row never changes.
    pub status: ResponseStatus,
    /// The model as the client named it.
    pub model: String,
    /// Unix seconds.
    pub created_at: i64,
    /// The response that it continues.
    pub previous: Option<Id>,
    /// The response object as sent.
    pub body: Arc<str>,
    /// This response's own input and output in order; not those of its ancestors.
    pub items: Vec<StoredItem>,
}

/// One item of a response.
#[derive(Debug, Clone)]
pub struct StoredItem {
    /// The item's id; unique in its response only, since clients replay items.
    pub id: Id,
    /// Whether it came from the client or the model.
    pub direction: Direction,
    /// As clients see it.
    pub wire: Arc<str>,
    /// As the model sees it.
    pub model_view: ModelView,
    /// What the provider that made it wants back with it.
    pub state: Option<StoredState>,
}

/// Provider state that is stored beside an item.
#[derive(Debug, Clone)]
pub struct StoredState {
    /// By what it is found.
    pub key: StateKey,
    /// Sealed.
    pub blob: Arc<str>,
}

/// By what the state of an item is found that a client replays: the id that the client cannot have lost, of its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StateKey(String);

impl StateKey {
    /// The key of an owner's call by its `call_id`, or of another item by its id.
    pub fn new(owner: &Owner, id: &str) -> Self {
        // With the owner in front, ids that servers count from zero do not lead to rows of everybody.
        Self(format!("{}\u{1f}{}\u{1f}{id}", owner.tenant, owner.principal))
    }

    /// As it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An item with the state that is stored beside it.
#[derive(Debug, Clone)]
pub struct ItemWithState {
    /// As clients see it.
    pub item: Item,
    /// Sealed.
    pub blob: Arc<str>,
}

/// A turn of a response that is running: what the model said, and what it asked the gateway to run.
#[derive(Debug, Clone)]
pub struct TurnRecord {
    /// The response.
    pub id: Id,
    /// The response's row, if it was not begun yet.
    pub begin: Option<ResponseRecord>,
    /// Items that the response got since it was begun or since the turn before.
    pub items: Vec<StoredItem>,
    /// The first one's place among the response's input and output.
    pub first_position: usize,
    /// Which inference this was: 0, 1, 2 …
    pub turn: u32,
    /// The calls that are about to be made, in order.
    pub calls: Vec<JournaledCall>,
}

/// A call that is about to be made.
#[derive(Debug, Clone)]
pub struct JournaledCall {
    /// The tool's server; `antwort` for the gateway's own.
    pub server_label: String,
    /// The tool.
    pub tool: String,
    /// As the model wrote them.
    pub arguments: String,
}

/// What came of a journalled call.
#[derive(Debug, Clone)]
pub struct CallOutcome {
    /// The response.
    pub id: Id,
    /// Which inference asked for it.
    pub turn: u32,
    /// Which of that inference's calls.
    pub index: u32,
    /// What the model was told.
    pub output: String,
    /// The code of its failure.
    pub error: Option<&'static str>,
}

/// Where an item came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Direction {
    Input,
    Output,
}

/// What a continuation shows to the model in an item's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelView {
    /// The item as clients see it.
    Same,
    /// Another form of it: JSON of an [`Item`], with sealed provider state.
    Override(Arc<str>),
    /// Nothing: an item that was cut off and never finished.
    Hidden,
}

/// Bytes of a page's elements. A page ends before the element that would make it longer, but has one at least.
pub const MAX_PAGE_BYTES: u64 = 4 << 20;

/// A page of a list.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// 1 to 100; a page of large elements has fewer, see [`MAX_PAGE_BYTES`].
    pub limit: usize,
    /// Oldest first?
    pub ascending: bool,
    /// Id of the element before the page, in the page's order.
    pub after: Option<String>,
    /// Id of the element behind the page, in the page's order.
    pub before: Option<String>,
    /// If the elements of the page are more bytes than this, none is read: [`StoreError::TooLarge`] says how many they are.
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

/// How much is read into memory. It is counted first, by the stored texts and [`ReadLimit::ITEM_OVERHEAD`] for each, so that no more
/// is ever held.
#[derive(Debug, Clone, Copy)]
pub struct ReadLimit {
    /// If it is more bytes than this, nothing is read: [`StoreError::TooLarge`] says how many it is.
    pub max_read_bytes: u64,
    /// Beyond this many bytes, counting ends, too.
    pub max_count_bytes: u64,
}

impl ReadLimit {
    /// Bytes that an item takes beside its text.
    pub const ITEM_OVERHEAD: u64 = 256;
    /// Everything, however much it is.
    pub const UNLIMITED: Self = Self { max_read_bytes: u64::MAX, max_count_bytes: u64::MAX };
}

/// What a continuation starts from.
#[derive(Debug, Clone)]
pub struct Lineage {
    /// The items of the whole chain as the model saw them, oldest first.
    pub items: Vec<Item>,
    /// Sealed state that is stored beside them, by their places.
    pub states: HashMap<usize, Arc<str>>,
    /// The first response of the chain.
    pub root: Id,
    /// Where the last response of the chain stands.
    pub status: ResponseStatus,
}

/// Why a store did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The database failed, is full, or is gone.
    #[error("the database failed: {0}")]
    Database(String),
    /// The schema is of an earlier or a later version.
    #[error("{0}")]
    Schema(String),
    /// There is no room for more.
    #[error("there is no room: {0}")]
    Full(String),
    /// The path leads to another file than the one that is open, or to none.
    #[error("{0} was removed or replaced while it was open: stop the gateway, and put the file back")]
    Replaced(String),
    /// A response of the chain was deleted or has expired.
    #[error("response {missing} of the chain no longer exists")]
    BrokenChain {
        /// The missing one.
        missing: Id,
    },
    /// A row cannot be read: it is damaged, or of a later version.
    #[error("a stored row cannot be read: {0}")]
    Corrupt(String),
    /// A read took longer than it may, or did not get its turn within that time.
    #[error("a read took longer than it may")]
    Timeout,
    /// It is more than may be read.
    #[error("it is {bytes} bytes and more than may be read")]
    TooLarge {
        /// How much it is, or how far it was counted.
        bytes: u64,
    },
    /// The chain has more responses than one query follows.
    #[error("the chain of responses is too long")]
    ChainTooLong,
    /// A page was asked for next to an element that the list does not have.
    #[error("the list has no element {cursor}")]
    UnknownCursor {
        /// The parameter that named it: `after` or `before`.
        param: &'static str,
        /// What it named.
        cursor: String,
    },
    /// The row is terminal or owned by another process; it was not changed.
    #[error("the row was not changed: it has ended or belongs to another process")]
    Superseded,
}

/// Keeps responses. Implementations pass the suite in `tests/it/store.rs`.
#[async_trait]
pub trait Store: Send + Sync {
    /// Registers a run whose id its owner gets to know before it has a row: until the registration is dropped, its
    /// owner can delete it, and what is written of it from then on is not kept, without an error.
    fn register_run(&self, id: &Id, owner: &Owner) -> RunRegistration;

    /// Writes a response that is still running, leased by this process. Not awaited by foreground runs: the
    /// write happens all the same once the future was polled and the queue had room.
    async fn begin(&self, record: ResponseRecord) -> Result<(), StoreError>;

    /// Writes a turn of a response that is running, and returns once that is committed: only then are its
    /// calls made.
    async fn commit_turn(&self, turn: TurnRecord) -> Result<(), StoreError>;

    /// Writes what came of a call. Nobody waits for it: until it is committed, the outcome is unknown.
    fn record_tool_result(&self, outcome: CallOutcome);

    /// Writes a response in its final state; returns once that is committed. Extends the life of its ancestors.
    ///
    /// A response that was begun or registered and has been deleted since stays deleted, without an error. One that has
    /// ended, or belongs to another process by now, is [`StoreError::Superseded`].
    async fn finish(&self, record: ResponseRecord) -> Result<(), StoreError>;

    /// The response object as it was sent. If it is more bytes than `max_bytes`, it is not read:
    /// [`StoreError::TooLarge`] says how many it is.
    async fn response(&self, owner: &Owner, id: &str, max_bytes: u64)
    -> Result<Option<Arc<str>>, StoreError>;

    /// Deletes a response, its items and the approvals that it asked for; also one that is registered and has no row
    /// yet. Whether there was one.
    async fn delete(&self, owner: &Owner, id: &str) -> Result<bool, StoreError>;

    /// The history that a continuation of this response starts from.
    async fn lineage(&self, owner: &Owner, id: &str, limit: ReadLimit)
    -> Result<Option<Lineage>, StoreError>;

    /// Items by their ids as the model sees them, for `item_reference`; in the order asked, `None` where
    /// there is none or the model sees none. Of several with one id the newest.
    /// The limit counts an item as often as it is asked for.
    async fn items(
        &self,
        owner: &Owner,
        ids: &[Id],
        limit: ReadLimit,
    ) -> Result<Vec<Option<Item>>, StoreError>;

    /// State by its keys, for items that a client replays; in the order asked. Servers reuse ids: of several with one
    /// key the newest few, newest first.
    async fn states(
        &self,
        owner: &Owner,
        keys: &[StateKey],
        limit: ReadLimit,
    ) -> Result<Vec<Vec<ItemWithState>>, StoreError>;

    /// What the client sent for this response, without that of its ancestors; `None`: no such response.
    async fn input_items(
        &self,
        owner: &Owner,
        id: &str,
        page: &PageRequest,
    ) -> Result<Option<Page>, StoreError>;

    /// The owner's responses, by id and so by time. The id of a deleted response is still a valid cursor:
    /// clients delete while they page.
    async fn responses(&self, owner: &Owner, page: &PageRequest) -> Result<Page, StoreError>;

    /// Writes calls that wait for approval, all or none; returns once that is committed.
    ///
    /// Those of a response that was begun or registered and has been deleted since are not written, without an error.
    async fn add_approvals(&self, pending: Vec<PendingApproval>) -> Result<(), StoreError>;

    /// Approvals of this owner that are neither used nor expired, in the order asked.
    async fn approvals(&self, owner: &Owner, ids: &[Id]) -> Result<Vec<Option<PendingApproval>>, StoreError>;

    /// Uses approvals up, once and for all: of all who claim one, in whatever process, one is granted it. All of
    /// them or, for the first reason that there is, none. A caller that stops waiting may have used them up all the
    /// same. `now` is in Unix seconds.
    async fn claim_approvals(
        &self,
        owner: &Owner,
        claims: Vec<ApprovalClaim>,
        now: i64,
    ) -> Result<ClaimOutcome, StoreError>;

    /// Renews the leases of this process's running responses, ends those of dead ones, deletes what expired.
    async fn maintain(&self) -> Result<(), StoreError>;

    /// Whether it can be written to now.
    async fn ready(&self) -> Result<(), StoreError>;

    /// From now on these are those among whom its readers are shared out. A store that shares nothing out does nothing.
    fn set_requesters(&self, _requesters: &[Requester]) {}

    /// Whether it is known that responses cannot be stored now. Costs nothing.
    fn is_impaired(&self) -> bool;

    /// Whether a response can be stored, as far as is known without writing one. Where it could not be, this looks
    /// again, once a second at most.
    async fn check_writable(&self) -> Result<(), StoreError>;

    /// Commits what waits, gives up leases and closes.
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
                "The conversation cannot be continued: its chain of responses is too long. Send its items as input instead.",
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
                tracing::warn!(%error, "store");
                Self::new(
                    503,
                    "service_unavailable_error",
                    "storage_timeout",
                    "The response store did not read this within 10 seconds. Try again shortly.",
                )
                .with_retry_after(Duration::from_secs(1))
            }
            StoreError::TooLarge { bytes } => Self::invalid(
                "context_length_exceeded",
                "input",
                format!("What the request refers to is {bytes} bytes and more than may be read."),
            ),
            // Logged when it was found out, and not for each request that is turned away.
            StoreError::Full(_) => Self::new(
                503,
                "service_unavailable_error",
                "storage_full",
                "The gateway has no room to store a response. Delete responses, ask with 'store': false, or try again later.",
            )
            .with_retry_after(FULL_RETRY_AFTER),
            StoreError::Database(_)
            | StoreError::Replaced(_)
            | StoreError::Schema(_)
            | StoreError::Corrupt(_)
            | StoreError::Superseded => {
                tracing::error!(%error, "store");
                Self::new(500, "server_error", "storage_error", "The response store failed. Try again.")
            }
        }
    }
}
