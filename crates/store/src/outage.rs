//! Which writes wait for a database that is not available for a while.
//!
//! A run that has a row goes on for as long as its process does: what it has done so far is paid for, and nobody can do it
//! again. Its writes wait, whatever the outage is: no connection, no answer, or a lock. Of other writes a client waits for
//! the answer and can repeat the request.

use std::time::Duration;

use super::StoreError;
use super::in_flight::InFlightRows;
use super::operation::Write;

/// How long the writes of runs wait at most; then the runs fail.
pub const OUTAGE_TIMEOUT: Duration = Duration::from_secs(90);
/// How often they are tried.
pub const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Whether a write that has failed with this error is tried again.
pub fn outlasts(write: &Write, error: &StoreError, in_flight: &InFlightRows) -> bool {
    matches!(error, StoreError::Unavailable(_) | StoreError::Timeout) && is_of_run_with_row(write, in_flight)
}

/// Whether a write is one that waits, as far as is seen in it.
pub fn may_wait(write: &Write) -> bool {
    match write {
        Write::Finish(record) => !record.lease.is_first(),
        Write::FinishLogged(end) => !end.0.lease.is_first(),
        Write::Turn(_)
        | Write::Log(..)
        | Write::UpdateRunning(_)
        | Write::Requeue(..)
        | Write::WaitForInputs(_)
        | Write::AskQuestions(_)
        | Write::StartAsync(_) => true,
        _ => false,
    }
}

fn is_of_run_with_row(write: &Write, in_flight: &InFlightRows) -> bool {
    let has_row = |lease| in_flight.is_begun(lease);
    match write {
        Write::Turn(turn) => turn.begin.is_none(),
        Write::Finish(record) => !record.lease.is_first() || has_row(&record.lease),
        Write::FinishLogged(end) => !end.0.lease.is_first() || has_row(&end.0.lease),
        Write::ToolResult(_)
        | Write::Log(..)
        | Write::UpdateRunning(_)
        | Write::Requeue(..)
        | Write::WaitForInputs(_)
        | Write::AskQuestions(_)
        | Write::StartAsync(_) => true,
        Write::Begin(..)
        | Write::Delete(..)
        | Write::RequestCancel(..)
        | Write::AddApprovals(_)
        | Write::ClaimApprovals(_)
        | Write::Erase(_)
        | Write::Conversation(_)
        | Write::BeginLogged(_)
        | Write::Withdraw(_)
        | Write::FailedRequest(_)
        | Write::Enqueue(_)
        | Write::AnswerInput(_)
        | Write::CompleteAsync(_)
        | Write::SettleAsync(_)
        | Write::PollTask(..) => false,
    }
}
