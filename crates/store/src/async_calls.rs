//! Calls whose work has gone on after their answer: what was started, the results, and what these lead to.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;
use super::outbox::OutboxNotice;
use super::responses::ModelView;
use antwort_identity::Owner;
use antwort_protocol::id::Id;

/// A call of a response, as in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsyncCallKey {
    /// The owner of the response.
    pub owner: Owner,
    /// The response.
    pub response: Id,
    /// The number of the inference that asked for the call.
    pub turn: u32,
    /// The place of the call in that inference.
    pub index: u32,
}

/// A call that has answered while its work goes on.
#[derive(Debug, Clone)]
pub struct StartedCall {
    /// The call.
    pub key: AsyncCallKey,
    /// The id of its item.
    pub item: Id,
    /// The tool, as in settings.
    pub tool: String,
    /// What the result leads to, opaque to the store.
    pub on_complete: &'static str,
    /// What it takes to do that, opaque to the store.
    pub spec: Option<Arc<[u8]>>,
    /// How long the result is waited for.
    pub timeout: Duration,
    /// Where the gateway looks for the result; `None`: it is reported.
    pub task: Option<PolledTask>,
}

/// Where the gateway looks for the result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolledTask {
    /// What it takes to look, opaque to the store.
    pub sealed: Arc<[u8]>,
    /// After which time to look first.
    pub after: Duration,
}

/// A call whose result is to be looked for now.
#[derive(Debug, Clone)]
pub struct DueTask {
    /// The call.
    pub key: AsyncCallKey,
    /// As in [`PolledTask`].
    pub sealed: Arc<[u8]>,
    /// Whether the result is waited for: there is none, the time has not passed, and the response is not cancelled.
    pub is_wanted: bool,
}

/// The result of such work.
#[derive(Debug, Clone)]
pub struct AsyncResult {
    /// The call.
    pub key: AsyncCallKey,
    /// The result, opaque to the store.
    pub output: String,
    /// The code of the failure.
    pub error: Option<&'static str>,
    /// How long it would have been waited for.
    pub timeout: Duration,
}

/// What becomes of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncOutcome {
    /// It is stored.
    Stored,
    /// There was one before, which counts.
    Repeated,
    /// The response does not exist, or exists no more.
    NotFound,
}

/// A call that has a result, or will get none, of a response that has ended.
#[derive(Debug, Clone)]
pub struct CompletedCall {
    /// The call.
    pub key: AsyncCallKey,
    /// The id of its item.
    pub item: Id,
    /// As in [`StartedCall`].
    pub tool: String,
    /// As in [`StartedCall`].
    pub on_complete: String,
    /// Whether there is a [`StartedCall::spec`], which may be large: [`AsyncCalls::async_spec`].
    pub has_spec: bool,
    /// The result, and the code of the failure; `None`: it came too late, or not at all.
    pub result: Option<(String, Option<String>)>,
}

/// An item of a response that is replaced.
#[derive(Debug, Clone)]
pub struct ItemChange {
    /// The id of the item.
    pub id: Id,
    /// The item as clients see it.
    pub wire: Arc<str>,
    /// What the model sees of it.
    pub model_view: ModelView,
}

/// The account of a run that has ended, with what became of a result.
#[derive(Debug, Clone)]
pub struct TraceChange {
    /// The account as it was read: another one is left as it is.
    pub before: Arc<str>,
    /// What it becomes.
    pub after: Arc<str>,
}

/// That what a result leads to was done.
#[derive(Debug, Clone)]
pub struct AsyncSettlement {
    /// The call.
    pub key: AsyncCallKey,
    /// Its item, in the response and in its conversation.
    pub item: Option<ItemChange>,
    /// The account of its run.
    pub trace: Option<TraceChange>,
    /// Notices of it.
    pub outbox: Vec<OutboxNotice>,
}

/// Calls whose work goes on.
#[async_trait]
pub trait AsyncCalls: Send + Sync {
    /// Writes that a call has answered while its work goes on. Its result may be there already.
    async fn start_async(&self, call: StartedCall) -> Result<(), StoreError>;

    /// Writes the result of a call, which may not have answered yet. The first counts.
    async fn complete_async(&self, result: AsyncResult) -> Result<AsyncOutcome, StoreError>;

    /// At most `limit` calls that are to be settled, the oldest first.
    async fn completed_calls(&self, limit: usize) -> Result<Vec<CompletedCall>, StoreError>;

    /// The calls of these responses that have a result, settled or not, those of a response in their order.
    async fn async_results(&self, owner: &Owner, responses: &[Id]) -> Result<Vec<CompletedCall>, StoreError>;

    /// The [`StartedCall::spec`] of a call that is not settled.
    async fn async_spec(&self, key: &AsyncCallKey) -> Result<Option<Arc<[u8]>>, StoreError>;

    /// At most `limit` calls whose results are to be looked for now. They are given to no other process for the time of
    /// `lease`.
    async fn due_tasks(&self, limit: usize, lease: Duration) -> Result<Vec<DueTask>, StoreError>;

    /// What it takes to look for the results of a response's calls that go on, each as in [`PolledTask`].
    async fn open_tasks(&self, owner: &Owner, response: &Id) -> Result<Vec<Arc<[u8]>>, StoreError>;

    /// Looks for the result of a call again after this time; with `None` never again.
    async fn poll_task(&self, key: AsyncCallKey, after: Option<Duration>) -> Result<(), StoreError>;

    /// Writes what the result of a call leads to, once.
    async fn settle_async(&self, settlement: AsyncSettlement) -> Result<(), StoreError>;
}
