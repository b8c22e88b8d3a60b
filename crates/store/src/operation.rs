//! The writes that the writer of a store is given, and what comes of them.

use std::sync::Arc;
use std::time::Duration;

use super::conversation_write::ConversationWrite;
use crate::{
    ApprovalClaim, AskedQuestions, AsyncCallKey, AsyncOutcome, AsyncResult, AsyncSettlement, CallOutcome,
    CancelRequest, ClaimOutcome, ErasedCounts, ErasureTarget, InputAnswer, InputOutcome, Lease, LogEnd,
    LoggedEvents, LoggedRun, ModelView, NewJob, Owner, PendingApproval, Requeue, ResponseRecord, StartedCall,
    StoreError, StoredItem, TurnRecord,
};
use antwort_protocol::id::Id;

/// The approximate size of an approval's row.
const APPROVAL_BYTES: usize = 256;

/// A write.
pub enum Write {
    /// The row of a running response, and the state of its run, if there is one.
    Begin(ResponseRecord, Option<Arc<[u8]>>),
    /// A turn of a running response, with the calls that are about to be made.
    Turn(Box<TurnRecord>),
    /// The outcome of a call that was written with its turn.
    ToolResult(CallOutcome),
    /// A response in its final state; it need not have been begun.
    Finish(ResponseRecord),
    /// Deletes the response of this id, or a registered run that has no row yet.
    Delete(Owner, String),
    /// Marks a running response, so that the process that makes it ends it.
    RequestCancel(Owner, Id),
    /// Approval requests that wait for their answers, all or none.
    AddApprovals(Vec<PendingApproval>),
    /// Consumes approvals, all or none.
    ClaimApprovals(Box<ClaimRequest>),
    /// One step of an erasure.
    Erase(EraseRequest),
    /// What a client does to a conversation.
    Conversation(Box<ConversationWrite>),
    /// The row of a running response, with its idempotency key and its first events.
    BeginLogged(Box<LoggedRun>),
    /// Deletes a running response with its key and its log, as if it had never been begun.
    Withdraw(Lease),
    /// The row of a request that failed before its first output.
    FailedRequest(Box<ResponseRecord>),
    /// Events that are appended to the log of a running response.
    Log(Lease, LoggedEvents),
    /// A response in its final state, and the end of its log.
    FinishLogged(Box<(ResponseRecord, LogEnd)>),
    /// A queued response and its run, for any process to claim.
    Enqueue(Box<NewJob>),
    /// Replaces the status and the body of a response while its run goes on.
    UpdateRunning(Box<ResponseRecord>),
    /// Gives the claim of a queued run back, so that it is claimed again.
    Requeue(Lease, Requeue),
    /// Ends the lease of a run until its open calls are answered, or can be no more.
    WaitForInputs(Lease),
    /// Questions that calls under way ask the user.
    AskQuestions(Box<AskedQuestions>),
    /// An answer from outside to a call or a question of a run.
    AnswerInput(Box<InputAnswer>),
    /// A call that has answered while its work goes on.
    StartAsync(Box<StartedCall>),
    /// The result of work that has gone on; the first one of a call counts.
    CompleteAsync(Box<AsyncResult>),
    /// What the result of such work has led to, which is written once.
    SettleAsync(Box<AsyncSettlement>),
    /// After what time the result of such work is looked for again; `None`: never.
    PollTask(Box<AsyncCallKey>, Option<Duration>),
}

impl Write {
    /// Whether the write adds data.
    pub fn adds(&self) -> bool {
        match self {
            Self::Begin(..)
            | Self::Turn(_)
            | Self::ToolResult(_)
            | Self::Finish(_)
            | Self::AddApprovals(_)
            | Self::BeginLogged(_)
            | Self::FailedRequest(_)
            | Self::Log(..)
            | Self::FinishLogged(_)
            | Self::Enqueue(_)
            | Self::UpdateRunning(_)
            | Self::AskQuestions(_)
            | Self::AnswerInput(_)
            | Self::StartAsync(_)
            | Self::CompleteAsync(_)
            | Self::SettleAsync(_) => true,
            Self::Delete(..)
            | Self::RequestCancel(..)
            | Self::ClaimApprovals(_)
            | Self::Erase(_)
            | Self::Withdraw(_)
            | Self::Requeue(..)
            | Self::WaitForInputs(_)
            | Self::PollTask(..) => false,
            Self::Conversation(write) => write.adds(),
        }
    }

    /// The approximate number of bytes that it adds to the log.
    pub fn size(&self) -> usize {
        let of_record =
            |record: &ResponseRecord| record.body.len() + record.items.iter().map(item_size).sum::<usize>();
        let of_state = |state: &Option<Arc<[u8]>>| state.as_ref().map_or(0, |state| state.len());
        let of_events = |events: Option<&LoggedEvents>| events.map_or(0, |events| events.bytes.len());
        let of_begin =
            |run: &LoggedRun| of_record(&run.record) + of_state(&run.state) + of_events(run.events.as_ref());
        let of_finish = |record: &ResponseRecord| {
            // The items of a turn are written to its conversation, too.
            let appended = record.items.iter().filter(|_| record.conversation.is_some());
            of_record(record) + appended.map(item_size).sum::<usize>()
        };
        match self {
            Self::Begin(record, state) => of_record(record) + of_state(state),
            Self::Finish(record) => of_finish(record),
            Self::FailedRequest(record) => of_record(record),
            Self::Turn(turn) => {
                let calls = turn.calls.iter().map(|call| call.arguments.len());
                let calls = calls.chain(turn.pending.iter().map(|call| call.request.len()));
                let begun = turn.begin.as_ref().map_or(0, of_record);
                turn.items.iter().map(item_size).chain(calls).sum::<usize>() + begun + of_state(&turn.state)
            }
            Self::ToolResult(outcome) => outcome.output.len(),
            Self::AddApprovals(pending) => pending.len().saturating_mul(APPROVAL_BYTES),
            Self::BeginLogged(run) => of_begin(run),
            Self::Log(_, events) => of_events(Some(events)),
            Self::FinishLogged(end) => of_finish(&end.0) + of_events(end.1.events.as_ref()),
            Self::Enqueue(job) => of_begin(&job.run) + job.spec.len(),
            Self::UpdateRunning(record) => record.body.len(),
            Self::AskQuestions(asked) => asked.questions.iter().map(|call| call.request.len()).sum(),
            Self::AnswerInput(answer) => answer.output.len(),
            Self::StartAsync(call) => {
                let task = call.task.as_ref().map_or(0, |task| task.sealed.len());
                call.spec.as_ref().map_or(0, |spec| spec.len()) + task
            }
            Self::CompleteAsync(result) => result.output.len(),
            Self::SettleAsync(done) => done.item.as_ref().map_or(0, |item| 2 * item.wire.len()),
            Self::Delete(..)
            | Self::RequestCancel(..)
            | Self::ClaimApprovals(..)
            | Self::Erase(_)
            | Self::Withdraw(_)
            | Self::Requeue(..)
            | Self::WaitForInputs(_)
            | Self::PollTask(..) => 0,
            Self::Conversation(write) => write.size(item_size),
        }
    }
}

/// The approximate number of bytes of an item.
pub(super) fn item_size(item: &StoredItem) -> usize {
    let state = item.state.as_ref().map_or(0, |state| state.blob.len());
    let other = match &item.model_view {
        ModelView::Override(text) => text.len(),
        ModelView::Same | ModelView::Hidden => 0,
    };
    item.wire.len() + other + state
}

/// Approvals that are claimed together.
pub struct ClaimRequest {
    /// Who claims them, and has to own them.
    pub owner: Owner,
    /// The response that makes the calls.
    pub by: Id,
    /// The claims, which are granted all or none.
    pub claims: Vec<ApprovalClaim>,
    /// In Unix seconds.
    pub now: i64,
}

/// What is erased.
#[derive(Debug, Clone)]
pub struct EraseRequest {
    /// Whose data: a tenant's, or that of one principal.
    pub target: ErasureTarget,
    /// When it was asked for, in Unix milliseconds; what is newer stays.
    pub at: i64,
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The row was written.
    Changed,
    /// There is no row to change, as its owner has deleted it.
    Absent,
    /// The row has ended or belongs to another process.
    Superseded,
    /// The idempotency key has led to another response.
    KeyTaken,
    /// The outcome of claiming approvals.
    Claimed(ClaimOutcome),
    /// What a step of an erasure has deleted, and whether there may be more.
    Erased {
        /// What this step alone has deleted.
        counts: ErasedCounts,
        /// Whether another step may find more.
        more: bool,
    },
    /// The id of the item at this place is taken, and nothing was written.
    Duplicate(usize),
    /// The conversation of this key is marked as deleted.
    Deleting(i64),
    /// What has become of the result of work that has gone on.
    AsyncResult(AsyncOutcome),
    /// What has become of an answer to a run.
    Answered(InputOutcome),
    /// For how long a run waits for answers at most.
    Waits(Duration),
}

impl From<WriteOutcome> for CancelRequest {
    fn from(outcome: WriteOutcome) -> Self {
        match outcome {
            WriteOutcome::Changed => Self::Requested,
            WriteOutcome::Superseded => Self::Ended,
            _ => Self::NotFound,
        }
    }
}

impl WriteOutcome {
    /// For how long a run waits at most.
    pub fn waits(self) -> Result<Duration, StoreError> {
        match self {
            Self::Waits(most) => Ok(most),
            other => other.unless_superseded().map(|()| Duration::ZERO),
        }
    }

    /// What has become of the result of work that has gone on.
    pub fn async_result(self) -> Result<AsyncOutcome, StoreError> {
        match self {
            Self::AsyncResult(outcome) => Ok(outcome),
            other => other.unless_superseded().map(|()| AsyncOutcome::NotFound),
        }
    }

    /// What has become of an answer.
    pub fn answered(self) -> Result<InputOutcome, StoreError> {
        match self {
            Self::Answered(outcome) => Ok(outcome),
            other => other.unless_superseded().map(|()| InputOutcome::NotFound),
        }
    }

    /// An error if the row has ended or belongs to another process.
    pub fn unless_superseded(self) -> Result<(), StoreError> {
        match self {
            Self::Superseded => Err(StoreError::Superseded),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConversationTurn, Direction, Lease, StateKey, StoredState};
    use antwort_protocol::response::ResponseStatus;

    /// Once only the texts of a turn's own items were counted, however large the response was that it began.
    #[test]
    fn a_turn_counts_with_the_response_that_it_begins_and_what_providers_want_back() {
        let owner = Owner { tenant: "t".into(), principal: "p".into() };
        let state = StoredState { key: StateKey::new(&owner, "k"), blob: "x".repeat(1_000).into() };
        let item = StoredItem {
            id: "msg_1".into(),
            direction: Direction::Input,
            wire: "y".repeat(10_000).into(),
            model_view: ModelView::Same,
            state: Some(state),
        };
        let begin = ResponseRecord {
            lease: Lease::first("resp_1".into()),
            owner,
            status: ResponseStatus::InProgress,
            model: "m".to_owned(),
            created_at: 0,
            previous: None,
            conversation: None,
            body: "z".repeat(100_000).into(),
            items: vec![item.clone()],
            outbox: Vec::new(),
            approvals: Vec::new(),
            trace: None,
            is_unlisted: false,
        };
        let conversation = ConversationTurn { id: "conv_1".into(), first: 0, until: 0, roles: Vec::new() };
        let in_conversation = ResponseRecord { conversation: Some(conversation), ..begin.clone() };
        assert_eq!(Write::Finish(begin.clone()).size(), 111_000);
        assert_eq!(Write::Finish(in_conversation).size(), 122_000, "its items are written twice");
        let (lease, items) = (begin.lease.clone(), vec![item]);
        let state: Arc<[u8]> = vec![0; 1_000_000].into();
        assert_eq!(Write::Begin(begin.clone(), Some(Arc::clone(&state))).size(), 1_111_000);
        let turn = TurnRecord {
            lease,
            begin: Some(begin),
            items,
            first_position: 1,
            turn: 0,
            calls: Vec::new(),
            pending: Vec::new(),
            awaited: Vec::new(),
            state: Some(state),
        };
        assert_eq!(Write::Turn(Box::new(turn)).size(), 1_122_000);
    }

    #[test]
    fn logged_events_count_as_what_they_write() {
        let lease = Lease::first("resp_1".into());
        let log = Write::Log(lease.clone(), LoggedEvents { first: 0, last: 9, bytes: vec![0; 5_000] });
        assert_eq!((log.size(), log.adds()), (5_000, true));
        let withdrawn = Write::Withdraw(lease);
        assert_eq!((withdrawn.size(), withdrawn.adds()), (0, false), "it is made on a full disk, too");
    }
}
