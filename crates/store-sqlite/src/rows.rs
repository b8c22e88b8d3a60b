//! The rows of responses: found by id, inserted at the first free key, and removed with all that belongs to them.

use rusqlite::{Connection, params};

use super::keys::KeyRange;
use super::running::{self, RunningRow};
use super::{approvals, conversations, item_ids, logged_rows};
use antwort_protocol::id::{Id, is_conversation_id};
use antwort_store::item_index::ItemColumns;
use antwort_store::row_policy::RowPolicy;
use antwort_store::{Lease, ResponseRecord};

/// The columns of a row that has ended, beside those of its record.
#[derive(Default)]
pub(super) struct Lifetime {
    pub finished_at: Option<i64>,
    pub expires_at: Option<i64>,
    pub lineage_until: Option<i64>,
}

/// What is at the keys that an id may have.
pub(super) struct Slots {
    /// The row of this id and owner.
    pub row: Option<Row>,
    /// The first key at which there is no row.
    pub free: Option<i64>,
}

/// A row, as a write finds it.
pub(super) struct Row {
    pub key: i64,
    pub expires_at: Option<i64>,
    item_index: Vec<u8>,
    /// The process and the epoch that make it, while it runs.
    run: Option<(String, u32)>,
}

impl Row {
    pub(super) fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// The row as the holder of a lease finds it.
    pub(super) fn state(&self, policy: &RowPolicy, lease: &Lease) -> RunningRow {
        match &self.run {
            Some((instance, epoch)) if *instance == policy.instance && *epoch == lease.epoch => {
                if self.expires_at.is_some() { RunningRow::Deleted } else { RunningRow::Held }
            }
            _ => RunningRow::Superseded,
        }
    }
}

/// Looks at the keys that the id of an owner may have.
pub(super) fn slots(connection: &Connection, owner: i64, id: &str) -> rusqlite::Result<Slots> {
    let KeyRange { first, last } = KeyRange::of(id);
    let mut statement = connection.prepare_cached(SLOTS)?;
    let mut rows = statement.query(params![first, last, id, owner])?;
    let (mut free, mut found) = (first, None);
    while let Some(row) = rows.next()? {
        let key = row.get(0)?;
        if key == free {
            free += 1;
        }
        if row.get(1)? {
            let run = row.get::<_, Option<String>>(4)?.zip(row.get(5)?);
            found = Some(Row { key, expires_at: row.get(2)?, item_index: row.get(3)?, run });
        }
    }
    Ok(Slots { row: found, free: (free <= last).then_some(free) })
}

const SLOTS: &str = "SELECT s.key, s.id = ?3 AND s.owner = ?4, s.expires_at,
        CASE WHEN s.id = ?3 AND s.owner = ?4 THEN s.item_index END, r.instance, r.epoch
    FROM responses s LEFT JOIN runs r ON r.response = s.key WHERE s.key BETWEEN ?1 AND ?2 ORDER BY s.key";

/// So many responses of the same moment, as cannot be.
#[derive(Debug, thiserror::Error)]
#[error("all keys that the id {0} may have are taken")]
struct KeysTaken(Id);

/// Inserts the row of a response that has none, with its items, at a free key, which is returned.
pub(super) fn insert(
    connection: &Connection,
    owner: i64,
    slots: &Slots,
    record: &ResponseRecord,
    lifetime: &Lifetime,
) -> rusqlite::Result<i64> {
    let id = &record.lease.id;
    let Some(key) = slots.free else {
        return Err(rusqlite::Error::ToSqlConversionFailure(Box::new(KeysTaken(id.clone()))));
    };
    let columns = ItemColumns::of(&record.items);
    connection.prepare_cached(INSERT)?.execute(params![
        key,
        owner,
        id.as_str(),
        lifetime.expires_at,
        lifetime.lineage_until,
        record.created_at,
        lifetime.finished_at,
        record.status.as_str(),
        record.continued().map(Id::as_str),
        record.model,
        columns.index,
        columns.texts,
        &*record.body,
        record.trace.as_deref(),
        record.is_unlisted.then_some(1),
    ])?;
    item_ids::replace(connection, (owner, key), id.as_str(), &[], &columns.index)?;
    conversations::note_context(connection, key, record)?;
    Ok(key)
}

const INSERT: &str =
    "INSERT INTO responses (key, owner, id, expires_at, lineage_until, created_at, finished_at,
        status, previous_id, model, item_index, items, body, trace, unlisted)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";

/// Ends the row of a running response: its record replaces what was written of it before.
pub(super) fn end(
    connection: &Connection,
    owner: i64,
    row: &Row,
    record: &ResponseRecord,
    lifetime: &Lifetime,
) -> rusqlite::Result<()> {
    let columns = ItemColumns::of(&record.items);
    connection
        .prepare_cached(
            "UPDATE responses SET expires_at = ?2, lineage_until = ?3, finished_at = ?4, status = ?5,
                previous_id = ?6, model = ?7, item_index = ?8, items = ?9, body = ?10,
                trace = ?11
             WHERE key = ?1",
        )?
        .execute(params![
            row.key,
            lifetime.expires_at,
            lifetime.lineage_until,
            lifetime.finished_at,
            record.status.as_str(),
            record.continued().map(Id::as_str),
            record.model,
            columns.index,
            columns.texts,
            &*record.body,
            record.trace.as_deref(),
        ])?;
    running::remove(connection, row.key)?;
    let place = (owner, row.key);
    item_ids::replace(connection, place, record.lease.id.as_str(), &row.item_index, &columns.index)
}

/// Deletes a response with everything that belongs to it.
pub(super) fn remove(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    remove_parts(connection, key)?;
    running::remove(connection, key)?;
    connection.prepare_cached("DELETE FROM responses WHERE key = ?1")?.execute([key])?;
    Ok(())
}

/// Empties the row of a running response that its owner deletes.
///
/// It keeps an empty row until its run ends, so that its run, in whichever process, finds that it was deleted, ends and
/// stores nothing more. The row has expired from the start: no reader sees it.
pub(super) fn remove_running(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    remove_parts(connection, key)?;
    running::remove_turns(connection, key)?;
    connection
        .prepare_cached(
            "UPDATE responses SET expires_at = 0, previous_id = NULL, model = '', item_index = x'', items = x'',
                body = '', trace = NULL
             WHERE key = ?1",
        )?
        .execute([key])?;
    connection
        .prepare_cached(
            "UPDATE runs SET state = NULL, job = NULL, attempt = NULL, cancel_requested = 1, waits_until = NULL,
                lease_until = CASE WHEN waits_until IS NULL THEN lease_until ELSE 0 END WHERE response = ?1",
        )?
        .execute([key])?;
    Ok(())
}

fn remove_parts(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    let mut statement = connection
        .prepare_cached("SELECT owner, id, item_index, previous_id FROM responses WHERE key = ?1")?;
    let mut rows = statement.query([key])?;
    if let Some(row) = rows.next()? {
        let owner: i64 = row.get(0)?;
        let (id, index) =
            (row.get_ref(1)?.as_str().unwrap_or_default(), row.get_ref(2)?.as_blob().unwrap_or_default());
        item_ids::replace(connection, (owner, key), id, index, &[])?;
        approvals::delete_by_response(connection, owner, id)?;
        if row.get_ref(3)?.as_str().is_ok_and(is_conversation_id) {
            conversations::forget_context(connection, key)?;
        }
    }
    connection.prepare_cached("DELETE FROM tool_calls WHERE response = ?1")?.execute([key])?;
    connection.prepare_cached("DELETE FROM pending_calls WHERE response = ?1")?.execute([key])?;
    logged_rows::remove(connection, key)
}
