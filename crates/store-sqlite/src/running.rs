//! Rows of runs: who holds the lease of a running response, and its turns.

use rusqlite::{Connection, params};

use super::keys::KeyRange;
use antwort_store::item_index::ItemColumns;
use antwort_store::row_policy::{self, RowPolicy};
use antwort_store::{Lease, TurnRecord};

/// The column `orphan` of a run whose process is gone.
pub(super) const PROCESS_GONE: i64 = 0;
/// The column `orphan` of a run whose end could not be stored.
pub(super) const END_NOT_STORED: i64 = 1;

/// The column `instance` of a run that nobody has claimed.
pub(super) const NOBODY: &str = "";

/// The row of a running response, as the holder of a lease finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunningRow {
    /// The lease is valid.
    Held,
    /// The lease is valid, and the response was deleted.
    Deleted,
    /// It has ended, or the run was taken over.
    Superseded,
}

/// The key of the response whose run has this lease, and its state; `None` if there is no response of this id.
pub(super) fn find(
    connection: &Connection,
    policy: &RowPolicy,
    lease: &Lease,
) -> rusqlite::Result<Option<(i64, RunningRow)>> {
    let KeyRange { first, last } = KeyRange::of(lease.id.as_str());
    let mut statement = connection.prepare_cached(FIND)?;
    let mut rows = statement.query(params![first, last, lease.id.as_str(), policy.instance, lease.epoch])?;
    let mut found = None;
    while let Some(row) = rows.next()? {
        let (key, is_held, is_deleted) = (row.get(0)?, row.get(1)?, row.get(2)?);
        match (is_held, is_deleted) {
            (true, false) => return Ok(Some((key, RunningRow::Held))),
            (true, true) => found = Some((key, RunningRow::Deleted)),
            // Another owner's of the same id, perhaps.
            (false, _) => found = found.or(Some((key, RunningRow::Superseded))),
        }
    }
    Ok(found)
}

const FIND: &str = "SELECT s.key, r.instance IS ?4 AND r.epoch IS ?5, s.expires_at IS NOT NULL
    FROM responses s LEFT JOIN runs r ON r.response = s.key WHERE s.key BETWEEN ?1 AND ?2 AND s.id = ?3";

/// Writes that this process makes a run.
pub(super) fn insert(
    connection: &Connection,
    policy: &RowPolicy,
    key: i64,
    lease: &Lease,
    state: Option<&[u8]>,
) -> rusqlite::Result<()> {
    let until = row_policy::now().saturating_add(policy.lease);
    connection
        .prepare_cached(
            "INSERT INTO runs (response, instance, epoch, lease_until, state) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![key, policy.instance, lease.epoch, until, state])?;
    Ok(())
}

/// Adds a turn to a run. Its state replaces the one before, beside the lease: rows of that table may be large without
/// pages of their own, those of turns may not.
pub(super) fn add_turn(connection: &Connection, key: i64, turn: &TurnRecord) -> rusqlite::Result<()> {
    // That of a turn which begins its response was written with the lease.
    if let Some(state) = turn.state.as_deref().filter(|_| turn.begin.is_none()) {
        connection
            .prepare_cached("UPDATE runs SET state = ?2 WHERE response = ?1")?
            .execute(params![key, state])?;
    }
    let columns = ItemColumns::of(&turn.items);
    connection
        .prepare_cached("INSERT INTO turns (response, turn, item_index, items) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![key, turn.turn, columns.index, columns.texts])?;
    Ok(())
}

/// The run of this key goes on no more.
pub(super) fn remove(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    remove_turns(connection, key)?;
    connection.prepare_cached("DELETE FROM runs WHERE response = ?1")?.execute([key])?;
    Ok(())
}

pub(super) fn remove_turns(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM turns WHERE response = ?1")?.execute([key])?;
    Ok(())
}
