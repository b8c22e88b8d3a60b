//! Writes that wait until the server is back.
//!
//! A run that has a row goes on for as long as its process does: what it has done so far is paid for, and nobody can do it
//! again. Its writes wait for the server, in their order, whatever the outage is: no connection, no answer, or a lock. They
//! are the first ones that are made when it is back. Of other writes a client waits for the answer and can repeat the
//! request.

use std::time::{Duration, Instant};

use super::writer::Pending;
use antwort_store::StoreError;
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::Write;

/// How often they are tried.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The writes of one writer that wait.
pub(super) struct Postponed {
    /// For how long each waits.
    timeout: Duration,
    writes: Vec<Pending>,
}

impl Postponed {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, writes: Vec::new() }
    }

    /// Waits for what comes next, or until it is time to try again, which is `None`.
    pub(super) async fn retry_while<T>(&self, next: impl Future<Output = T>) -> Option<T> {
        if self.writes.is_empty() {
            return Some(next.await);
        }
        tokio::time::timeout(RETRY_INTERVAL, next).await.ok()
    }

    /// All of them, to be made before these.
    pub(super) fn before(&mut self, group: Vec<Pending>) -> Vec<Pending> {
        if self.writes.is_empty() {
            return group;
        }
        let mut all = std::mem::take(&mut self.writes);
        all.extend(group);
        all
    }

    /// Keeps a write that could not be made. Returns it if it does not wait.
    pub(super) fn add(
        &mut self,
        mut pending: Pending,
        error: &StoreError,
        in_flight: &InFlightRows,
    ) -> Option<Pending> {
        if !is_outage(error) || !is_of_run_with_row(&pending.write, in_flight) {
            return Some(pending);
        }
        let since = *pending.postponed.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.timeout {
            return Some(pending);
        }
        if self.writes.is_empty() {
            tracing::warn!(%error, "store: the database is not available; the writes of runs wait for it");
        }
        self.writes.push(pending);
        None
    }
}

/// Whether the same write may succeed later.
fn is_outage(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(_) | StoreError::Timeout)
}

/// Whether it is the write of a run that goes on and that has a row.
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
