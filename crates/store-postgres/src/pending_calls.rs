//! Calls whose results come from outside their run, the runs that wait for them, and the answers of clients and users.

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::clock::db_now;
use super::error::corrupt;
use super::running::{self, RunningRow};
use super::session::{Param, Session};
use super::values::{get, small, text, text_or_null};
use super::{owners, removal, rows};
use antwort_identity::Owner;
use antwort_protocol::id::Id;
use antwort_store::operation::WriteOutcome;
use antwort_store::retention::millis;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{
    AskedQuestions, GivenAnswer, InputAnswer, InputOutcome, Lease, NewPendingCall, PendingCall,
    PendingSource, StoreError,
};

/// The last time until which a run waits for one of its calls.
macro_rules! open_until {
    () => {
        concat!(
            "(SELECT max(c.expires_at) FROM pending_calls c WHERE c.response = $1 AND c.owner = $2
                AND c.awaited AND c.completed_at IS NULL AND c.expires_at > ",
            db_now!(),
            ")"
        )
    };
}

const WAIT: &str = concat!(
    "UPDATE runs SET instance = '', claim = NULL, attempt = greatest(attempt - 1, 0),
        lease_until = CASE WHEN cancel_requested THEN 0 ELSE coalesce(o.until, 0) END,
        waits_until = CASE WHEN cancel_requested THEN NULL ELSE o.until END
    FROM (SELECT ",
    open_until!(),
    " AS until) o WHERE response = $1 AND owner = $2 AND attempt IS NOT NULL
    RETURNING coalesce(waits_until - ",
    db_now!(),
    ", 0)"
);

/// Ends the lease of a run until its calls are answered.
pub(super) async fn wait(
    session: Session<'_>,
    policy: &RowPolicy,
    lease: &Lease,
) -> Result<WriteOutcome, StoreError> {
    match running::find(session, policy, lease).await? {
        Some((key, RunningRow::Held)) => {
            let place: [Param<'_>; 2] = [(&key.0, Type::UUID), (&key.1, Type::INT8)];
            let left = match session.query_opt(WAIT, &place).await? {
                Some(row) => u64::try_from(get::<i64>(&row, 0)?).unwrap_or_default(),
                None => 0,
            };
            Ok(WriteOutcome::Waits(Duration::from_millis(left)))
        }
        Some((key, RunningRow::Deleted)) => {
            removal::remove_all(session, &[key]).await?;
            Ok(WriteOutcome::Absent)
        }
        Some((_, RunningRow::Superseded)) => Ok(WriteOutcome::Superseded),
        None => Ok(WriteOutcome::Absent),
    }
}

const INSERT: &str = concat!(
    "INSERT INTO pending_calls AS c (response, owner, turn, position, source, awaited, expires_at, call_id, tool, request)
    VALUES ($1, $2, $3, $4, $5, true, $6 + ",
    db_now!(),
    ", $7, $8, $9) ON CONFLICT (response, owner, turn, position) DO UPDATE SET expires_at = excluded.expires_at
        WHERE c.completed_at IS NULL"
);

/// Writes pending calls of a turn. One that was asked before, and is not answered, can be answered for that long from now on.
pub(super) async fn insert(
    session: Session<'_>,
    key: (Uuid, i64),
    turn: u32,
    calls: &[NewPendingCall],
) -> Result<(), StoreError> {
    for call in calls {
        let parameters: [Param<'_>; 9] = [
            (&key.0, Type::UUID),
            (&key.1, Type::INT8),
            (&small(turn), Type::INT4),
            (&small(call.index), Type::INT4),
            (&call.source.as_str(), Type::TEXT),
            (&millis(call.timeout), Type::INT8),
            (&call.call_id.as_bytes(), Type::BYTEA),
            (&call.tool.as_bytes(), Type::BYTEA),
            (&call.request.as_bytes(), Type::BYTEA),
        ];
        session.execute(INSERT, &parameters).await?;
    }
    Ok(())
}

const AWAIT: &str = "UPDATE pending_calls SET awaited = true
    WHERE response = $1 AND owner = $2 AND turn = $3 AND position = $4";

/// The run waits for the results of these calls, whose work goes on, before it is claimed again.
pub(super) async fn await_results(
    session: Session<'_>,
    key: (Uuid, i64),
    calls: &[(u32, u32)],
) -> Result<(), StoreError> {
    for (turn, position) in calls {
        let parameters: [Param<'_>; 4] = [
            (&key.0, Type::UUID),
            (&key.1, Type::INT8),
            (&small(*turn), Type::INT4),
            (&small(*position), Type::INT4),
        ];
        session.execute(AWAIT, &parameters).await?;
    }
    Ok(())
}

/// The pending calls of the runs of these responses and owners.
pub(super) const OF_RUNS: &str = concat!(
    "SELECT c.response, c.owner, c.turn, c.position, c.source, c.call_id, c.request, c.output, c.error,
        c.completed_at IS NOT NULL, c.expires_at - ",
    db_now!(),
    " FROM pending_calls c
    JOIN unnest($1::uuid[], $2::bigint[]) AS g (response, owner) ON g.response = c.response AND g.owner = c.owner
    ORDER BY c.response, c.owner, c.turn, c.position"
);

/// A row of [`OF_RUNS`]. One with a source that this version does not know cannot be waited for.
pub(super) fn read(row: &Row) -> Result<PendingCall, StoreError> {
    let source: &str = get(row, 4)?;
    let outcome = (text_or_null(row, 7)?.unwrap_or_default().to_owned(), get(row, 8)?);
    let unknown = || corrupt(format!("{source:?} is no source of a pending call"));
    Ok(PendingCall {
        turn: get::<i32>(row, 2)?.unsigned_abs(),
        index: get::<i32>(row, 3)?.unsigned_abs(),
        source: PendingSource::named(source).ok_or_else(unknown)?,
        call_id: text_or_null(row, 5)?.unwrap_or_default().to_owned(),
        request: text_or_null(row, 6)?.unwrap_or_default().to_owned(),
        outcome: get::<bool>(row, 9)?.then_some(outcome),
        left: PendingCall::time_left(get(row, 10)?),
    })
}

const CLOSE: &str = "UPDATE pending_calls SET completed_at = $1, output = $2, error = $3
    WHERE response = $4 AND owner = $5 AND turn = $6 AND position = $7 AND completed_at IS NULL";

/// Writes that a question is not waited for any more, or what else has become of it, unless it was answered.
pub(super) async fn close_question(
    session: Session<'_>,
    parameters: &[Param<'_>; 7],
) -> Result<(), StoreError> {
    session.execute(CLOSE, parameters).await.map(drop)
}

/// Writes questions of calls of a turn, or asks them anew.
pub(super) async fn ask(
    session: Session<'_>,
    policy: &RowPolicy,
    asked: &AskedQuestions,
) -> Result<WriteOutcome, StoreError> {
    let key = match running::find(session, policy, &asked.lease).await? {
        Some((key, RunningRow::Held)) => key,
        Some((_, RunningRow::Deleted)) => return Ok(WriteOutcome::Absent),
        Some((_, RunningRow::Superseded)) | None => return Ok(WriteOutcome::Superseded),
    };
    insert(session, key, asked.turn, &asked.questions).await?;
    Ok(WriteOutcome::Changed)
}

const GIVEN: &str = "SELECT call_id, output, error FROM pending_calls
    WHERE response = $1 AND owner = $2 AND call_id IS NOT NULL AND completed_at IS NOT NULL";

/// The answers that were given to a run.
pub(super) async fn given(
    session: Session<'_>,
    owner: &Owner,
    response: &Id,
) -> Result<Vec<GivenAnswer>, StoreError> {
    let row = match owners::find(session, owner).await? {
        Some(owner) => rows::find(session, owner, response.as_str()).await?,
        None => None,
    };
    let Some(row) = row else { return Ok(Vec::new()) };
    let place: [Param<'_>; 2] = [(&row.key.0, Type::UUID), (&row.key.1, Type::INT8)];
    let given = session.query(GIVEN, &place).await?;
    given
        .iter()
        .map(|row| {
            Ok(GivenAnswer {
                call_id: text(row, 0)?.to_owned(),
                output: text_or_null(row, 1)?.unwrap_or_default().to_owned(),
                error: get::<Option<&str>>(row, 2)?.map(str::to_owned),
            })
        })
        .collect()
}

/// Locks the run, so that answers and its own writes come one after the other.
const LOCK: &str = "SELECT NOT cancel_requested FROM runs WHERE response = $1 AND owner = $2 FOR UPDATE";

const FIND: &str = concat!(
    "SELECT c.completed_at IS NOT NULL, c.output, c.error, c.expires_at <= ",
    db_now!(),
    ", c.turn FROM pending_calls c WHERE c.response = $1 AND c.owner = $2 AND c.call_id = $3 ORDER BY c.turn DESC LIMIT 1"
);

/// The bytes of the items of a response that are stored, and of the results of the turn $3.
const USED: &str =
    "SELECT (SELECT coalesce(sum(octet_length(items)), 0) FROM turns WHERE response = $1 AND owner = $2)
    + (SELECT coalesce(sum(octet_length(output)), 0) FROM tool_calls
        WHERE response = $1 AND owner = $2 AND turn = $3 AND completed_at IS NOT NULL)
    + (SELECT coalesce(sum(octet_length(output)), 0) FROM pending_calls
        WHERE response = $1 AND owner = $2 AND turn = $3 AND call_id IS NOT NULL AND completed_at IS NOT NULL)";

const ANSWER: &str = "UPDATE pending_calls SET completed_at = $3, output = $4, error = $5
    WHERE response = $1 AND owner = $2 AND call_id = $6 AND completed_at IS NULL";

const IS_OPEN: &str = concat!("SELECT ", open_until!(), " IS NOT NULL");

const RESUME: &str =
    "UPDATE runs SET lease_until = 0 WHERE response = $1 AND owner = $2 AND waits_until IS NOT NULL";

/// Stores an answer, and lets the run go on if it was the last.
pub(super) async fn answer(session: Session<'_>, given: &InputAnswer) -> Result<WriteOutcome, StoreError> {
    outcome(session, given).await.map(WriteOutcome::Answered)
}

async fn outcome(session: Session<'_>, given: &InputAnswer) -> Result<InputOutcome, StoreError> {
    let row = match owners::find(session, &given.owner).await? {
        Some(owner) => rows::find(session, owner, given.response.as_str()).await?,
        None => None,
    };
    let written = now();
    let Some(row) = row.filter(|row| row.expires_at.is_none_or(|at| at > written)) else {
        return Ok(InputOutcome::NotFound);
    };
    let [response, owner]: [Param<'_>; 2] = [(&row.key.0, Type::UUID), (&row.key.1, Type::INT8)];
    let locked = session.query_opt(LOCK, &[response.clone(), owner.clone()]).await?;
    let is_wanted = locked.map(|run| get::<bool>(&run, 0)).transpose()?.unwrap_or_default();
    let name = given.call_id.as_bytes();
    let call_id: Param<'_> = (&name, Type::BYTEA);
    let Some(asked) = session.query_opt(FIND, &[response.clone(), owner.clone(), call_id.clone()]).await?
    else {
        return Ok(InputOutcome::NotPending);
    };
    if get::<bool>(&asked, 0)? {
        let (output, error) = (text_or_null(&asked, 1)?.unwrap_or_default(), get::<Option<&str>>(&asked, 2)?);
        return Ok(InputOutcome::of_repetition(output == given.output && error == given.error));
    }
    if get::<Option<bool>>(&asked, 3)?.unwrap_or(true) {
        return Ok(InputOutcome::Expired);
    }
    if !is_wanted {
        return Ok(InputOutcome::NotPending);
    }
    let turn: i32 = get(&asked, 4)?;
    let used = session.query_opt(USED, &[response.clone(), owner.clone(), (&turn, Type::INT4)]).await?;
    let used = used.map(|row| get::<i64>(&row, 0)).transpose()?.unwrap_or_default().unsigned_abs();
    if used.saturating_add(given.output.len() as u64) > given.max_response_bytes {
        return Ok(InputOutcome::TooLarge);
    }
    let parameters: [Param<'_>; 6] = [
        response.clone(),
        owner.clone(),
        (&written, Type::INT8),
        (&given.output.as_bytes(), Type::BYTEA),
        (&given.error, Type::TEXT),
        call_id,
    ];
    session.execute(ANSWER, &parameters).await?;
    Ok(InputOutcome::Accepted { is_last: resume_if_last(session, row.key).await? })
}

/// Lets a run go on that has waited for nothing else. Returns whether it waits for nothing any more.
pub(super) async fn resume_if_last(session: Session<'_>, key: (Uuid, i64)) -> Result<bool, StoreError> {
    let place: [Param<'_>; 2] = [(&key.0, Type::UUID), (&key.1, Type::INT8)];
    let is_open = session.query_opt(IS_OPEN, &place).await?.map(|row| get::<bool>(&row, 0)).transpose()?;
    let is_last = is_open != Some(true);
    if is_last {
        session.execute(RESUME, &place).await?;
    }
    Ok(is_last)
}
