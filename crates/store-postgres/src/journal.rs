//! The journal of tool calls: a turn is written before its calls are made, and each outcome after its call.

use tokio_postgres::types::Type;

use super::running::{self, RunningRow};
use super::session::{Param, Session};
use super::values::small;
use super::{lifecycle, pending_calls};
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{CallOutcome, QuestionKey, StoreError, TurnRecord};

/// A call that is there is one of a write that is repeated.
const ADD_CALL: &str =
    "INSERT INTO tool_calls (response, owner, turn, position, server_label, tool, arguments, dispatched_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING";

/// Writes a turn with the calls that it makes.
pub(super) async fn commit_turn(
    session: Session<'_>,
    policy: &RowPolicy,
    rows: &mut InFlightRows,
    turn: &TurnRecord,
) -> Result<WriteOutcome, StoreError> {
    let lease = &turn.lease;
    if rows.was_dropped(&lease.id) {
        return Ok(WriteOutcome::Absent);
    }
    let key = match &turn.begin {
        Some(record) => match lifecycle::begin(session, policy, rows, record, turn.state.as_deref()).await? {
            Ok(key) => key,
            Err(refused) => return Ok(refused),
        },
        None => match running::find(session, policy, lease).await? {
            Some((key, RunningRow::Held)) => key,
            // There is nothing to recover.
            Some((_, RunningRow::Deleted)) => return Ok(WriteOutcome::Absent),
            Some((_, RunningRow::Superseded)) | None => return Ok(WriteOutcome::Superseded),
        },
    };
    running::add_turn(session, key, turn).await?;
    let (number, now) = (small(turn.turn), now());
    for (position, call) in (0_i32..).zip(&turn.calls) {
        let params: [Param<'_>; 8] = [
            (&key.0, Type::UUID),
            (&key.1, Type::INT8),
            (&number, Type::INT4),
            (&position, Type::INT4),
            (&call.server_label.as_bytes(), Type::BYTEA),
            (&call.tool.as_bytes(), Type::BYTEA),
            (&call.arguments.as_bytes(), Type::BYTEA),
            (&now, Type::INT8),
        ];
        session.execute(ADD_CALL, &params).await?;
    }
    pending_calls::insert(session, key, turn.turn, &turn.pending).await?;
    pending_calls::await_results(session, key, &turn.awaited).await?;
    Ok(WriteOutcome::Changed)
}

const RESULT: &str = "UPDATE tool_calls SET completed_at = $1, output = $2, error = $3
    WHERE response = $4 AND owner = $5 AND turn = $6 AND position = $7";

/// Writes the outcome of a call.
pub(super) async fn record_tool_result(
    session: Session<'_>,
    policy: &RowPolicy,
    outcome: &CallOutcome,
) -> Result<WriteOutcome, StoreError> {
    // The item of a response that has ended holds the outcome.
    let Some((key, RunningRow::Held)) = running::find(session, policy, &outcome.lease).await? else {
        return Ok(WriteOutcome::Absent);
    };
    let params: [Param<'_>; 7] = [
        (&now(), Type::INT8),
        (&outcome.output.as_bytes(), Type::BYTEA),
        (&outcome.error, Type::TEXT),
        (&key.0, Type::UUID),
        (&key.1, Type::INT8),
        (&small(outcome.turn), Type::INT4),
        (&small(outcome.index), Type::INT4),
    ];
    match QuestionKey::is_row(outcome.index) {
        true => pending_calls::close_question(session, &params).await?,
        false => session.execute(RESULT, &params).await.map(drop)?,
    }
    Ok(WriteOutcome::Changed)
}
