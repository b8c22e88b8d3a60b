//! The journal of tool calls: a turn is written before its calls are made, and each outcome after its call.

use rusqlite::{Connection, params};

use super::in_flight::InFlightRows;
use super::owners;
use super::retention::{self, RowPolicy};
use super::running::{self, RunningRow};
use super::write::{self, WriteOutcome};
use crate::store::{CallOutcome, TurnRecord};

/// Writes a turn with the calls that it makes.
pub(super) fn commit_turn(
    connection: &Connection,
    policy: &RowPolicy,
    rows: &mut InFlightRows,
    turn: &TurnRecord,
) -> rusqlite::Result<WriteOutcome> {
    let lease = &turn.lease;
    if rows.is_deleted(&lease.id) {
        return Ok(WriteOutcome::Absent);
    }
    if let Some(record) = &turn.begin {
        let begun = write::begin(connection, policy, rows, record, turn.state.as_deref())?;
        if begun != WriteOutcome::Changed {
            return Ok(begun);
        }
    }
    let Some(key) = running::key(connection, policy, rows, lease)? else {
        return Ok(WriteOutcome::Superseded);
    };
    match running::find(connection, policy, lease, key)? {
        RunningRow::Held => {}
        // There is nothing to recover.
        RunningRow::Deleted => return Ok(WriteOutcome::Absent),
        RunningRow::Superseded | RunningRow::Absent => return Ok(WriteOutcome::Superseded),
    }
    if let Some(state) = &turn.state
        && turn.begin.is_none()
    {
        running::set_state(connection, key, state)?;
    }
    let Some(owner) = owners::key_of_response(connection, key)? else { return Ok(WriteOutcome::Absent) };
    write::insert_items(
        connection,
        key,
        owner,
        i64::try_from(turn.first_position).unwrap_or(i64::MAX),
        &turn.items,
    )?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO tool_calls (response, turn, position, server_label, tool, arguments, dispatched_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    let now = retention::now();
    for (position, call) in (0_i64..).zip(&turn.calls) {
        statement.execute(params![
            key,
            turn.turn,
            position,
            call.server_label,
            call.tool,
            call.arguments,
            now
        ])?;
    }
    Ok(WriteOutcome::Changed)
}

/// Writes the outcome of a call.
pub(super) fn record_tool_result(
    connection: &Connection,
    policy: &RowPolicy,
    rows: &InFlightRows,
    outcome: &CallOutcome,
) -> rusqlite::Result<WriteOutcome> {
    let lease = &outcome.lease;
    // The item of a response that has ended holds the outcome.
    let Some(key) = running::key(connection, policy, rows, lease)? else { return Ok(WriteOutcome::Absent) };
    if running::find(connection, policy, lease, key)? != RunningRow::Held {
        return Ok(WriteOutcome::Absent);
    }
    connection
        .prepare_cached(
            "UPDATE tool_calls SET completed_at = ?1, output = ?2, error = ?3
             WHERE response = ?4 AND turn = ?5 AND position = ?6",
        )?
        .execute(params![
            retention::now(),
            outcome.output,
            outcome.error,
            key,
            outcome.turn,
            outcome.index,
        ])?;
    Ok(WriteOutcome::Changed)
}
