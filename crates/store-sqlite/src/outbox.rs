//! Notices to webhooks: inserted with the end of their response, taken for delivery, and removed.

use std::time::Duration;

use rusqlite::{Connection, Row, params};

use super::read::text;
use antwort_protocol::id::Id;
use antwort_store::retention::millis;
use antwort_store::row_policy::now;
use antwort_store::{DueNotice, OutboxNotice};

/// Writes the notices of a response; they are due at once.
pub(super) fn insert(connection: &Connection, owner: i64, notices: &[OutboxNotice]) -> rusqlite::Result<()> {
    for notice in notices {
        connection
            .prepare_cached(
                "INSERT INTO webhook_outbox (owner, webhook, event_id, body, due_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![owner, &*notice.webhook, notice.event_id.as_str(), &*notice.body, now()])?;
    }
    Ok(())
}

/// Removes a notice, unless it was taken again.
pub(super) fn remove(connection: &Connection, key: i64, attempt: u32) -> rusqlite::Result<()> {
    let sql = "DELETE FROM webhook_outbox WHERE key = ?1 AND attempts = ?2";
    connection.prepare_cached(sql)?.execute(params![key, attempt]).map(drop)
}

/// Puts a notice off, unless it was taken again.
pub(super) fn put_off(
    connection: &Connection,
    key: i64,
    attempt: u32,
    after: Duration,
) -> rusqlite::Result<()> {
    let sql = "UPDATE webhook_outbox SET due_at = ?3 WHERE key = ?1 AND attempts = ?2";
    let due_at = now().saturating_add(millis(after));
    connection.prepare_cached(sql)?.execute(params![key, attempt, due_at]).map(drop)
}

/// Deletes the notices of an owner.
pub(super) fn delete_of(connection: &Connection, owner: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM webhook_outbox WHERE owner = ?1")?.execute([owner])?;
    Ok(())
}

const ANY_DUE: &str = "SELECT EXISTS (SELECT 1 FROM webhook_outbox
    WHERE due_at <= ?1 AND webhook NOT IN (SELECT value FROM json_each(?2)))";

const TAKE: &str = "UPDATE webhook_outbox SET attempts = attempts + 1, due_at = ?2
    WHERE key IN (SELECT key FROM webhook_outbox WHERE due_at <= ?1
        AND webhook NOT IN (SELECT value FROM json_each(?4)) ORDER BY due_at LIMIT ?3)
    RETURNING key, attempts, webhook, event_id, body";

/// Takes notices whose time has come, but none of these webhooks, a JSON array.
pub(super) fn take(
    connection: &Connection,
    limit: usize,
    lease: Duration,
    except: &str,
) -> rusqlite::Result<Vec<DueNotice>> {
    let now = now();
    // Usually there is nothing to do; then no lock is taken.
    if !connection.prepare_cached(ANY_DUE)?.query_row(params![now, except], |row| row.get(0))? {
        return Ok(Vec::new());
    }
    let read = |row: &Row<'_>| {
        Ok(DueNotice {
            key: row.get(0)?,
            attempt: row.get(1)?,
            webhook: row.get(2)?,
            event_id: Id::from(text(row, 3)?),
            body: row.get(4)?,
        })
    };
    let mut statement = connection.prepare_cached(TAKE)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let taken = statement.query_map(params![now, now.saturating_add(millis(lease)), limit, except], read)?;
    taken.collect()
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    /// They are looked for once a second.
    #[test]
    fn due_notices_are_found_by_their_time() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        for sql in [ANY_DUE, TAKE] {
            let plan = schema::plan(&connection, sql);
            assert!(plan.iter().any(|step| step.contains("webhook_outbox_by_time (due_at<?)")), "{plan:#?}");
        }
    }
}
