//! Answers to pending calls: the outputs of a client's functions, and what the user says to questions of tools.

use antwort_identity::Owner;
use antwort_protocol::id::Id;

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

/// An answer that was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenAnswer {
    /// The call.
    pub call_id: String,
    /// The answer, opaque to the store.
    pub output: String,
    /// The code of the failure.
    pub error: Option<String>,
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
