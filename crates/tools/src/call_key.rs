//! What identifies a call of a response.

use std::fmt;

use antwort_protocol::id::Id;

/// Identifies one call of one response: the key in the journal, and the idempotency key sent to tools.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallKey {
    /// Id of the response.
    pub response: Id,
    /// Number of the commit that the call was written with, from 0.
    pub turn: u32,
    /// Index of the call within that commit, from 0.
    pub index: u32,
}

impl fmt::Display for CallKey {
    /// `resp_…/2/0`, as sent to tools.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.response, self.turn, self.index)
    }
}
