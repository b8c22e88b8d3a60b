//! Runs that nobody makes any more: their process is gone, or their end could not be stored.

use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::error::database;
use super::keys::KeyRange;
use super::read::{bytes, text};
use super::running::{END_NOT_STORED, PROCESS_GONE};
use super::{pending_calls, rows};
use antwort_protocol::id::Id;
use antwort_store::in_flight::InFlightRows;
use antwort_store::item_index::{self, Damaged};
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::taken_run::{MAX_BATCH_BYTES, PASSED_OVER, log_damaged, log_unreadable};
use antwort_store::{Lease, OrphanCause, OrphanedCall, OrphanedRun, Owner, StoreError, StoredItem};

/// Which `runs r` are orphans for the instance ?1 at the time ?2. Of its own runs only those that were orphans before, and
/// none that a worker claims.
macro_rules! orphans_sql {
    () => {
        "r.lease_until < ?2 AND (r.instance <> ?1 OR r.orphan IS NOT NULL) AND r.attempt IS NULL"
    };
}

const ANY: &str = concat!("SELECT EXISTS (SELECT 1 FROM runs r WHERE ", orphans_sql!(), ")");

const NEXT: &str = concat!(
    "SELECT s.key, s.id, o.tenant, o.principal, s.created_at, s.model, s.previous_id, s.body, r.epoch, r.orphan,
        r.state, s.expires_at IS NOT NULL, s.item_index, s.items, r.cancel_requested
    FROM runs r CROSS JOIN responses s ON s.key = r.response CROSS JOIN owners o ON o.key = s.owner WHERE ",
    orphans_sql!(),
    " ORDER BY r.response LIMIT 1"
);

/// Gives up the leases that an earlier process of this name left.
pub(super) fn release_left(connection: &Connection, policy: &RowPolicy) -> Result<(), StoreError> {
    let any = "SELECT EXISTS (SELECT 1 FROM runs WHERE instance = ?1)";
    // Usually there are none; then no lock is taken.
    if !connection.query_row(any, [&policy.instance], |row| row.get(0)).map_err(database)? {
        return Ok(());
    }
    connection
        .prepare_cached("UPDATE runs SET orphan = coalesce(orphan, ?2), lease_until = 0 WHERE instance = ?1")
        .map_err(database)?
        .execute(params![policy.instance, PROCESS_GONE])
        .map_err(database)?;
    Ok(())
}

/// Abandons the rows of runs whose end could not be written, so that they are ended like those of a dead process.
pub(super) fn release_abandoned(
    connection: &Connection,
    policy: &RowPolicy,
    in_flight: &mut InFlightRows,
) -> rusqlite::Result<()> {
    for Lease { id, epoch } in in_flight.abandoned() {
        let keys = KeyRange::of(id.as_str());
        connection
            .prepare_cached(
                "UPDATE runs SET orphan = coalesce(orphan, ?5), lease_until = 0
                 WHERE instance = ?4 AND epoch = ?6
                    AND response IN (SELECT key FROM responses WHERE key BETWEEN ?1 AND ?2 AND id = ?3)",
            )?
            .execute(params![keys.first, keys.last, id.as_str(), policy.instance, END_NOT_STORED, epoch])?;
    }
    in_flight.forget_abandoned();
    Ok(())
}

/// Takes orphans over for this instance. A deleted one is removed.
pub(super) fn take(
    connection: &mut Connection,
    policy: &RowPolicy,
    limit: usize,
) -> Result<Vec<OrphanedRun>, StoreError> {
    let now = now();
    // Usually there is nothing to do; then no lock is taken.
    let any: bool =
        connection.query_row(ANY, params![policy.instance, now], |row| row.get(0)).map_err(database)?;
    let (mut taken, mut bytes) = (Vec::new(), 0_usize);
    if !any {
        return Ok(taken);
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    while taken.len() < limit && bytes < MAX_BATCH_BYTES {
        let next = transaction
            .prepare_cached(NEXT)
            .map_err(database)?
            .query_row(params![policy.instance, now], Orphan::read)
            .optional()
            .map_err(database)?;
        let Some(orphan) = next else { break };
        if orphan.is_deleted {
            rows::remove(&transaction, orphan.key).map_err(database)?;
            continue;
        }
        if let Some((run, _)) = orphan.take(&transaction, policy, now).map_err(database)? {
            bytes = bytes.saturating_add(run.size());
            taken.push(run);
        }
    }
    transaction.commit().map_err(database)?;
    Ok(taken)
}

/// An orphan before it is taken over.
pub(super) struct Orphan {
    pub key: i64,
    pub is_deleted: bool,
    is_damaged: bool,
    /// `None`: it has no name that can be read.
    run: Option<OrphanedRun>,
}

impl Orphan {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (key, is_deleted) = (row.get(0)?, row.get(11)?);
        Ok(match Self::read_run(row) {
            Ok((run, is_damaged)) => Self { key, is_deleted, is_damaged, run: Some(run) },
            Err(error) => {
                log_unreadable(&error);
                Self { key, is_deleted, is_damaged: true, run: None }
            }
        })
    }

    /// The run as far as it can be read, and whether something is missing.
    fn read_run(row: &Row<'_>) -> rusqlite::Result<(OrphanedRun, bool)> {
        let owner = Owner { tenant: text(row, 2)?.into(), principal: text(row, 3)?.into() };
        let lease = Lease { id: Id::from(text(row, 1)?), epoch: row.get::<_, u32>(8)?.saturating_add(1) };
        let (body, items) = (text(row, 7), items(row, 12));
        let damage = body.as_ref().err().or(items.as_ref().err());
        if let Some(error) = damage {
            log_damaged(&lease, error);
        }
        let is_damaged = damage.is_some();
        let mut run = OrphanedRun {
            lease,
            owner,
            cause: match row.get(9)? {
                Some(END_NOT_STORED) => OrphanCause::EndNotStored,
                _ => OrphanCause::ProcessGone,
            },
            is_cancelled: row.get(14)?,
            created_at: row.get(4)?,
            model: row.get(5)?,
            previous: row.get::<_, Option<String>>(6)?.map(Id::from),
            body: body.unwrap_or_default().into(),
            items: items.unwrap_or_default(),
            calls: Vec::new(),
            pending: Vec::new(),
            state: row.get::<_, Option<Vec<u8>>>(10)?.map(Arc::from),
        };
        if is_damaged {
            run.leave_out_items();
        }
        Ok((run, is_damaged))
    }

    /// The epoch of whoever takes it; `None`: it cannot be read, and is passed over from now on.
    pub(super) fn epoch(&self, connection: &Connection, now: i64) -> rusqlite::Result<Option<u32>> {
        if let Some(run) = &self.run {
            return Ok(Some(run.lease.epoch));
        }
        connection
            .prepare_cached("UPDATE runs SET lease_until = ?2 WHERE response = ?1")?
            .execute(params![self.key, now.saturating_add(PASSED_OVER)])?;
        Ok(None)
    }

    fn take(
        self,
        connection: &Connection,
        policy: &RowPolicy,
        now: i64,
    ) -> rusqlite::Result<Option<(OrphanedRun, bool)>> {
        let key = self.key;
        let Some(epoch) = self.epoch(connection, now)? else { return Ok(None) };
        connection
            .prepare_cached(
                "UPDATE runs SET instance = ?2, epoch = ?3, lease_until = ?4, orphan = coalesce(orphan, ?5)
                 WHERE response = ?1",
            )?
            .execute(params![key, policy.instance, epoch, now.saturating_add(policy.lease), PROCESS_GONE])?;
        self.whole(connection)
    }

    /// The run with its turns and calls, and whether something of it cannot be read; `None`: nothing can.
    pub(super) fn whole(self, connection: &Connection) -> rusqlite::Result<Option<(OrphanedRun, bool)>> {
        let Self { key, mut is_damaged, run, .. } = self;
        let Some(mut run) = run else { return Ok(None) };
        run.calls = calls(connection, key)?;
        let pending = pending_calls::of_run(connection, key);
        match pending.and_then(|pending| Ok((pending, turns(connection, key)?))) {
            Ok((pending, items)) if !is_damaged => {
                run.pending = pending;
                run.items.extend(items);
            }
            Ok(_) => {}
            Err(error @ rusqlite::Error::FromSqlConversionFailure(..)) => {
                log_damaged(&run.lease, &error);
                is_damaged = true;
                run.leave_out_items();
            }
            Err(error) => return Err(error),
        }
        Ok(Some((run, is_damaged)))
    }
}

/// The items of a row, whose index is in this column and their texts in the next.
fn items(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<StoredItem>> {
    item_index::items(bytes(row, column)?, bytes(row, column + 1)?).map_err(|damaged: Damaged| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, Box::new(damaged))
    })
}

/// The items of the turns of a run, in order.
fn turns(connection: &Connection, key: i64) -> rusqlite::Result<Vec<StoredItem>> {
    let mut statement =
        connection.prepare_cached("SELECT item_index, items FROM turns WHERE response = ?1 ORDER BY turn")?;
    let turns: Vec<_> = statement.query_map([key], |row| items(row, 0))?.collect::<Result<_, _>>()?;
    Ok(turns.into_iter().flatten().collect())
}

fn calls(connection: &Connection, key: i64) -> rusqlite::Result<Vec<OrphanedCall>> {
    let mut statement = connection.prepare_cached(
        "SELECT turn, position, server_label, tool, arguments, output, error, completed_at IS NOT NULL
         FROM tool_calls WHERE response = ?1 ORDER BY turn, position",
    )?;
    let call = |row: &Row<'_>| {
        let (output, error) = (row.get::<_, Option<String>>(5)?.unwrap_or_default(), row.get(6)?);
        Ok(OrphanedCall {
            turn: row.get(0)?,
            index: row.get(1)?,
            server_label: row.get(2)?,
            tool: row.get(3)?,
            arguments: row.get(4)?,
            outcome: row.get::<_, bool>(7)?.then_some((output, error)),
        })
    };
    statement.query_map([key], call)?.collect()
}
