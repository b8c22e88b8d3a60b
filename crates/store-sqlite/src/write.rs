//! Applies writes: which module does which.
//!
//! Runs inside the writer's transaction; committing and replying is the writer's business.

use rusqlite::Connection;

use super::{
    approvals, async_calls, cancel, conversations, erasure, event_log, failed_requests, idempotency, jobs,
    journal, lifecycle, pending_calls,
};
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::{Write, WriteOutcome};
use antwort_store::row_policy::RowPolicy;

/// Applies one write.
pub(super) fn apply(
    connection: &Connection,
    policy: &RowPolicy,
    in_flight: &mut InFlightRows,
    write: &Write,
) -> rusqlite::Result<WriteOutcome> {
    match write {
        Write::Begin(record, state) => {
            let begun = lifecycle::begin(connection, policy, in_flight, record, state.as_deref())?;
            Ok(begun.map_or_else(|refused| refused, |_| WriteOutcome::Changed))
        }
        Write::Turn(turn) => journal::commit_turn(connection, policy, in_flight, turn),
        Write::ToolResult(outcome) => journal::record_tool_result(connection, policy, outcome),
        Write::Finish(record) => lifecycle::finish(connection, policy, in_flight, record),
        Write::RequestCancel(owner, id) => cancel::request(connection, in_flight, owner, id),
        Write::Delete(owner, id) => lifecycle::delete(connection, in_flight, owner, id),
        Write::AddApprovals(pending) => approvals::insert(connection, in_flight, pending),
        Write::Erase(request) => {
            in_flight.erase(request);
            erasure::step(connection, request)
        }
        Write::ClaimApprovals(asked) => approvals::claim(connection, asked).map(WriteOutcome::Claimed),
        Write::Conversation(write) => conversations::apply(connection, policy, write),
        Write::BeginLogged(run) => idempotency::begin(connection, policy, in_flight, run),
        Write::Withdraw(lease) => idempotency::withdraw(connection, policy, in_flight, lease),
        Write::FailedRequest(record) => failed_requests::insert(connection, policy, in_flight, record),
        Write::Log(lease, events) => event_log::append(connection, policy, lease, events),
        Write::FinishLogged(end) => event_log::finish(connection, policy, in_flight, &end.0, &end.1),
        Write::Enqueue(job) => jobs::enqueue(connection, policy, in_flight, job),
        Write::UpdateRunning(record) => jobs::update_running(connection, policy, record),
        Write::Requeue(lease, requeue) => jobs::requeue(connection, policy, lease, *requeue),
        Write::WaitForInputs(lease) => pending_calls::wait(connection, policy, lease),
        Write::AskQuestions(asked) => pending_calls::ask(connection, policy, asked),
        Write::AnswerInput(answer) => pending_calls::answer(connection, answer),
        Write::StartAsync(call) => async_calls::start(connection, call),
        Write::CompleteAsync(result) => async_calls::complete(connection, result),
        Write::SettleAsync(done) => async_calls::settle(connection, done),
        Write::PollTask(key, after) => async_calls::poll(connection, key, *after),
    }
}
