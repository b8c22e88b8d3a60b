//! Calls whose work has gone on after their answer.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::clock::{db_now, db_statement_time};
use super::conversation_items::key_of;
use super::keys::{ResponseKey, id_of};
use super::session::{Param, Session};
use super::values::{get, small, text, text_or_null};
use super::{outbox, owners, pending_calls, rows};
use antwort_protocol::id::Id;
use antwort_store::operation::WriteOutcome;
use antwort_store::retention::millis;
use antwort_store::row_policy::now;
use antwort_store::{
    AsyncCallKey, AsyncOutcome, AsyncResult, AsyncSettlement, CompletedCall, DueTask, ItemChange, ModelView,
    Owner, StartedCall, StoreError, TraceChange, item_change,
};

/// The key of the response of a call and of its owner, unless it has expired. Its run is locked, if it goes on or waits.
async fn place(session: Session<'_>, key: &AsyncCallKey) -> Result<Option<(Uuid, i64)>, StoreError> {
    let Some(owner) = owners::find(session, &key.owner).await? else { return Ok(None) };
    let (row, now) = (rows::find(session, owner, key.response.as_str()).await?, now());
    Ok(row.filter(|row| row.expires_at.is_none_or(|at| at > now)).map(|row| row.key))
}

const START: &str = concat!(
    "INSERT INTO pending_calls AS a
        (response, owner, turn, position, source, awaited, expires_at, item_id, tool, on_complete, spec, task, poll_at)
    VALUES ($1, $2, $3, $4, 'async', false, $5 + ",
    db_now!(),
    ", $6, $7, $8, $9, $10, $11 + ",
    db_now!(),
    ") ON CONFLICT (response, owner, turn, position) DO UPDATE SET item_id = excluded.item_id,
        tool = excluded.tool, on_complete = excluded.on_complete, spec = excluded.spec,
        task = coalesce(excluded.task, a.task), poll_at = coalesce(excluded.poll_at, a.poll_at)"
);

/// Writes that a call has answered.
pub(super) async fn start(session: Session<'_>, call: &StartedCall) -> Result<WriteOutcome, StoreError> {
    let Some((response, owner)) = place(session, &call.key).await? else { return Ok(WriteOutcome::Absent) };
    let sealed = call.task.as_ref().map(|task| &*task.sealed);
    let after = call.task.as_ref().map(|task| millis(task.after));
    let parameters: [Param<'_>; 11] = [
        (&response, Type::UUID),
        (&owner, Type::INT8),
        (&small(call.key.turn), Type::INT4),
        (&small(call.key.index), Type::INT4),
        (&millis(call.timeout), Type::INT8),
        (&call.item.as_str().as_bytes(), Type::BYTEA),
        (&call.tool.as_bytes(), Type::BYTEA),
        (&call.on_complete, Type::TEXT),
        (&call.spec.as_deref(), Type::BYTEA),
        (&sealed, Type::BYTEA),
        (&after, Type::INT8),
    ];
    session.execute(START, &parameters).await?;
    Ok(WriteOutcome::Changed)
}

const COMPLETE: &str = concat!(
    "INSERT INTO pending_calls AS a
        (response, owner, turn, position, source, awaited, expires_at, completed_at, output, error)
    VALUES ($1, $2, $3, $4, 'async', false, $5 + ",
    db_now!(),
    ", $6, $7, $8) ON CONFLICT (response, owner, turn, position) DO UPDATE SET completed_at = excluded.completed_at,
        output = excluded.output, error = excluded.error WHERE a.completed_at IS NULL AND a.settled_at IS NULL"
);

/// Writes a result, unless there is one.
pub(super) async fn complete(session: Session<'_>, result: &AsyncResult) -> Result<WriteOutcome, StoreError> {
    let Some((response, owner)) = place(session, &result.key).await? else {
        return Ok(WriteOutcome::AsyncResult(AsyncOutcome::NotFound));
    };
    let parameters: [Param<'_>; 8] = [
        (&response, Type::UUID),
        (&owner, Type::INT8),
        (&small(result.key.turn), Type::INT4),
        (&small(result.key.index), Type::INT4),
        (&millis(result.timeout), Type::INT8),
        (&now(), Type::INT8),
        (&result.output.as_bytes(), Type::BYTEA),
        (&result.error, Type::TEXT),
    ];
    let written = session.execute(COMPLETE, &parameters).await?;
    if written > 0 {
        pending_calls::resume_if_last(session, (response, owner)).await?;
    }
    let outcome = if written > 0 { AsyncOutcome::Stored } else { AsyncOutcome::Repeated };
    Ok(WriteOutcome::AsyncResult(outcome))
}

const COMPLETED: &str = concat!(
    "SELECT o.tenant, o.principal, s.key, s.id, a.turn, a.position, a.item_id, a.tool, a.on_complete, a.spec IS NOT NULL,
        a.completed_at IS NOT NULL, a.output, a.error
    FROM pending_calls a JOIN responses s ON s.key = a.response AND s.owner = a.owner JOIN owners o ON o.key = s.owner
    WHERE a.settled_at IS NULL AND a.item_id IS NOT NULL AND s.finished_at IS NOT NULL
        AND (a.completed_at IS NOT NULL OR a.expires_at <= ",
    db_now!(),
    ") ORDER BY a.expires_at LIMIT $1"
);

/// Calls that are to be settled.
pub(super) async fn completed(session: Session<'_>, limit: usize) -> Result<Vec<CompletedCall>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = session.query(COMPLETED, &[(&limit, Type::INT8)]).await?;
    found.iter().map(read).collect()
}

const RESULTS: &str =
    "SELECT o.tenant, o.principal, s.key, s.id, a.turn, a.position, a.item_id, a.tool, a.on_complete, a.spec IS NOT NULL,
        TRUE, a.output, a.error
    FROM pending_calls a JOIN responses s ON s.key = a.response AND s.owner = a.owner JOIN owners o ON o.key = s.owner
    WHERE a.response = ANY($1) AND a.owner = $2 AND a.item_id IS NOT NULL AND a.completed_at IS NOT NULL
        AND (s.expires_at IS NULL OR s.expires_at > $3)
    ORDER BY a.response, a.turn, a.position";

/// The calls of these responses that have a result.
pub(super) async fn results(
    session: Session<'_>,
    owner: &Owner,
    responses: &[Id],
) -> Result<Vec<CompletedCall>, StoreError> {
    let Some(owner) = owners::find(session, owner).await? else { return Ok(Vec::new()) };
    let keys: Vec<Uuid> = responses.iter().map(|id| ResponseKey::of(id.as_str()).uuid).collect();
    let found = session
        .query(RESULTS, &[(&keys, Type::UUID_ARRAY), (&owner, Type::INT8), (&now(), Type::INT8)])
        .await?;
    found.iter().map(read).collect()
}

const SPEC: &str =
    "SELECT spec FROM pending_calls WHERE response = $1 AND owner = $2 AND turn = $3 AND position = $4";

/// What it takes to make the response that follows the result of a call.
pub(super) async fn spec(session: Session<'_>, key: &AsyncCallKey) -> Result<Option<Arc<[u8]>>, StoreError> {
    let Some(owner) = owners::find(session, &key.owner).await? else { return Ok(None) };
    let response = ResponseKey::of(key.response.as_str()).uuid;
    let parameters: [Param<'_>; 4] = [
        (&response, Type::UUID),
        (&owner, Type::INT8),
        (&small(key.turn), Type::INT4),
        (&small(key.index), Type::INT4),
    ];
    let row = session.query_opt(SPEC, &parameters).await?;
    let spec = row.as_ref().map(|row| get::<Option<&[u8]>>(row, 0)).transpose()?.flatten();
    Ok(spec.map(Into::into))
}

/// Whose call a row is: its first columns are tenant, principal, key and id of the response, turn and position.
fn call_key(row: &Row) -> Result<AsyncCallKey, StoreError> {
    Ok(AsyncCallKey {
        owner: Owner { tenant: text(row, 0)?.into(), principal: text(row, 1)?.into() },
        response: id_of(get(row, 2)?, get(row, 3)?)?,
        turn: get::<i32>(row, 4)?.unsigned_abs(),
        index: get::<i32>(row, 5)?.unsigned_abs(),
    })
}

fn read(row: &Row) -> Result<CompletedCall, StoreError> {
    let key = call_key(row)?;
    let result = (text_or_null(row, 11)?.unwrap_or_default().to_owned(), get(row, 12)?);
    Ok(CompletedCall {
        key,
        item: Id::from(text(row, 6)?),
        tool: text(row, 7)?.to_owned(),
        on_complete: get(row, 8)?,
        has_spec: get(row, 9)?,
        result: get::<bool>(row, 10)?.then_some(result),
    })
}

const DUE: &str = concat!(
    "WITH due AS MATERIALIZED (SELECT response, owner, turn, position FROM pending_calls WHERE poll_at <= ",
    db_statement_time!(),
    " ORDER BY poll_at LIMIT $1 FOR UPDATE SKIP LOCKED)
    UPDATE pending_calls a SET poll_at = $2 + ",
    db_statement_time!(),
    " FROM due d, responses s, owners o
    WHERE a.response = d.response AND a.owner = d.owner AND a.turn = d.turn AND a.position = d.position
        AND s.key = a.response AND s.owner = a.owner AND o.key = s.owner
    RETURNING o.tenant, o.principal, s.key, s.id, a.turn, a.position, a.task,
        a.completed_at IS NULL AND a.settled_at IS NULL AND s.status <> 'cancelled' AND a.expires_at > ",
    db_statement_time!()
);

/// What it takes to look for the results of a response's calls that go on.
pub(super) async fn open_tasks(
    session: Session<'_>,
    owner: i64,
    response: &Id,
) -> Result<Vec<Arc<[u8]>>, StoreError> {
    let key = ResponseKey::of(response.as_str()).uuid;
    let sql = "SELECT task FROM pending_calls
        WHERE response = $1 AND owner = $2 AND poll_at IS NOT NULL AND task IS NOT NULL";
    let rows = session.query(sql, &[(&key, Type::UUID), (&owner, Type::INT8)]).await?;
    rows.iter().map(|row| Ok(get::<&[u8]>(row, 0)?.into())).collect()
}

/// Calls whose results are to be looked for now, which nobody else gets for this time.
pub(super) async fn due(
    session: Session<'_>,
    limit: usize,
    lease: Duration,
) -> Result<Vec<DueTask>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let parameters: [Param<'_>; 2] = [(&limit, Type::INT8), (&millis(lease), Type::INT8)];
    session.query(DUE, &parameters).await?.iter().map(read_due).collect()
}

fn read_due(row: &Row) -> Result<DueTask, StoreError> {
    let key = call_key(row)?;
    let sealed = get::<Option<&[u8]>>(row, 6)?.unwrap_or_default().into();
    Ok(DueTask { key, sealed, is_wanted: get(row, 7)? })
}

const POLL: &str = concat!(
    "UPDATE pending_calls SET poll_at = $5::bigint + ",
    db_now!(),
    ", task = CASE WHEN $5::bigint IS NULL THEN NULL ELSE task END
    WHERE response = $1 AND owner = $2 AND turn = $3 AND position = $4"
);

/// Says when to look for a result again; `None`: never.
pub(super) async fn poll(
    session: Session<'_>,
    key: &AsyncCallKey,
    after: Option<Duration>,
) -> Result<WriteOutcome, StoreError> {
    let Some((response, owner)) = place(session, key).await? else { return Ok(WriteOutcome::Absent) };
    let parameters: [Param<'_>; 5] = [
        (&response, Type::UUID),
        (&owner, Type::INT8),
        (&small(key.turn), Type::INT4),
        (&small(key.index), Type::INT4),
        (&after.map(millis), Type::INT8),
    ];
    session.execute(POLL, &parameters).await?;
    Ok(WriteOutcome::Changed)
}

const SETTLE: &str = "UPDATE pending_calls SET settled_at = $5, spec = NULL
    WHERE response = $1 AND owner = $2 AND turn = $3 AND position = $4 AND settled_at IS NULL";

/// Writes what a result leads to, unless that was done.
pub(super) async fn settle(session: Session<'_>, done: &AsyncSettlement) -> Result<WriteOutcome, StoreError> {
    let Some((response, owner)) = place(session, &done.key).await? else { return Ok(WriteOutcome::Absent) };
    let parameters: [Param<'_>; 5] = [
        (&response, Type::UUID),
        (&owner, Type::INT8),
        (&small(done.key.turn), Type::INT4),
        (&small(done.key.index), Type::INT4),
        (&now(), Type::INT8),
    ];
    if session.execute(SETTLE, &parameters).await? == 0 {
        return Ok(WriteOutcome::Absent);
    }
    outbox::insert(session, owner, &done.outbox).await?;
    if let Some(change) = &done.item {
        change_item(session, (response, owner), change).await?;
    }
    if let Some(TraceChange { before, after }) = &done.trace {
        let parameters: [Param<'_>; 4] = [
            (&response, Type::UUID),
            (&owner, Type::INT8),
            (&before.as_bytes(), Type::BYTEA),
            (&after.as_bytes(), Type::BYTEA),
        ];
        session.execute(WRITE_TRACE, &parameters).await?;
    }
    Ok(WriteOutcome::Changed)
}

const WRITE_TRACE: &str = "UPDATE responses SET trace = $4 WHERE key = $1 AND owner = $2 AND trace = $3";
const READ: &str = "SELECT item_index, items, body FROM responses WHERE key = $1 AND owner = $2 FOR UPDATE";
const WRITE: &str =
    "UPDATE responses SET item_index = $3, items = $4, body = $5 WHERE key = $1 AND owner = $2";
const WRITE_IN_CONVERSATION: &str = "UPDATE conversation_items i SET wire = $4, model_view = $5
    FROM responses s, conversations c WHERE s.key = $1 AND s.owner = $2 AND c.id = s.previous_id AND c.owner = s.owner
        AND i.conversation = c.key AND i.item_key = $3";

async fn change_item(
    session: Session<'_>,
    (response, owner): (Uuid, i64),
    change: &ItemChange,
) -> Result<(), StoreError> {
    let place: [Param<'_>; 2] = [(&response, Type::UUID), (&owner, Type::INT8)];
    let Some(row) = session.query_opt(READ, &place).await? else { return Ok(()) };
    let [response, owner] = place;
    if let Some(changed) = item_change::apply(get(&row, 0)?, get(&row, 1)?, text(&row, 2)?, change) {
        let parameters: [Param<'_>; 5] = [
            response.clone(),
            owner.clone(),
            (&changed.columns.index, Type::BYTEA),
            (&changed.columns.texts, Type::BYTEA),
            (&changed.body.as_bytes(), Type::BYTEA),
        ];
        session.execute(WRITE, &parameters).await?;
    }
    let view = match &change.model_view {
        ModelView::Same => None,
        ModelView::Override(text) => Some(text.as_bytes()),
        ModelView::Hidden => Some(&b""[..]),
    };
    let parameters: [Param<'_>; 5] = [
        response,
        owner,
        (&key_of(change.id.as_str()), Type::UUID),
        (&change.wire.as_bytes(), Type::BYTEA),
        (&view, Type::BYTEA),
    ];
    session.execute(WRITE_IN_CONVERSATION, &parameters).await.map(drop)
}
