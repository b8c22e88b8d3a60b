//! Runs that nobody makes any more: their process is gone, or their end could not be stored.

use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::error::database;
use super::item_index::{self, Damaged};
use super::operation::item_size;
use super::read::{bytes, text};
use super::retention::{RowPolicy, now};
use super::rows;
use super::running::{END_NOT_STORED, PROCESS_GONE};
use crate::protocol::id::Id;
use crate::store::{Lease, OrphanCause, OrphanedCall, OrphanedRun, Owner, StoreError, StoredItem};

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

/// A batch ends after this many bytes: all of it is in memory.
pub(super) const MAX_BATCH_BYTES: usize = 16 << 20;

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
        let run = orphan.take(&transaction, policy, now).map_err(database)?;
        bytes = bytes.saturating_add(size(&run));
        taken.push(run);
    }
    transaction.commit().map_err(database)?;
    Ok(taken)
}

/// The approximate number of bytes that a run takes in memory.
pub(super) fn size(run: &OrphanedRun) -> usize {
    let state = run.state.as_ref().map_or(0, |state| state.len());
    let of_call = |call: &OrphanedCall| {
        call.arguments.len() + call.outcome.as_ref().map_or(0, |(output, _)| output.len())
    };
    let items = run.items.iter().map(item_size).sum::<usize>();
    run.body.len() + state + items + run.calls.iter().map(of_call).sum::<usize>()
}

/// An orphan before it is taken over.
pub(super) struct Orphan {
    pub key: i64,
    pub is_deleted: bool,
    pub run: OrphanedRun,
}

impl Orphan {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let owner = Owner { tenant: text(row, 2)?.into(), principal: text(row, 3)?.into() };
        let run = OrphanedRun {
            lease: Lease { id: Id::from(text(row, 1)?), epoch: row.get::<_, u32>(8)?.saturating_add(1) },
            owner,
            cause: match row.get(9)? {
                Some(END_NOT_STORED) => OrphanCause::EndNotStored,
                _ => OrphanCause::ProcessGone,
            },
            is_cancelled: row.get(14)?,
            created_at: row.get(4)?,
            model: row.get(5)?,
            previous: row.get::<_, Option<String>>(6)?.map(Id::from),
            body: text(row, 7)?.into(),
            items: items(row, 12)?,
            calls: Vec::new(),
            state: row.get::<_, Option<Vec<u8>>>(10)?.map(Arc::from),
        };
        Ok(Self { key: row.get(0)?, is_deleted: row.get(11)?, run })
    }

    fn take(self, connection: &Connection, policy: &RowPolicy, now: i64) -> rusqlite::Result<OrphanedRun> {
        let key = self.key;
        connection
            .prepare_cached(
                "UPDATE runs SET instance = ?2, epoch = ?3, lease_until = ?4, orphan = coalesce(orphan, ?5)
                 WHERE response = ?1",
            )?
            .execute(params![
                key,
                policy.instance,
                self.run.lease.epoch,
                now.saturating_add(policy.lease),
                PROCESS_GONE
            ])?;
        self.whole(connection)
    }

    /// The run with its turns and calls.
    pub(super) fn whole(self, connection: &Connection) -> rusqlite::Result<OrphanedRun> {
        let Self { key, mut run, .. } = self;
        run.items.extend(turns(connection, key)?);
        run.calls = calls(connection, key)?;
        Ok(run)
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
