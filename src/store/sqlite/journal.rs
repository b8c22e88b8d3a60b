//! The journal of tool calls: a turn is written before its calls are made, and each outcome after its call.

use rusqlite::{Connection, params};

use super::OUTPUT;
use super::in_flight::InFlightRows;
use super::owners;
use super::retention::{self, RowPolicy};
use super::running::{self, RunningRow};
use super::write::{self, WriteOutcome};
use crate::protocol::id::Id;
use crate::protocol::item::hosted::{McpCall, McpCallError};
use crate::protocol::item::{Item, ItemStatus};
use crate::protocol::response::to_raw;
use crate::store::{CallOutcome, Direction, ModelView, StoredItem, TurnRecord};

/// What the model and clients are told of a call whose outcome is unknown.
const UNKNOWN: &str =
    "the gateway was stopped between this call and its result; the call may have been executed";

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

/// Turns the calls of the last turn of a response whose process is gone into items, as no item shows them yet. Calls
/// without an outcome are declared unknown, and are never repeated.
pub(super) fn recover_calls(connection: &Connection, key: i64, now: i64) -> rusqlite::Result<()> {
    let last: Option<i64> = connection
        .prepare_cached("SELECT max(turn) FROM tool_calls WHERE response = ?1")?
        .query_row([key], |row| row.get(0))?;
    let Some(last) = last else { return Ok(()) };
    connection
        .prepare_cached(
            "UPDATE tool_calls SET completed_at = ?1, output = ?2, error = 'outcome_unknown'
             WHERE response = ?3 AND completed_at IS NULL",
        )?
        .execute(params![now, UNKNOWN, key])?;
    let calls: Vec<Item> = connection
        .prepare_cached(
            "SELECT server_label, tool, arguments, output, error FROM tool_calls
             WHERE response = ?1 AND turn = ?2 ORDER BY position",
        )?
        .query_map(params![key, last], |row| {
            Ok(item(row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let next: i64 = connection
        .prepare_cached("SELECT coalesce(max(position) + 1, 0) FROM items WHERE response = ?1")?
        .query_row([key], |row| row.get(0))?;
    let items: Vec<StoredItem> = calls
        .iter()
        .map(|item| StoredItem {
            id: item.id().clone(),
            direction: Direction::Output,
            wire: to_raw(item).get().into(),
            model_view: ModelView::Same,
            state: None,
        })
        .collect();
    let Some(owner) = owners::key_of_response(connection, key)? else { return Ok(()) };
    write::insert_items(connection, key, owner, next, &items)
}

/// The output of a response as its items have it; `None` if it has no journal, and so nothing but its body.
pub(super) fn output(connection: &Connection, key: i64) -> rusqlite::Result<Option<Vec<String>>> {
    let journalled: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM tool_calls WHERE response = ?1)")?
        .query_row([key], |row| row.get(0))?;
    if !journalled {
        return Ok(None);
    }
    let wires = connection
        .prepare_cached("SELECT wire FROM items WHERE response = ?1 AND side = ?2 ORDER BY position")?
        .query_map(params![key, OUTPUT], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Some(wires))
}

fn item(
    server_label: String,
    name: String,
    arguments: String,
    output: Option<String>,
    error: Option<String>,
) -> Item {
    let failed =
        error.map(|code| McpCallError::from_tool_error(&code, output.as_deref().unwrap_or_default()));
    Item::McpCall(McpCall {
        id: Id::generate("mcp"),
        server_label,
        name,
        arguments,
        status: if failed.is_some() { ItemStatus::Failed } else { ItemStatus::Completed },
        output: output.filter(|_| failed.is_none()),
        error: failed,
        approval_request_id: None,
    })
}
