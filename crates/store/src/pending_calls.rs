//! Calls whose results come from outside their run: the client executes a function, the user answers a question of a tool, or the
//! work of a call goes on after its answer.
//!
//! Each is a row with a time until which the result is waited for. A run that waits is a row, too: no process has its lease. The
//! last result, or that time, makes it one that any process claims.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::answers::{GivenAnswer, InputAnswer, InputOutcome};
use super::async_calls::{
    AsyncCallKey, AsyncOutcome, AsyncResult, AsyncSettlement, CompletedCall, DueTask, StartedCall,
};
use super::error::StoreError;
use super::lease::Lease;
use antwort_identity::Owner;
use antwort_protocol::elicitation::question_id;
use antwort_protocol::id::Id;

/// The row of the first question that a call asks the user; those of calls are before it.
const FIRST_QUESTION_ROW: u32 = 1 << 16;
/// Maximum number of questions of one call.
pub const MAX_QUESTIONS: u32 = 256;

/// Who has the result of a pending call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingSource {
    /// The client, whose function the model has called.
    Client,
    /// The user: a call is under way and waits for the answer to a question.
    HeldQuestion,
    /// No one: what a call has ended with that has questions. It precedes them.
    QuestionRound,
    /// The user: a question that a call has ended with.
    Question,
    /// No one: the call is made again with the answers. It follows the questions.
    QuestionsAnswered,
    /// A system outside that a tool has started: it reports the result, or the gateway looks for it.
    Async,
}

impl PendingSource {
    const ALL: [Self; 6] = [
        Self::Client,
        Self::HeldQuestion,
        Self::QuestionRound,
        Self::Question,
        Self::QuestionsAnswered,
        Self::Async,
    ];

    /// Its name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::HeldQuestion => "held_question",
            Self::QuestionRound => "question_round",
            Self::Question => "question",
            Self::QuestionsAnswered => "questions_answered",
            Self::Async => "async",
        }
    }

    /// The source of this name, if this version knows it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == name)
    }

    /// Whether the row is one of a call that asks the user.
    pub fn is_question(self) -> bool {
        match self {
            Self::HeldQuestion | Self::QuestionRound | Self::Question | Self::QuestionsAnswered => true,
            Self::Client | Self::Async => false,
        }
    }
}

/// A call that becomes pending: its run waits until it is answered, or the time has passed.
#[derive(Debug, Clone)]
pub struct NewPendingCall {
    /// Its place in the turn; that of a question is [`QuestionKey::row`].
    pub index: u32,
    /// Who answers it.
    pub source: PendingSource,
    /// By which it is answered.
    pub call_id: String,
    /// The function or the tool.
    pub tool: String,
    /// What is asked, opaque to the store.
    pub request: String,
    /// How long, from the commit on.
    pub timeout: Duration,
}

/// A pending call of a run that was taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    /// The number of the commit that it was written with, or of the call whose work goes on.
    pub turn: u32,
    /// Its place there.
    pub index: u32,
    /// Who has its result.
    pub source: PendingSource,
    /// By which it is answered; empty if it is reported by its place.
    pub call_id: String,
    /// As in [`NewPendingCall`].
    pub request: String,
    /// The result, and the code of the failure.
    pub outcome: Option<(String, Option<String>)>,
    /// How long it can still be answered; `None`: no more.
    pub left: Option<Duration>,
}

impl PendingCall {
    /// What is left of so many milliseconds.
    pub fn time_left(left: i64) -> Option<Duration> {
        u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_millis)
    }
}

/// Identifies a question that a tool asks the user during a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuestionKey {
    /// The turn of the call in the journal.
    pub turn: u32,
    /// The index of the call in that turn.
    pub call: u32,
    /// The number of the question, less than [`MAX_QUESTIONS`].
    pub number: u32,
}

impl QuestionKey {
    /// Its row, behind those of the calls of the turn.
    pub fn row(&self) -> u32 {
        FIRST_QUESTION_ROW.saturating_add(self.call.saturating_mul(MAX_QUESTIONS)).saturating_add(self.number)
    }

    /// Whether a row is one of a question.
    pub fn is_row(row: u32) -> bool {
        row >= FIRST_QUESTION_ROW
    }

    /// The `call_id` by which it is answered.
    pub fn call_id(&self) -> String {
        question_id(self.turn, self.call, self.number)
    }
}

/// Questions that calls of a turn ask the user while they are under way.
#[derive(Debug, Clone)]
pub struct AskedQuestions {
    /// The lease of the run.
    pub lease: Lease,
    /// The turn of the calls.
    pub turn: u32,
    /// The questions.
    pub questions: Vec<NewPendingCall>,
}

/// Pending calls, and the runs that wait for them.
///
/// Calls of a client's functions are written with their turn ([`TurnRecord::pending`](super::TurnRecord::pending)).
#[async_trait]
pub trait PendingCalls: Send + Sync {
    /// Ends the lease of a run until all calls that it waits for have their results, or none can have any more.
    /// Returns for how long at most, which is nothing if there are none.
    async fn wait_for_inputs(&self, lease: Lease) -> Result<Duration, StoreError>;

    /// Writes questions. One that was asked before and is not answered can be answered for that long from now on.
    async fn ask_questions(&self, asked: AskedQuestions) -> Result<(), StoreError>;

    /// The answers that were given to a run.
    async fn given_answers(&self, owner: &Owner, response: &Id) -> Result<Vec<GivenAnswer>, StoreError>;

    /// Stores an answer. The same again changes nothing.
    async fn answer_input(&self, answer: InputAnswer) -> Result<InputOutcome, StoreError>;

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

    /// What it takes to look for the results of a response's calls that go on, each as in [`PolledTask`](super::PolledTask).
    async fn open_tasks(&self, owner: &Owner, response: &Id) -> Result<Vec<Arc<[u8]>>, StoreError>;

    /// Looks for the result of a call again after this time; with `None` never again.
    async fn poll_task(&self, key: AsyncCallKey, after: Option<Duration>) -> Result<(), StoreError>;

    /// Writes what the result of a call leads to, once.
    async fn settle_async(&self, settlement: AsyncSettlement) -> Result<(), StoreError>;
}
