//! Inline commits: when a caller commits its write on its own thread instead of queueing it for the writer thread.
//!
//! On a gateway that is nearly idle, most of what a commit takes is the switch to another thread and back. Under load,
//! writes share commits, which only the queue can do.

use std::sync::OnceLock;

use super::options::Synchronous;
use antwort_store::RunsInFlight;
use antwort_store::operation::Write;

/// Maximum number of runs in flight; with more, writes are queued, so that they share commits.
const MAX_RUNS: usize = 2;

/// Maximum size of a write in bytes; larger ones take long, and are queued.
const MAX_WRITE_BYTES: usize = 64 << 10;

/// Decides which commits are inline.
pub(super) struct InlineCommits {
    /// Whether a commit does not wait for the disk.
    is_enabled: bool,
    runs: OnceLock<RunsInFlight>,
}

impl InlineCommits {
    pub(super) fn new(synchronous: Synchronous) -> Self {
        Self { is_enabled: synchronous == Synchronous::Normal, runs: OnceLock::new() }
    }

    /// Tells how many runs are in flight. As long as that is not known, all writes are queued.
    pub(super) fn set_runs(&self, runs: RunsInFlight) {
        // Of several programs in this process, the first counts.
        let _ = self.runs.set(runs);
    }

    pub(super) fn allows(&self, write: &Write) -> bool {
        self.is_enabled
            && self.runs.get().is_some_and(|runs| runs() <= MAX_RUNS)
            && is_of_run(write)
            && write.size() <= MAX_WRITE_BYTES
    }
}

/// Whether the write is one of those that a run makes: they touch a few rows.
fn is_of_run(write: &Write) -> bool {
    match write {
        Write::Begin(..)
        | Write::Turn(_)
        | Write::Finish(_)
        | Write::BeginLogged(_)
        | Write::Log(..)
        | Write::FinishLogged(_) => true,
        Write::ToolResult(_)
        | Write::FailedRequest(_)
        | Write::Delete(..)
        | Write::RequestCancel(..)
        | Write::AddApprovals(_)
        | Write::ClaimApprovals(_)
        | Write::Erase(_)
        | Write::Conversation(_)
        | Write::Withdraw(_)
        | Write::Enqueue(_)
        | Write::UpdateRunning(_)
        | Write::Requeue(..)
        | Write::WaitForInputs(_)
        | Write::AskQuestions(_)
        | Write::AnswerInput(_)
        | Write::StartAsync(_)
        | Write::CompleteAsync(_)
        | Write::SettleAsync(_)
        | Write::PollTask(..) => false,
    }
}
