//! The journal of tool calls: a turn is written before its calls are made, and each outcome after its call.

use rusqlite::{Connection, params};

use super::running::{self, RunningRow};
use super::{lifecycle, pending_calls};
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::{self, RowPolicy};
use antwort_store::{CallOutcome, QuestionKey, TurnRecord};

/// Writes a turn with the calls that it makes.
pub(super) fn commit_turn(
    connection: &Connection,
    policy: &RowPolicy,
    rows: &mut InFlightRows,
    turn: &TurnRecord,
) -> rusqlite::Result<WriteOutcome> {
    let lease = &turn.lease;
    if rows.was_dropped(&lease.id) {
        return Ok(WriteOutcome::Absent);
    }
    let key = match &turn.begin {
        Some(record) => match lifecycle::begin(connection, policy, rows, record, turn.state.as_deref())? {
            Ok(key) => key,
            Err(refused) => return Ok(refused),
        },
        None => match running::find(connection, policy, lease)? {
            Some((key, RunningRow::Held)) => key,
            // There is nothing to recover.
            Some((_, RunningRow::Deleted)) => return Ok(WriteOutcome::Absent),
            Some((_, RunningRow::Superseded)) | None => return Ok(WriteOutcome::Superseded),
        },
    };
    running::add_turn(connection, key, turn)?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO tool_calls (response, turn, position, server_label, tool, arguments, dispatched_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    let now = row_policy::now();
    for (position, call) in (0_i64..).zip(&turn.calls) {
        statement.execute(params![
            key,
            turn.turn,
            position,
            call.server_label,
            call.tool,
            call.arguments,
            now,
        ])?;
    }
    pending_calls::insert(connection, key, turn.turn, &turn.pending)?;
    pending_calls::await_results(connection, key, &turn.awaited)?;
    Ok(WriteOutcome::Changed)
}

/// Writes the outcome of a call.
pub(super) fn record_tool_result(
    connection: &Connection,
    policy: &RowPolicy,
    outcome: &CallOutcome,
) -> rusqlite::Result<WriteOutcome> {
    // The item of a response that has ended holds the outcome.
    let Some((key, RunningRow::Held)) = running::find(connection, policy, &outcome.lease)? else {
        return Ok(WriteOutcome::Absent);
    };
    if QuestionKey::is_row(outcome.index) {
        pending_calls::close_question(connection, key, outcome)?;
        return Ok(WriteOutcome::Changed);
    }
    connection
        .prepare_cached(
            "UPDATE tool_calls SET completed_at = ?1, output = ?2, error = ?3
             WHERE response = ?4 AND turn = ?5 AND position = ?6",
        )?
        .execute(params![
            row_policy::now(),
            outcome.output,
            outcome.error,
            key,
            outcome.turn,
            outcome.index,
        ])?;
    Ok(WriteOutcome::Changed)
}
