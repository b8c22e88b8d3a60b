//! Calls whose results come from outside their run, the runs that wait for them, and the answers of clients and users.

use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::database;
use super::read::{find_live, text};
use super::running::{self, NOBODY, RunningRow};
use super::{owners, rows};
use antwort_protocol::id::Id;
use antwort_store::operation::WriteOutcome;
use antwort_store::retention::millis;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{
    AskedQuestions, CallOutcome, GivenAnswer, InputAnswer, InputOutcome, Lease, NewPendingCall, Owner,
    PendingCall, PendingSource, StoreError,
};

/// The last time until which a run waits for one of its calls.
const OPEN_UNTIL: &str = "SELECT max(expires_at) FROM pending_calls
    WHERE response = ?1 AND awaited = 1 AND completed_at IS NULL AND expires_at > ?2";

/// One that is to be cancelled does not wait: whoever claims it ends it.
const WAIT: &str = "UPDATE runs SET instance = ?2, attempt = max(attempt - 1, 0),
        lease_until = CASE WHEN cancel_requested = 0 THEN coalesce(?3, 0) ELSE 0 END,
        waits_until = CASE WHEN cancel_requested = 0 THEN ?3 END
    WHERE response = ?1 RETURNING waits_until";

/// Ends the lease of a run until its calls are answered.
pub(super) fn wait(
    connection: &Connection,
    policy: &RowPolicy,
    lease: &Lease,
) -> rusqlite::Result<WriteOutcome> {
    match running::find(connection, policy, lease)? {
        Some((key, RunningRow::Held)) => {
            let now = now();
            let until: Option<i64> = connection
                .prepare_cached(WAIT)?
                .query_row(params![key, NOBODY, open_until(connection, key, now)?], |row| row.get(0))?;
            let left = until.map_or(0, |until| until.saturating_sub(now)).unsigned_abs();
            Ok(WriteOutcome::Waits(Duration::from_millis(left)))
        }
        Some((key, RunningRow::Deleted)) => {
            rows::remove(connection, key)?;
            Ok(WriteOutcome::Absent)
        }
        Some((_, RunningRow::Superseded)) => Ok(WriteOutcome::Superseded),
        None => Ok(WriteOutcome::Absent),
    }
}

fn open_until(connection: &Connection, key: i64, now: i64) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached(OPEN_UNTIL)?.query_row(params![key, now], |row| row.get(0))
}

/// Writes questions of calls of a turn, or asks them anew.
pub(super) fn ask(
    connection: &Connection,
    policy: &RowPolicy,
    asked: &AskedQuestions,
) -> rusqlite::Result<WriteOutcome> {
    let key = match running::find(connection, policy, &asked.lease)? {
        Some((key, RunningRow::Held)) => key,
        Some((_, RunningRow::Deleted)) => return Ok(WriteOutcome::Absent),
        Some((_, RunningRow::Superseded)) | None => return Ok(WriteOutcome::Superseded),
    };
    insert(connection, key, asked.turn, &asked.questions)?;
    Ok(WriteOutcome::Changed)
}

/// Writes pending calls of a turn. One that was asked before, and is not answered, can be answered for that long from now on.
pub(super) fn insert(
    connection: &Connection,
    response: i64,
    turn: u32,
    calls: &[NewPendingCall],
) -> rusqlite::Result<()> {
    if calls.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(
        "INSERT INTO pending_calls (response, turn, position, source, awaited, expires_at, call_id, tool, request)
         VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, ?7, ?8) ON CONFLICT (response, turn, position) DO UPDATE SET
            expires_at = excluded.expires_at WHERE completed_at IS NULL",
    )?;
    let now = now();
    for call in calls {
        statement.execute(params![
            response,
            turn,
            call.index,
            call.source.as_str(),
            now.saturating_add(millis(call.timeout)),
            call.call_id,
            call.tool,
            call.request,
        ])?;
    }
    Ok(())
}

/// The run waits for the results of these calls, whose work goes on, before it is claimed again.
pub(super) fn await_results(
    connection: &Connection,
    response: i64,
    calls: &[(u32, u32)],
) -> rusqlite::Result<()> {
    for (turn, position) in calls {
        connection
            .prepare_cached(
                "UPDATE pending_calls SET awaited = 1 WHERE response = ?1 AND turn = ?2 AND position = ?3",
            )?
            .execute(params![response, turn, position])?;
    }
    Ok(())
}

/// The pending calls of a run that is taken over, in order.
pub(super) fn of_run(connection: &Connection, response: i64) -> rusqlite::Result<Vec<PendingCall>> {
    let mut statement = connection.prepare_cached(
        "SELECT turn, position, source, call_id, request, output, error, completed_at IS NOT NULL,
            max(expires_at - ?2, 0)
         FROM pending_calls WHERE response = ?1 ORDER BY turn, position",
    )?;
    let call = |row: &Row<'_>| {
        let outcome = (row.get::<_, Option<String>>(5)?.unwrap_or_default(), row.get(6)?);
        Ok(PendingCall {
            turn: row.get(0)?,
            index: row.get(1)?,
            source: source(row, 2)?,
            call_id: row.get::<_, Option<String>>(3)?.unwrap_or_default(),
            request: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
            outcome: row.get::<_, bool>(7)?.then_some(outcome),
            left: PendingCall::time_left(row.get(8)?),
        })
    };
    statement.query_map(params![response, now()], call)?.collect()
}

/// The source of a row; one that this version does not know cannot be waited for.
fn source(row: &Row<'_>, column: usize) -> rusqlite::Result<PendingSource> {
    let unknown = || {
        let error = format!("{:?} is no source of a pending call", text(row, column));
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
    };
    PendingSource::named(text(row, column)?).ok_or_else(unknown)
}

/// Writes that a question is not waited for any more, or what else has become of it, unless it was answered.
pub(super) fn close_question(
    connection: &Connection,
    response: i64,
    outcome: &CallOutcome,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE pending_calls SET completed_at = ?1, output = ?2, error = ?3
             WHERE response = ?4 AND turn = ?5 AND position = ?6 AND completed_at IS NULL",
        )?
        .execute(params![now(), outcome.output, outcome.error, response, outcome.turn, outcome.index])?;
    Ok(())
}

/// The answers that were given to a run.
pub(super) fn given(
    connection: &Connection,
    owner: &Owner,
    response: &Id,
) -> Result<Vec<GivenAnswer>, StoreError> {
    let Some(owner) = owners::find(connection, owner).map_err(database)? else { return Ok(Vec::new()) };
    let Some(key) = find_live(connection, owner, response.as_str()).map_err(database)? else {
        return Ok(Vec::new());
    };
    let mut statement = connection
        .prepare_cached(
            "SELECT call_id, coalesce(output, ''), error FROM pending_calls
             WHERE response = ?1 AND call_id IS NOT NULL AND completed_at IS NOT NULL",
        )
        .map_err(database)?;
    let answer =
        |row: &Row<'_>| Ok(GivenAnswer { call_id: row.get(0)?, output: row.get(1)?, error: row.get(2)? });
    let given = statement.query_map([key], answer).map_err(database)?;
    given.collect::<Result<_, _>>().map_err(database)
}

/// A call that is, or was, answered from outside.
struct AskedCall {
    /// Its result, and the code of the failure.
    answer: Option<(String, Option<String>)>,
    expires_at: i64,
    turn: i64,
}

/// The bytes of the items of a response that are stored, and of the results of the turn ?2.
const USED: &str = "SELECT (SELECT coalesce(sum(octet_length(items)), 0) FROM turns WHERE response = ?1)
    + (SELECT coalesce(sum(octet_length(output)), 0) FROM tool_calls
        WHERE response = ?1 AND turn = ?2 AND completed_at IS NOT NULL)
    + (SELECT coalesce(sum(octet_length(output)), 0) FROM pending_calls
        WHERE response = ?1 AND turn = ?2 AND call_id IS NOT NULL AND completed_at IS NOT NULL)";

impl AskedCall {
    const FIND: &str = "SELECT completed_at IS NOT NULL, output, error, expires_at, turn FROM pending_calls
        WHERE response = ?1 AND call_id = ?2 ORDER BY turn DESC LIMIT 1";

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (is_answered, output) = (row.get(0)?, row.get::<_, Option<String>>(1)?.unwrap_or_default());
        let error = row.get(2)?;
        Ok(Self {
            answer: bool::then(is_answered, || (output, error)),
            expires_at: row.get::<_, Option<i64>>(3)?.unwrap_or_default(),
            turn: row.get(4)?,
        })
    }
}

/// Stores an answer, and lets the run go on if it was the last.
pub(super) fn answer(connection: &Connection, given: &InputAnswer) -> rusqlite::Result<WriteOutcome> {
    let row = match owners::find(connection, &given.owner)? {
        Some(owner) => find_live(connection, owner, given.response.as_str())?,
        None => None,
    };
    let Some(key) = row else { return Ok(WriteOutcome::Answered(InputOutcome::NotFound)) };
    let asked = connection
        .prepare_cached(AskedCall::FIND)?
        .query_row(params![key, given.call_id], AskedCall::read)
        .optional()?;
    let Some(AskedCall { answer, expires_at, turn }) = asked else {
        return Ok(WriteOutcome::Answered(InputOutcome::NotPending));
    };
    if let Some((output, error)) = answer {
        let is_same = output == given.output && error.as_deref() == given.error;
        return Ok(WriteOutcome::Answered(InputOutcome::of_repetition(is_same)));
    }
    let now = now();
    if expires_at <= now {
        return Ok(WriteOutcome::Answered(InputOutcome::Expired));
    }
    let is_wanted = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM runs WHERE response = ?1 AND cancel_requested = 0)")?
        .query_row([key], |row| row.get::<_, bool>(0))?;
    if !is_wanted {
        return Ok(WriteOutcome::Answered(InputOutcome::NotPending));
    }
    let used: i64 = connection.prepare_cached(USED)?.query_row([key, turn], |row| row.get(0))?;
    if used.unsigned_abs().saturating_add(given.output.len() as u64) > given.max_response_bytes {
        return Ok(WriteOutcome::Answered(InputOutcome::TooLarge));
    }
    connection
        .prepare_cached(
            "UPDATE pending_calls SET completed_at = ?1, output = ?2, error = ?3
             WHERE response = ?4 AND call_id = ?5 AND completed_at IS NULL",
        )?
        .execute(params![now, given.output, given.error, key, given.call_id])?;
    let is_last = resume_if_last(connection, key)?;
    Ok(WriteOutcome::Answered(InputOutcome::Accepted { is_last }))
}

/// Lets a run go on that has waited for nothing else. Returns whether it waits for nothing any more.
pub(super) fn resume_if_last(connection: &Connection, key: i64) -> rusqlite::Result<bool> {
    let is_last = open_until(connection, key, now())?.is_none();
    if is_last {
        connection
            .prepare_cached(
                "UPDATE runs SET lease_until = 0 WHERE response = ?1 AND waits_until IS NOT NULL",
            )?
            .execute([key])?;
    }
    Ok(is_last)
}
