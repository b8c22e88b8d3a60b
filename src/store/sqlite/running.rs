//! Rows of running responses: who holds their lease, and what a deletion leaves of them.
//!
//! A response that is deleted while it runs keeps an empty row until its run ends, so that its run, in whichever
//! process, finds that it was deleted and stores nothing more. The row has expired from the start: no reader sees it.

use rusqlite::{Connection, OptionalExtension, params};

use super::approvals;
use super::retention::RowPolicy;
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
            "SELECT lease_until IS NOT NULL AND instance = ?3 AND epoch = ?4, expires_at IS NOT NULL
             FROM responses WHERE key = ?1 AND id = ?2",
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
    Ok(())
}
