//! Runs that wait for inputs, and questions that their calls ask the user.
//!
//! A question is a row of the journal beside those of the calls of its turn, which is answered as a call of the client's is.

use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;
use super::inputs::{InputAnswer, InputOutcome};
use super::lease::Lease;
use super::run_log::JournaledCall;
use antwort_identity::Owner;
use antwort_protocol::elicitation::question_id;
use antwort_protocol::id::Id;

/// The row of the first question that a call asks the user; those of calls are before it.
const FIRST_QUESTION_ROW: u32 = 1 << 16;
/// Maximum number of questions of one call.
pub const MAX_QUESTIONS: u32 = 256;

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
    /// Its row, beside those of the calls of the turn.
    pub fn row(&self) -> u32 {
        FIRST_QUESTION_ROW.saturating_add(self.call.saturating_mul(MAX_QUESTIONS)).saturating_add(self.number)
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
    /// The questions with their rows.
    pub questions: Vec<(u32, JournaledCall)>,
}

/// An answer that was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenAnswer {
    /// The question.
    pub call_id: String,
    /// The answer, opaque to the store.
    pub output: String,
    /// The code of the failure.
    pub error: Option<String>,
}

/// Runs that wait for answers.
#[async_trait]
pub trait RunInputs: Send + Sync {
    /// Ends the lease of a run until all calls of it that can be answered have been answered, or none can be any more.
    /// Returns for how long at most, which is nothing if there are none.
    async fn wait_for_inputs(&self, lease: Lease) -> Result<Duration, StoreError>;

    /// Writes questions. One that was asked before and is not answered can be answered for that long from now on.
    async fn ask_questions(&self, asked: AskedQuestions) -> Result<(), StoreError>;

    /// The answers that were given to a run.
    async fn given_answers(&self, owner: &Owner, response: &Id) -> Result<Vec<GivenAnswer>, StoreError>;

    /// Stores an answer. The same again changes nothing.
    async fn answer_input(&self, answer: InputAnswer) -> Result<InputOutcome, StoreError>;
}
