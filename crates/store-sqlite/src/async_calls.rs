//! Calls whose work has gone on after their answer.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::error::database;
use super::read::{find_live, text};
use super::{outbox, owners, pending_calls};
use antwort_protocol::id::Id;
use antwort_store::operation::WriteOutcome;
use antwort_store::retention::millis;
use antwort_store::row_policy::now;
use antwort_store::{
    AsyncCallKey, AsyncOutcome, AsyncResult, AsyncSettlement, CompletedCall, DueTask, ItemChange, ModelView,
    Owner, StartedCall, StoreError, TraceChange, item_change,
};

/// The keys of the owner and the response of a call.
fn place(connection: &Connection, key: &AsyncCallKey) -> rusqlite::Result<Option<(i64, i64)>> {
    let Some(owner) = owners::find(connection, &key.owner)? else { return Ok(None) };
    Ok(find_live(connection, owner, key.response.as_str())?.map(|response| (owner, response)))
}

fn expiry(timeout: Duration) -> i64 {
    now().saturating_add(millis(timeout))
}

/// Writes that a call has answered.
pub(super) fn start(connection: &Connection, call: &StartedCall) -> rusqlite::Result<WriteOutcome> {
    let Some((_, response)) = place(connection, &call.key)? else { return Ok(WriteOutcome::Absent) };
    connection
        .prepare_cached(
            "INSERT INTO pending_calls
                (response, turn, position, source, awaited, expires_at, item_id, tool, on_complete, spec, task, poll_at)
             VALUES (?1, ?2, ?3, 'async', 0, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO UPDATE SET
                item_id = excluded.item_id, tool = excluded.tool, on_complete = excluded.on_complete,
                spec = excluded.spec, task = coalesce(excluded.task, task),
                poll_at = coalesce(excluded.poll_at, poll_at)",
        )?
        .execute(params![
            response,
            call.key.turn,
            call.key.index,
            expiry(call.timeout),
            call.item.as_str(),
            call.tool,
            call.on_complete,
            call.spec.as_deref(),
            call.task.as_ref().map(|task| &*task.sealed),
            call.task.as_ref().map(|task| expiry(task.after)),
        ])?;
    Ok(WriteOutcome::Changed)
}

/// Writes a result, unless there is one.
pub(super) fn complete(connection: &Connection, result: &AsyncResult) -> rusqlite::Result<WriteOutcome> {
    let Some((_, response)) = place(connection, &result.key)? else {
        return Ok(WriteOutcome::AsyncResult(AsyncOutcome::NotFound));
    };
    let written = connection
        .prepare_cached(
            "INSERT INTO pending_calls
                (response, turn, position, source, awaited, expires_at, completed_at, output, error)
             VALUES (?1, ?2, ?3, 'async', 0, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE SET
                completed_at = excluded.completed_at, output = excluded.output, error = excluded.error
             WHERE completed_at IS NULL AND settled_at IS NULL",
        )?
        .execute(params![
            response,
            result.key.turn,
            result.key.index,
            expiry(result.timeout),
            now(),
            result.output,
            result.error,
        ])?;
    if written > 0 {
        pending_calls::resume_if_last(connection, response)?;
    }
    let outcome = if written > 0 { AsyncOutcome::Stored } else { AsyncOutcome::Repeated };
    Ok(WriteOutcome::AsyncResult(outcome))
}

const COMPLETED: &str = "SELECT o.tenant, o.principal, s.id, a.turn, a.position, a.item_id, a.tool, a.on_complete,
        a.spec IS NOT NULL, a.completed_at IS NOT NULL, a.output, a.error
    FROM pending_calls a CROSS JOIN responses s ON s.key = a.response CROSS JOIN owners o ON o.key = s.owner
    WHERE a.settled_at IS NULL AND a.item_id IS NOT NULL AND (a.completed_at IS NOT NULL OR a.expires_at <= ?1)
        AND s.finished_at IS NOT NULL ORDER BY a.expires_at LIMIT ?2";

/// Calls that are to be settled.
pub(super) fn completed(connection: &Connection, limit: usize) -> Result<Vec<CompletedCall>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(COMPLETED).map_err(database)?;
    let found = statement.query_map(params![now(), limit], read).map_err(database)?;
    found.collect::<Result<_, _>>().map_err(database)
}

const RESULTS: &str = "SELECT o.tenant, o.principal, s.id, a.turn, a.position, a.item_id, a.tool, a.on_complete,
        a.spec IS NOT NULL, TRUE, a.output, a.error
    FROM pending_calls a CROSS JOIN responses s ON s.key = a.response CROSS JOIN owners o ON o.key = s.owner
    WHERE a.response = ?1 AND a.item_id IS NOT NULL AND a.completed_at IS NOT NULL ORDER BY a.turn, a.position";

/// The calls of these responses that have a result.
pub(super) fn results(
    connection: &Connection,
    owner: &Owner,
    responses: &[Id],
) -> Result<Vec<CompletedCall>, StoreError> {
    let mut found = Vec::new();
    let Some(owner) = owners::find(connection, owner).map_err(database)? else { return Ok(found) };
    let mut statement = connection.prepare_cached(RESULTS).map_err(database)?;
    for response in responses {
        let live = find_live(connection, owner, response.as_str()).map_err(database)?;
        let Some(response) = live else { continue };
        let calls = statement.query_map([response], read).map_err(database)?;
        found.extend(calls.collect::<Result<Vec<_>, _>>().map_err(database)?);
    }
    Ok(found)
}

const SPEC: &str = "SELECT spec FROM pending_calls WHERE response = ?1 AND turn = ?2 AND position = ?3";

/// What it takes to make the response that follows the result of a call.
pub(super) fn spec(connection: &Connection, key: &AsyncCallKey) -> Result<Option<Arc<[u8]>>, StoreError> {
    let Some(owner) = owners::find(connection, &key.owner).map_err(database)? else { return Ok(None) };
    let live = find_live(connection, owner, key.response.as_str()).map_err(database)?;
    let Some(response) = live else { return Ok(None) };
    let mut statement = connection.prepare_cached(SPEC).map_err(database)?;
    let read = |row: &Row<'_>| row.get::<_, Option<Vec<u8>>>(0);
    let found = statement.query_row(params![response, key.turn, key.index], read).optional();
    Ok(found.map_err(database)?.flatten().map(Into::into))
}

/// Whose call a row is: its first columns are tenant, principal, id of the response, turn and position.
fn call_key(row: &Row<'_>) -> rusqlite::Result<AsyncCallKey> {
    let owner = Owner { tenant: text(row, 0)?.into(), principal: text(row, 1)?.into() };
    Ok(AsyncCallKey { owner, response: Id::from(text(row, 2)?), turn: row.get(3)?, index: row.get(4)? })
}

fn read(row: &Row<'_>) -> rusqlite::Result<CompletedCall> {
    let key = call_key(row)?;
    let result = (row.get::<_, Option<String>>(10)?.unwrap_or_default(), row.get(11)?);
    Ok(CompletedCall {
        key,
        item: Id::from(text(row, 5)?),
        tool: row.get(6)?,
        on_complete: row.get(7)?,
        has_spec: row.get(8)?,
        result: row.get::<_, bool>(9)?.then_some(result),
    })
}

const DUE: &str = "SELECT o.tenant, o.principal, s.id, a.turn, a.position, a.task, a.response,
        a.completed_at IS NULL AND a.settled_at IS NULL AND a.expires_at > ?1 AND s.status <> 'cancelled'
    FROM pending_calls a CROSS JOIN responses s ON s.key = a.response CROSS JOIN owners o ON o.key = s.owner
    WHERE a.poll_at <= ?1 ORDER BY a.poll_at LIMIT ?2";

/// What it takes to look for the results of a response's calls that go on.
pub(super) fn open_tasks(
    connection: &Connection,
    owner: &Owner,
    response: &Id,
) -> Result<Vec<Arc<[u8]>>, StoreError> {
    let Some(owner) = owners::find(connection, owner).map_err(database)? else { return Ok(Vec::new()) };
    let Some(key) = find_live(connection, owner, response.as_str()).map_err(database)? else {
        return Ok(Vec::new());
    };
    let sql =
        "SELECT task FROM pending_calls WHERE response = ?1 AND poll_at IS NOT NULL AND task IS NOT NULL";
    let mut statement = connection.prepare_cached(sql).map_err(database)?;
    let tasks =
        statement.query_map([key], |row| row.get::<_, Vec<u8>>(0).map(Arc::from)).map_err(database)?;
    tasks.collect::<Result<_, _>>().map_err(database)
}

/// Calls whose results are to be looked for now, which nobody else gets for this time.
pub(super) fn due(
    connection: &mut Connection,
    limit: usize,
    lease: Duration,
) -> Result<Vec<DueTask>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let any = "SELECT EXISTS (SELECT 1 FROM pending_calls WHERE poll_at <= ?1)";
    // Usually there are none; then no lock is taken.
    if !connection.query_row(any, [now()], |row| row.get(0)).map_err(database)? {
        return Ok(Vec::new());
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    let found = {
        let mut statement = transaction.prepare_cached(DUE).map_err(database)?;
        let found = statement.query_map(params![now(), limit], read_due).map_err(database)?;
        found.collect::<Result<Vec<_>, _>>().map_err(database)?
    };
    for (response, task) in &found {
        transaction
            .prepare_cached(
                "UPDATE pending_calls SET poll_at = ?4 WHERE response = ?1 AND turn = ?2 AND position = ?3",
            )
            .and_then(|mut later| {
                later.execute(params![response, task.key.turn, task.key.index, expiry(lease)])
            })
            .map_err(database)?;
    }
    transaction.commit().map_err(database)?;
    Ok(found.into_iter().map(|(_, task)| task).collect())
}

fn read_due(row: &Row<'_>) -> rusqlite::Result<(i64, DueTask)> {
    let key = call_key(row)?;
    let sealed = row.get::<_, Option<Vec<u8>>>(5)?.unwrap_or_default().into();
    Ok((row.get(6)?, DueTask { key, sealed, is_wanted: row.get(7)? }))
}

/// Says when to look for a result again; `None`: never.
pub(super) fn poll(
    connection: &Connection,
    key: &AsyncCallKey,
    after: Option<Duration>,
) -> rusqlite::Result<WriteOutcome> {
    let Some((_, response)) = place(connection, key)? else { return Ok(WriteOutcome::Absent) };
    connection
        .prepare_cached(
            "UPDATE pending_calls SET poll_at = ?4, task = CASE WHEN ?4 IS NULL THEN NULL ELSE task END
             WHERE response = ?1 AND turn = ?2 AND position = ?3",
        )?
        .execute(params![response, key.turn, key.index, after.map(expiry)])?;
    Ok(WriteOutcome::Changed)
}

/// Writes what a result leads to, unless that was done.
pub(super) fn settle(connection: &Connection, done: &AsyncSettlement) -> rusqlite::Result<WriteOutcome> {
    let key = &done.key;
    let Some((owner, response)) = place(connection, key)? else { return Ok(WriteOutcome::Absent) };
    let settled = connection
        .prepare_cached(
            "UPDATE pending_calls SET settled_at = ?4, spec = NULL
             WHERE response = ?1 AND turn = ?2 AND position = ?3 AND settled_at IS NULL",
        )?
        .execute(params![response, key.turn, key.index, now()])?;
    if settled == 0 {
        return Ok(WriteOutcome::Absent);
    }
    outbox::insert(connection, owner, &done.outbox)?;
    if let Some(change) = &done.item {
        change_item(connection, owner, response, change)?;
    }
    if let Some(TraceChange { before, after }) = &done.trace {
        connection
            .prepare_cached("UPDATE responses SET trace = ?3 WHERE key = ?1 AND trace = ?2")?
            .execute(params![response, &**before, &**after])?;
    }
    Ok(WriteOutcome::Changed)
}

fn change_item(
    connection: &Connection,
    owner: i64,
    response: i64,
    change: &ItemChange,
) -> rusqlite::Result<()> {
    let found = connection
        .prepare_cached("SELECT item_index, items, body, previous_id FROM responses WHERE key = ?1")?
        .query_row([response], |row| {
            let (index, texts): (Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?);
            Ok((index, texts, row.get::<_, String>(2)?, row.get::<_, Option<String>>(3)?))
        })
        .optional()?;
    let Some((index, texts, body, previous)) = found else { return Ok(()) };
    if let Some(changed) = item_change::apply(&index, &texts, &body, change) {
        connection
            .prepare_cached("UPDATE responses SET item_index = ?2, items = ?3, body = ?4 WHERE key = ?1")?
            .execute(params![response, changed.columns.index, changed.columns.texts, changed.body])?;
    }
    let view = match &change.model_view {
        ModelView::Same => None,
        ModelView::Override(text) => Some(&**text),
        ModelView::Hidden => Some(""),
    };
    connection
        .prepare_cached(
            "UPDATE conversation_items SET wire = ?4, model_view = ?5 WHERE item_id = ?3
                AND conversation = (SELECT key FROM conversations WHERE id = ?1 AND owner = ?2)",
        )?
        .execute(params![previous, owner, change.id.as_str(), &*change.wire, view])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    /// They are looked for every few seconds.
    #[test]
    fn calls_to_settle_are_found_without_looking_at_the_others() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        let plan = schema::plan(&connection, COMPLETED);
        assert!(plan.iter().any(|step| step.contains("pending_calls_to_settle")), "{plan:#?}");
        assert!(
            !plan.iter().any(|step| step.contains("SCAN s") || step.contains("TEMP B-TREE")),
            "{plan:#?}"
        );
    }

    #[test]
    fn tasks_to_look_at_are_found_without_looking_at_the_others() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        let plan = schema::plan(&connection, DUE);
        assert!(plan.iter().any(|step| step.contains("pending_calls_polled")), "{plan:#?}");
        assert!(
            !plan.iter().any(|step| step.contains("SCAN s") || step.contains("TEMP B-TREE")),
            "{plan:#?}"
        );
    }
}
