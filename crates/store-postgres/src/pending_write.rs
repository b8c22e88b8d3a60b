//! A write in a writer, and what is known of its attempts.

use std::time::Instant;

use super::queue::Reply;
use antwort_store::operation::{Write, WriteOutcome};

/// A write that waits for its commit.
pub(super) struct Pending {
    pub write: Write,
    pub answer: Reply,
    /// When the first attempt was over whose connection was lost: it may have begun before this process was stopped.
    pub lost: Option<Instant>,
    /// What it has come to if it was committed, by an attempt of which that is not known.
    pub(super) doubtful: Option<WriteOutcome>,
    /// When the server was found to be away.
    pub postponed: Option<tokio::time::Instant>,
}

impl Pending {
    pub(super) fn new(write: Write, answer: Reply) -> Self {
        Self { write, answer, lost: None, doubtful: None, postponed: None }
    }

    /// An attempt has lost its connection. With an outcome, its commit was sent.
    pub(super) fn lost(&mut self, outcome: Option<WriteOutcome>) {
        self.lost.get_or_insert_with(Instant::now);
        self.doubtful = outcome.or(self.doubtful);
    }
}
