//! Applies writes: which module does which.
//!
//! Runs inside the writer's transaction; committing and replying is the writer's business.

use super::conversation_locks::HeldLocks;
use super::session::Session;
use super::{
    async_calls, cancel, event_log, failed_requests, idempotency, jobs, journal, lifecycle, pending_calls,
};
use antwort_store::StoreError;
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::{Write, WriteOutcome};
use antwort_store::row_policy::RowPolicy;

/// Applies one write.
pub(super) async fn apply(
    session: Session<'_>,
    policy: &RowPolicy,
    locks: &HeldLocks,
    in_flight: &mut InFlightRows,
    write: &Write,
) -> Result<WriteOutcome, StoreError> {
    match write {
        Write::Begin(record, state) => {
            let begun = lifecycle::begin(session, policy, in_flight, record, state.as_deref()).await?;
            Ok(begun.map_or_else(|refused| refused, |_| WriteOutcome::Changed))
        }
        Write::Turn(turn) => journal::commit_turn(session, policy, in_flight, turn).await,
        Write::ToolResult(outcome) => journal::record_tool_result(session, policy, outcome).await,
        Write::Finish(record) => lifecycle::finish(session, policy, locks, in_flight, record).await,
        Write::Delete(owner, id) => lifecycle::delete(session, in_flight, owner, id).await,
        Write::RequestCancel(owner, id) => cancel::request(session, in_flight, owner, id).await,
        Write::BeginLogged(run) => idempotency::begin(session, policy, in_flight, run, None).await,
        Write::Withdraw(lease) => idempotency::withdraw(session, policy, in_flight, lease).await,
        Write::FailedRequest(record) => failed_requests::insert(session, policy, in_flight, record).await,
        Write::Log(lease, events) => event_log::append(session, policy, lease, events).await,
        Write::FinishLogged(end) => {
            event_log::finish(session, policy, locks, in_flight, &end.0, &end.1).await
        }
        Write::Enqueue(job) => {
            idempotency::begin(session, policy, in_flight, &job.run, Some(&job.spec)).await
        }
        Write::UpdateRunning(record) => jobs::update_running(session, policy, record).await,
        Write::Requeue(lease, requeue) => jobs::requeue(session, policy, lease, *requeue).await,
        Write::WaitForInputs(lease) => pending_calls::wait(session, policy, lease).await,
        Write::AskQuestions(asked) => pending_calls::ask(session, policy, asked).await,
        Write::StartAsync(call) => async_calls::start(session, call).await,
        // Clients make these; they have transactions of their own.
        Write::AddApprovals(_)
        | Write::ClaimApprovals(_)
        | Write::Erase(_)
        | Write::Conversation(_)
        | Write::AnswerInput(_)
        | Write::CompleteAsync(_)
        | Write::SettleAsync(_)
        | Write::PollTask(..) => Err(StoreError::Database("this is not a write of a run".to_owned())),
    }
}

/// What the write has come to, if an attempt before, which came to something else, may have been committed although that
/// is not known.
pub(super) async fn repeated(
    session: Session<'_>,
    write: &Write,
    outcome: WriteOutcome,
    before: WriteOutcome,
) -> Result<WriteOutcome, StoreError> {
    let record = match write {
        Write::Finish(record) => record,
        Write::FinishLogged(end) => &end.0,
        // What that attempt has deleted is not there any more.
        Write::Delete(..) | Write::Withdraw(_) if outcome == WriteOutcome::Absent => return Ok(before),
        // The lease that attempt has ended is nobody's any more.
        Write::WaitForInputs(_) if outcome == WriteOutcome::Superseded => return Ok(before),
        Write::Enqueue(job) => {
            let is_there =
                outcome == WriteOutcome::Superseded && jobs::is_there(session, &job.run.record).await?;
            return Ok(if is_there { WriteOutcome::Changed } else { outcome });
        }
        _ => return Ok(outcome),
    };
    match outcome {
        WriteOutcome::Superseded if lifecycle::is_stored(session, record).await? => Ok(WriteOutcome::Changed),
        _ => Ok(outcome),
    }
}
