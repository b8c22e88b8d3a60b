//! Calls whose work has gone on after their answer: what was started, the results, and what these lead to.

use std::sync::Arc;
use std::time::Duration;

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
    /// The number of the commit that the call was written with.
    pub turn: u32,
    /// The place of the call in that commit.
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
    /// Whether there is a [`StartedCall::spec`], which may be large: [`PendingCalls::async_spec`](super::PendingCalls::async_spec).
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
