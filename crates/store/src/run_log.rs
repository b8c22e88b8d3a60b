//! The log of runs: their leases, the rows of running responses, their turns and the journal of their calls.

use std::sync::Arc;

use async_trait::async_trait;

use super::error::StoreError;
use super::lease::Lease;
use super::pending_calls::{NewPendingCall, PendingCall};
use super::responses::{ResponseRecord, StoredItem};
use super::runs::RunRegistration;
use antwort_identity::Owner;
use antwort_protocol::id::Id;

/// A turn of a running response: the model's output, and the calls that the gateway is about to make.
#[derive(Debug, Clone)]
pub struct TurnRecord {
    /// The response, and the right to write it.
    pub lease: Lease,
    /// The response's row, if it was not written yet.
    pub begin: Option<ResponseRecord>,
    /// The items since the row was written, or since the turn before.
    pub items: Vec<StoredItem>,
    /// The place of the first item among the response's input and output.
    pub first_position: usize,
    /// The number of this commit of the run, from 0. Its calls have it.
    pub turn: u32,
    /// The calls that are about to be made, in order.
    pub calls: Vec<JournaledCall>,
    /// The calls that become pending: the client is asked to make them.
    pub pending: Vec<NewPendingCall>,
    /// Pending calls of earlier turns whose results the run waits for from now on, by turn and place.
    pub awaited: Vec<(u32, u32)>,
    /// The state of the run, which replaces the one that was stored before; `None` leaves that.
    pub state: Option<Arc<[u8]>>,
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
    /// The response, and the right to write it.
    pub lease: Lease,
    /// The number of the commit that the call was written with.
    pub turn: u32,
    /// The place of the call in that commit.
    pub index: u32,
    /// The result, opaque to the store: the text that the model was given, or that and more.
    pub output: String,
    /// The code of the failure.
    pub error: Option<&'static str>,
}

/// A run that was taken over, because nobody makes it any more.
#[derive(Debug, Clone)]
pub struct OrphanedRun {
    /// The lease of this process. The run's earlier lease is refused from now on. If the run is not finished before
    /// this lease expires, it is an orphan again.
    pub lease: Lease,
    /// The owner of the response.
    pub owner: Owner,
    /// Why nobody makes it.
    pub cause: OrphanCause,
    /// Whether it was to be cancelled.
    pub is_cancelled: bool,
    /// Unix seconds.
    pub created_at: i64,
    /// The model as the client named it.
    pub model: String,
    /// The response that it continues.
    pub previous: Option<Id>,
    /// The response object as it was when the row was written.
    pub body: Arc<str>,
    /// Its input, and the output of the turns that were committed.
    pub items: Vec<StoredItem>,
    /// The calls of all its turns that the gateway makes, in order.
    pub calls: Vec<OrphanedCall>,
    /// Its calls whose results come from outside, in order.
    pub pending: Vec<PendingCall>,
    /// The state of the run as of its last commit.
    pub state: Option<Arc<[u8]>>,
}

/// Why nobody makes a run any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrphanCause {
    /// Its process is gone, or has not renewed its lease.
    ProcessGone,
    /// Its end could not be stored.
    EndNotStored,
}

/// What comes of the wish to cancel a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelRequest {
    /// The owner has no such response.
    NotFound,
    /// It has ended.
    Ended,
    /// It is marked. It was perhaps before.
    Requested,
}

/// A call of an orphaned run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanedCall {
    /// The number of the commit that the call was written with.
    pub turn: u32,
    /// The place of the call in that commit.
    pub index: u32,
    /// The label of the tool's server.
    pub server_label: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
    /// The result as [`CallOutcome::output`] has it, and the code of the failure; `None`: it is unknown whether the call had its
    /// effect.
    pub outcome: Option<(String, Option<String>)>,
}

/// The log of runs.
///
/// Every write presents the lease of its run. It is refused with [`StoreError::Superseded`] if the response has ended
/// or another process has taken the run over. A response that was deleted since it was begun or registered stays
/// deleted: its writes are dropped without an error.
#[async_trait]
pub trait RunLog: Send + Sync {
    /// Registers a run whose id is known to its owner before it has a row. Until the registration is dropped, the
    /// owner can delete it; later writes of a deleted run are dropped without an error.
    fn register_run(&self, id: &Id, owner: &Owner) -> RunRegistration;

    /// Writes the row of a running response, leased by this process, with the state of the run, which is opaque to the
    /// store. The write happens even if the future is dropped, once it was polled and the queue had room.
    async fn begin(&self, record: ResponseRecord, state: Option<Arc<[u8]>>) -> Result<(), StoreError>;

    /// Writes a turn of a running response, and returns when it is committed. The turn's calls are made only then.
    async fn commit_turn(&self, turn: TurnRecord) -> Result<(), StoreError>;

    /// Writes the outcome of a call, without waiting. Until it is committed, the outcome is unknown.
    fn record_tool_result(&self, outcome: CallOutcome);

    /// Writes a response in its final state, and returns when it is committed. Extends the life of its ancestors.
    /// It need not have been begun.
    async fn finish(&self, record: ResponseRecord) -> Result<(), StoreError>;

    /// Writes the row of a request that failed before its first output, without waiting, and removes the oldest such rows
    /// of its tenant. While the database has much to write or cannot be written to, the row is dropped. A store that does
    /// not implement this keeps none.
    fn record_failed_request(&self, _record: ResponseRecord) {}

    /// Marks a running response of this owner, so that the process that makes it ends it.
    async fn request_cancel(&self, owner: &Owner, id: &Id) -> Result<CancelRequest, StoreError>;

    /// The runs of this process that are to end: those that were marked, and those whose response was deleted.
    async fn cancelled_runs(&self) -> Result<Vec<Id>, StoreError>;

    /// Takes over at most `limit` runs that nobody makes any more: those of an earlier process of this name, those
    /// whose lease has expired, and those whose end could not be stored. Of several processes that ask, one gets each.
    /// An empty list means that there are none now.
    async fn take_orphaned(&self, limit: usize) -> Result<Vec<OrphanedRun>, StoreError>;
}
