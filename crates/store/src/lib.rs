//! Persistent state, by role: responses with their items ([`ResponseStore`]), conversations ([`ConversationStore`]), the
//! log of runs with their leases ([`RunLog`]), runs that are asked for more than once ([`IdempotencyKeys`], [`EventLog`]),
//! the queue of background runs ([`JobQueue`]), calls whose results come from outside ([`PendingCalls`]), approvals ([`Approvals`]), and notices to webhooks ([`WebhookOutbox`]).
//!
//! [`Store`] is all of them in one backend; `antwort-store-sqlite` is the embedded one. Rules that are no queries (pages, retention)
//! stand beside the traits, so that every backend has the same. Rows keep the response as it was sent, byte for byte,
//! and beside it the items that a continuation shows to the model.

mod answers;
mod approvals;
mod async_calls;
pub mod begin_keyed;
pub mod conversation_turn;
pub mod conversation_write;
pub mod conversations;
pub mod copy_side;
pub mod distinct_keys;
mod erasure;
mod error;
pub mod failed_requests;
pub mod health;
pub mod in_flight;
pub mod item_change;
pub mod item_index;
pub mod item_names;
pub mod job_turns;
mod jobs;
mod lease;
mod logged_runs;
pub mod neutral_row;
pub mod operation;
pub mod outage;
mod outbox;
pub mod paging;
mod pending_calls;
pub mod renamed_item;
mod responses;
pub mod retention;
pub mod round_parts;
pub mod row_kinds;
pub mod row_policy;
mod run_log;
mod runs;
pub mod size;
pub mod taken_run;

use std::sync::Arc;

use async_trait::async_trait;

use antwort_identity::Requester;

pub use self::answers::{GivenAnswer, InputAnswer, InputOutcome};
pub use self::approvals::{ApprovalClaim, Approvals, ClaimOutcome, PendingApproval};
pub use self::async_calls::{
    AsyncCallKey, AsyncOutcome, AsyncResult, AsyncSettlement, CompletedCall, DueTask, ItemChange, PolledTask,
    StartedCall, TraceChange,
};
pub use self::conversation_turn::{ContextRole, ConversationTurn, RETAINED_TOKENS};
pub use self::conversations::{
    AddedItems, ConversationContext, ConversationItem, ConversationLock, ConversationRecord,
    ConversationStore, StoredConversation,
};
pub use self::erasure::{ErasedCounts, ErasureTarget};
pub use self::error::StoreError;
pub use self::job_turns::{JobTurns, TenantRuns};
pub use self::jobs::{ClaimedJob, JobQueue, JobStats, NewJob, Requeue};
pub use self::lease::Lease;
pub use self::logged_runs::{
    EventLog, IdempotencyKey, IdempotencyKeys, KeyUse, KeyedResponse, LogEnd, LogExtent, LogKept, LogPage,
    LogState, LoggedEvents, LoggedRun,
};
pub use self::outbox::{DueNotice, OutboxNotice, WebhookOutbox};
pub use self::paging::{MAX_PAGE_BYTES, Page, PageRequest, ResponseFilter};
pub use self::pending_calls::{
    AskedQuestions, MAX_QUESTIONS, NewPendingCall, PendingCall, PendingCalls, PendingSource, QuestionKey,
};
pub use self::responses::{
    Direction, ItemWithState, Lineage, ModelView, ReadLimit, ResponseRecord, ResponseStore, StateKey,
    StoredItem, StoredState,
};
pub use self::retention::{TenantRetention, TimeToLive};
pub use self::run_log::{
    CallOutcome, CancelRequest, JournaledCall, OrphanCause, OrphanedCall, OrphanedRun, RunLog, TurnRecord,
};
pub use self::runs::{RunRegistration, RunRegistry};
pub use antwort_identity::Owner;

/// Counts the runs of this process that are in flight.
pub type RunsInFlight = Arc<dyn Fn() -> usize + Send + Sync>;

/// A backend. Implementations pass the suite in `tests/state/store.rs`.
#[async_trait]
pub trait Store:
    ResponseStore
    + ConversationStore
    + RunLog
    + IdempotencyKeys
    + EventLog
    + JobQueue
    + PendingCalls
    + Approvals
    + WebhookOutbox
{
    /// Renews the leases of this process's running responses, deletes expired rows.
    async fn maintain(&self) -> Result<(), StoreError>;

    /// Renews the leases alone, which must not wait for anything else. A store that one process has needs no more than
    /// [`Self::maintain`].
    async fn renew_leases(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The process is about to end: from now on no write waits for a database that is not available.
    fn closing(&self) {}

    /// Deletes all that a tenant or an owner has: responses and conversations with their items, approvals, and what
    /// their runs have stored so far. A run of theirs that is under way in this process stores nothing more. What is stored later stays.
    async fn erase(&self, target: &ErasureTarget) -> Result<ErasedCounts, StoreError>;

    /// Whether a write is possible now.
    async fn ready(&self) -> Result<(), StoreError>;

    /// Replaces the requesters that share its readers. Does nothing in a store that has no shares.
    fn set_requesters(&self, _requesters: &[Requester]) {}

    /// Tells the store how many runs are in flight, by which it may choose how to commit. Does nothing by default.
    fn set_runs_in_flight(&self, _runs: RunsInFlight) {}

    /// Whether responses are known not to be storable now. Costs nothing.
    fn is_impaired(&self) -> bool;

    /// Whether a response can be stored, as far as is known without writing one. If it could not be, checks again, at
    /// most once a second.
    async fn check_writable(&self) -> Result<(), StoreError>;

    /// Commits what is queued, releases leases and closes.
    async fn close(&self);
}
