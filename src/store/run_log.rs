//! The log of runs: their leases, the rows of running responses, their turns and the journal of their calls.

use async_trait::async_trait;

use super::error::StoreError;
use super::lease::Lease;
use super::responses::{ResponseRecord, StoredItem};
use super::runs::RunRegistration;
use crate::identity::Owner;
use crate::protocol::id::Id;

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
    /// The response, and the right to write it.
    pub lease: Lease,
    /// The number of the inference that asked for the call.
    pub turn: u32,
    /// The place of the call in that inference.
    pub index: u32,
    /// The text that the model was given.
    pub output: String,
    /// The code of the failure.
    pub error: Option<&'static str>,
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

    /// Writes the row of a running response, leased by this process. Runs do not wait for it: the write happens even
    /// if the future is dropped, once it was polled and the queue had room.
    async fn begin(&self, record: ResponseRecord) -> Result<(), StoreError>;

    /// Writes a turn of a running response, and returns when it is committed. The turn's calls are made only then.
    async fn commit_turn(&self, turn: TurnRecord) -> Result<(), StoreError>;

    /// Writes the outcome of a call, without waiting. Until it is committed, the outcome is unknown.
    fn record_tool_result(&self, outcome: CallOutcome);

    /// Writes a response in its final state, and returns when it is committed. Extends the life of its ancestors.
    /// It need not have been begun.
    async fn finish(&self, record: ResponseRecord) -> Result<(), StoreError>;
}
