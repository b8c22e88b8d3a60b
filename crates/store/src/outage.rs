//! Which writes wait for a database that is not available for a while.
//!
//! A run that has a row goes on for as long as its process does: what it has done so far is paid for, and nobody can do it
//! again. Its writes wait, whatever the outage is: no connection, no answer, or a lock. Of other writes a client waits for
//! the answer and can repeat the request.

use std::time::Duration;

use super::in_flight::InFlightRows;
use super::operation::Write;
use super::{Lease, StoreError};

/// How long the writes of runs wait at most; then the runs fail.
pub const OUTAGE_TIMEOUT: Duration = Duration::from_secs(90);
/// How often they are tried.
pub const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Whether a write that has failed with this error is tried again.
pub fn outlasts(write: &Write, error: &StoreError, in_flight: &InFlightRows) -> bool {
    let is_outage = matches!(error, StoreError::Unavailable(_) | StoreError::Timeout);
    is_outage && waits(write, |lease| in_flight.is_begun(lease))
}

/// Whether a write is one that waits, as far as is seen in it.
pub fn may_wait(write: &Write) -> bool {
    waits(write, |_| false)
}

/// Whether it is the write of a run that has a row. That of a lease which was taken over has one; whether that of a first lease
/// has, its writer knows.
fn waits(write: &Write, is_begun: impl Fn(&Lease) -> bool) -> bool {
    match write {
        Write::Turn(turn) => turn.begin.is_none(),
        Write::Finish(record) => !record.lease.is_first() || is_begun(&record.lease),
        Write::FinishLogged(end) => !end.0.lease.is_first() || is_begun(&end.0.lease),
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
