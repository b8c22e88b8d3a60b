//! Inputs that runs wait for: the answers of clients to calls that the model has made of their functions.
//!
//! A question is a call of the journal with a `call_id` and a time until which it can be answered. A run that waits is a row:
//! no process has its lease. The last answer, or that time, makes it one that any process claims.

use std::time::Duration;

use antwort_identity::Owner;
use antwort_protocol::id::Id;

/// That a call of the journal is answered from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingInput {
    /// By which it is answered.
    pub call_id: String,
    /// How long, from the commit of its turn on.
    pub timeout: Duration,
}

/// The same of a run that was taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedInput {
    /// By which it is answered.
    pub call_id: String,
    /// How long it can still be answered; `None`: no more.
    pub left: Option<Duration>,
}

impl AskedInput {
    /// `left` is in milliseconds.
    pub fn with_left(call_id: String, left: i64) -> Self {
        let left = u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_millis);
        Self { call_id, left }
    }
}

/// The `call_id` of the result of a call whose work goes on, by which its run waits for it.
pub fn async_call_id(turn: u32, index: u32) -> String {
    format!("async:{turn}:{index}")
}

/// Whether a `call_id` is one of these, for which no client is asked.
pub fn is_async_call_id(call_id: &str) -> bool {
    call_id.starts_with("async:")
}

/// An answer.
#[derive(Debug, Clone)]
pub struct InputAnswer {
    /// Who answers: the owner of the response.
    pub owner: Owner,
    /// The response.
    pub response: Id,
    /// The call.
    pub call_id: String,
    /// The result, opaque to the store.
    pub output: String,
    /// The code of the failure.
    pub error: Option<&'static str>,
    /// Bytes that the items of the response and the answers to its open calls may have together.
    pub max_response_bytes: u64,
}

/// What becomes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputOutcome {
    /// It is stored; if it was the last one that the run has waited for, that can be claimed.
    Accepted {
        /// Whether it was the last one.
        is_last: bool,
    },
    /// The same answer was stored before.
    Repeated,
    /// There is no such call, it was answered otherwise, or its run has ended.
    NotPending,
    /// It came too late.
    Expired,
    /// The response would be larger than allowed. The call can still be answered.
    TooLarge,
    /// The owner has no such response.
    NotFound,
}

impl InputOutcome {
    /// Of a call that was answered before.
    pub fn of_repetition(is_same: bool) -> Self {
        if is_same { Self::Repeated } else { Self::NotPending }
    }
}
