//! Rows of running responses: who holds their lease, and what a deletion leaves of them.
//!
//! A response that is deleted while it runs keeps an empty row until its run ends, so that its run, in whichever
//! process, finds that it was deleted and stores nothing more. The row has expired from the start: no reader sees it.

use rusqlite::{Connection, OptionalExtension, params};

use super::approvals;
use super::in_flight::InFlightRows;
use super::retention::{self, RowPolicy};
use crate::store::Lease;

/// The row of a running response, as the holder of a lease finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunningRow {
    /// The lease is valid.
    Held,
    /// The lease is valid, and the response was deleted.
    Deleted,
    /// It has ended, or the run was taken over.
    Superseded,
    /// There is no such row.
    Absent,
}

/// The row of this key as the holder of the lease finds it. The id is compared, too: keys of deleted rows are reused.
pub(super) fn find(
    connection: &Connection,
    policy: &RowPolicy,
    lease: &Lease,
    key: i64,
) -> rusqlite::Result<RunningRow> {
    let found: Option<(bool, bool)> = connection
        .prepare_cached(
            "SELECT r.instance IS ?3 AND r.epoch IS ?4, s.expires_at IS NOT NULL
             FROM responses s LEFT JOIN runs r ON r.response = s.key WHERE s.key = ?1 AND s.id = ?2",
        )?
        .query_row(params![key, lease.id.as_str(), policy.instance, lease.epoch], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    Ok(match found {
        Some((true, false)) => RunningRow::Held,
        Some((true, true)) => RunningRow::Deleted,
        Some((false, _)) => RunningRow::Superseded,
        None => RunningRow::Absent,
    })
}

/// The key of a run's row, by its lease: a run that was taken over is known to its row only.
pub(super) fn key(
    connection: &Connection,
    policy: &RowPolicy,
    rows: &InFlightRows,
    lease: &Lease,
) -> rusqlite::Result<Option<i64>> {
    if let Some(key) = rows.key(lease) {
        return Ok(Some(key));
    }
    connection
        .prepare_cached(
            "SELECT s.key FROM runs r CROSS JOIN responses s ON s.key = r.response
             WHERE r.instance = ?1 AND r.epoch = ?2 AND s.id = ?3",
        )?
        .query_row(params![policy.instance, lease.epoch, lease.id.as_str()], |row| row.get(0))
        .optional()
}

/// Writes that this process makes a run.
pub(super) fn insert(
    connection: &Connection,
    policy: &RowPolicy,
    key: i64,
    lease: &Lease,
    state: Option<&[u8]>,
) -> rusqlite::Result<()> {
    let until = retention::now().saturating_add(policy.lease);
    connection
        .prepare_cached(
            "INSERT INTO runs (response, instance, epoch, lease_until, state) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![key, policy.instance, lease.epoch, until, state])?;
    Ok(())
}

/// Replaces the state of a run.
pub(super) fn set_state(connection: &Connection, key: i64, state: &[u8]) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE runs SET state = ?2 WHERE response = ?1")?
        .execute(params![key, state])?;
    Ok(())
}

/// The run of this key goes on no more.
pub(super) fn remove(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM runs WHERE response = ?1")?.execute([key])?;
    Ok(())
}

/// Empties the row of a running response that its owner deletes.
pub(super) fn delete(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM items WHERE response = ?1")?.execute([key])?;
    connection.prepare_cached("DELETE FROM tool_calls WHERE response = ?1")?.execute([key])?;
    approvals::delete_by_row(connection, key)?;
    connection
        .prepare_cached(
            "UPDATE responses SET expires_at = 0, previous_id = NULL, model = '', body = '' WHERE key = ?1",
        )?
        .execute([key])?;
    connection.prepare_cached("UPDATE runs SET state = NULL WHERE response = ?1")?.execute([key])?;
    Ok(())
}
