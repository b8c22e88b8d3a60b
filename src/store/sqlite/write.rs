//! Writes of responses: begin, end, delete. Those of calls are in `journal` and `approvals`.
//!
//! Runs inside the writer's transaction; committing and replying is the writer's business.

use std::sync::Arc;

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use super::approvals::{self, ClaimRequest};
use super::in_flight::InFlightRows;
use super::journal;
use super::owners;
use super::retention::{self, RowPolicy};
use super::running::{self, RunningRow};
use crate::protocol::id::Id;
use crate::store::{
    CallOutcome, ClaimOutcome, Direction, ModelView, Owner, PendingApproval, ResponseRecord, StoredItem,
    TurnRecord,
};

/// The approximate size of an approval's row.
const APPROVAL_BYTES: usize = 256;

/// A write.
pub(super) enum Write {
    Begin(ResponseRecord, Option<Arc<[u8]>>),
    Turn(Box<TurnRecord>),
    ToolResult(CallOutcome),
    Finish(ResponseRecord),
    Delete(Owner, String),
    AddApprovals(Vec<PendingApproval>),
    ClaimApprovals(Box<ClaimRequest>),
}

impl Write {
    /// Whether the write adds data.
    pub(super) fn adds(&self) -> bool {
        match self {
            Self::Begin(..)
            | Self::Turn(_)
            | Self::ToolResult(_)
            | Self::Finish(_)
            | Self::AddApprovals(_) => true,
            Self::Delete(..) | Self::ClaimApprovals(_) => false,
        }
    }

    /// The approximate number of bytes that it adds to the log.
    pub(super) fn size(&self) -> usize {
        let of_record =
            |record: &ResponseRecord| record.body.len() + record.items.iter().map(item_size).sum::<usize>();
        let of_state = |state: &Option<Arc<[u8]>>| state.as_ref().map_or(0, |state| state.len());
        match self {
            Self::Begin(record, state) => of_record(record) + of_state(state),
            Self::Finish(record) => of_record(record),
            Self::Turn(turn) => {
                let calls = turn.calls.iter().map(|call| call.arguments.len());
                let begun = turn.begin.as_ref().map_or(0, of_record);
                turn.items.iter().map(item_size).chain(calls).sum::<usize>() + begun + of_state(&turn.state)
            }
            Self::ToolResult(outcome) => outcome.output.len(),
            Self::AddApprovals(pending) => pending.len().saturating_mul(APPROVAL_BYTES),
            Self::Delete(..) | Self::ClaimApprovals(..) => 0,
        }
    }
}

/// The approximate number of bytes of an item's row.
pub(super) fn item_size(item: &StoredItem) -> usize {
    let state = item.state.as_ref().map_or(0, |state| state.blob.len());
    item.wire.len() + history(item).map_or(0, str::len) + state
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// The row was written.
    Changed,
    /// There is no row to change, as its owner has deleted it.
    Absent,
    /// The row has ended or belongs to another process.
    Superseded,
    /// The outcome of claiming approvals.
    Claimed(ClaimOutcome),
}

/// Applies one write.
pub(super) fn apply(
    connection: &Connection,
    policy: &RowPolicy,
    rows: &mut InFlightRows,
    write: &Write,
) -> rusqlite::Result<WriteOutcome> {
    match write {
        Write::Begin(record, state) => begin(connection, policy, rows, record, state.as_deref()),
        Write::Turn(turn) => journal::commit_turn(connection, policy, rows, turn),
        Write::ToolResult(outcome) => journal::record_tool_result(connection, policy, rows, outcome),
        Write::Finish(record) => finish(connection, policy, rows, record),
        Write::Delete(owner, id) => delete(connection, rows, owner, id),
        Write::AddApprovals(pending) => approvals::insert(connection, rows, pending),
        Write::ClaimApprovals(asked) => approvals::claim(connection, asked).map(WriteOutcome::Claimed),
    }
}

const INSERT: &str =
    "INSERT INTO responses (tenant, principal, id, previous_id, status, created_at, finished_at,
        expires_at, lineage_until, instance, model, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, '', ?10, ?11)
    ON CONFLICT (tenant, principal, id) DO NOTHING";

pub(super) fn begin(
    connection: &Connection,
    policy: &RowPolicy,
    rows: &mut InFlightRows,
    record: &ResponseRecord,
    state: Option<&[u8]>,
) -> rusqlite::Result<WriteOutcome> {
    let lease = &record.lease;
    if rows.is_deleted(&lease.id) {
        return Ok(WriteOutcome::Absent);
    }
    if lease.is_first() {
        // A running row does not expire: its time starts at its end.
        if let Some(key) = insert(connection, record, &Row::default())? {
            running::insert(connection, policy, key, lease, state)?;
            rows.add(lease, key);
            insert_items(connection, key, owners::key(&record.owner), 0, &record.items)?;
            return Ok(WriteOutcome::Changed);
        }
    }
    let found = match find(connection, &record.owner, lease.id.as_str())? {
        Some(row) => running::find(connection, policy, lease, row.key)?,
        None => RunningRow::Absent,
    };
    Ok(match found {
        RunningRow::Held => WriteOutcome::Changed,
        RunningRow::Deleted => WriteOutcome::Absent,
        RunningRow::Superseded | RunningRow::Absent => WriteOutcome::Superseded,
    })
}

/// Ends a response, whether it was begun or not.
fn finish(
    connection: &Connection,
    policy: &RowPolicy,
    rows: &mut InFlightRows,
    record: &ResponseRecord,
) -> rusqlite::Result<WriteOutcome> {
    let lease = &record.lease;
    let known = rows.remove(lease);
    let row = ended_row(connection, policy, record)?;
    if known.is_none()
        && lease.is_first()
        && !rows.is_deleted(&lease.id)
        && let Some(key) = insert(connection, record, &row)?
    {
        insert_items(connection, key, owners::key(&record.owner), 0, &record.items)?;
        return Ok(WriteOutcome::Changed);
    }
    let key = match known {
        Some(key) => Some(key),
        None => find(connection, &record.owner, lease.id.as_str())?.map(|row| row.key),
    };
    match key {
        Some(key) => end(connection, policy, record, &row, key),
        None => Ok(WriteOutcome::Absent),
    }
}

/// Ends the row of a running response.
fn end(
    connection: &Connection,
    policy: &RowPolicy,
    record: &ResponseRecord,
    row: &Row,
    key: i64,
) -> rusqlite::Result<WriteOutcome> {
    let lease = &record.lease;
    let changed = connection
        .prepare_cached(
            "UPDATE responses SET previous_id = ?1, status = ?2, finished_at = ?3, expires_at = ?4,
                lineage_until = ?5, model = ?6, body = ?7
             WHERE key = ?8 AND id = ?9 AND expires_at IS NULL
                AND EXISTS (SELECT 1 FROM runs WHERE response = ?8 AND instance = ?10 AND epoch = ?11)",
        )?
        .execute(params![
            record.previous.as_ref().map(Id::as_str),
            record.status.as_str(),
            row.finished_at,
            row.expires_at,
            row.lineage_until,
            record.model,
            &*record.body,
            key,
            lease.id.as_str(),
            policy.instance,
            lease.epoch,
        ])?;
    if changed == 0 {
        return Ok(match running::find(connection, policy, lease, key)? {
            RunningRow::Held | RunningRow::Superseded => WriteOutcome::Superseded,
            RunningRow::Absent => WriteOutcome::Absent,
            RunningRow::Deleted => {
                remove_row(connection, key)?;
                WriteOutcome::Absent
            }
        });
    }
    running::remove(connection, key)?;
    connection.prepare_cached("DELETE FROM items WHERE response = ?1")?.execute([key])?;
    insert_items(connection, key, owners::key(&record.owner), 0, &record.items)?;
    Ok(WriteOutcome::Changed)
}

fn delete(
    connection: &Connection,
    rows: &mut InFlightRows,
    owner: &Owner,
    id: &str,
) -> rusqlite::Result<WriteOutcome> {
    let was_running = rows.delete(owner, &Id::from(id));
    let existed = match find(connection, owner, id)? {
        Some(row) => {
            match row.is_running {
                true => running::delete(connection, row.key)?,
                false => remove_row(connection, row.key)?,
            }
            row.expires_at.is_none_or(|at| at > retention::now())
        }
        None if was_running => {
            // Its approval requests are written before its row.
            approvals::delete_by_response(connection, owner, id)?;
            false
        }
        None => false,
    };
    Ok(if existed || was_running { WriteOutcome::Changed } else { WriteOutcome::Absent })
}

/// Deletes a response with everything that belongs to it.
pub(super) fn remove_row(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM items WHERE response = ?1")?.execute([key])?;
    connection.prepare_cached("DELETE FROM tool_calls WHERE response = ?1")?.execute([key])?;
    approvals::delete_by_row(connection, key)?;
    running::remove(connection, key)?;
    connection.prepare_cached("DELETE FROM responses WHERE key = ?1")?.execute([key])?;
    Ok(())
}

/// The columns of a row beside its record.
#[derive(Default)]
struct Row {
    finished_at: Option<i64>,
    expires_at: Option<i64>,
    lineage_until: Option<i64>,
}

fn ended_row(connection: &Connection, policy: &RowPolicy, record: &ResponseRecord) -> rusqlite::Result<Row> {
    let now = retention::now();
    let expires_at = policy.retention.expiry(now);
    let lineage_until = retention::extend_lineage(connection, policy, record, now)?;
    Ok(Row { finished_at: Some(now), expires_at, lineage_until })
}

/// The key of the new row; `None` if a row of this id exists.
fn insert(connection: &Connection, record: &ResponseRecord, row: &Row) -> rusqlite::Result<Option<i64>> {
    let inserted = connection.prepare_cached(INSERT)?.execute(params![
        &*record.owner.tenant,
        &*record.owner.principal,
        record.lease.id.as_str(),
        record.previous.as_ref().map(Id::as_str),
        record.status.as_str(),
        record.created_at,
        row.finished_at,
        row.expires_at,
        row.lineage_until,
        record.model,
        &*record.body,
    ])?;
    Ok((inserted > 0).then(|| connection.last_insert_rowid()))
}

/// Inserts items of a response, by the keys of response and owner, from this position on.
pub(super) fn insert_items(
    connection: &Connection,
    key: i64,
    owner: i64,
    first: i64,
    items: &[StoredItem],
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO items (response, position, item_id, side, history, wire, state_key, state, owner)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for (position, item) in (first..).zip(items) {
        insert_item(&mut statement, (key, owner), position, item)?;
    }
    Ok(())
}

fn insert_item(
    statement: &mut CachedStatement<'_>,
    (key, owner): (i64, i64),
    position: i64,
    item: &StoredItem,
) -> rusqlite::Result<()> {
    let side = match item.direction {
        Direction::Input => super::INPUT,
        Direction::Output => super::OUTPUT,
    };
    let state = item.state.as_ref();
    statement.execute(params![
        key,
        position,
        item.id.as_str(),
        side,
        history(item),
        &*item.wire,
        state.map(|state| state.key.as_str()),
        state.map(|state| &*state.blob),
        owner,
    ])?;
    Ok(())
}

/// The column `history`: null, the other form, or the empty string for nothing.
fn history(item: &StoredItem) -> Option<&str> {
    match &item.model_view {
        ModelView::Same => None,
        ModelView::Override(text) => Some(text),
        ModelView::Hidden => Some(""),
    }
}

/// Where a response is, and whether it still exists.
struct Found {
    key: i64,
    expires_at: Option<i64>,
    is_running: bool,
}

fn find(connection: &Connection, owner: &Owner, id: &str) -> rusqlite::Result<Option<Found>> {
    connection
        .prepare_cached(
            "SELECT key, expires_at, EXISTS (SELECT 1 FROM runs WHERE response = key) FROM responses
             WHERE tenant = ?1 AND principal = ?2 AND id = ?3",
        )?
        .query_row(params![&*owner.tenant, &*owner.principal, id], |row| {
            Ok(Found { key: row.get(0)?, expires_at: row.get(1)?, is_running: row.get(2)? })
        })
        .optional()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::response::ResponseStatus;
    use crate::store::{Lease, StateKey, StoredState};

    /// Once only the texts of a turn's own items were counted, however large the response was that it began.
    #[test]
    fn a_turn_counts_with_the_response_that_it_begins_and_what_providers_want_back() {
        let owner = Owner { tenant: "t".into(), principal: "p".into() };
        let state = StoredState { key: StateKey::new(&owner, "k"), blob: "x".repeat(1_000).into() };
        let item = StoredItem {
            id: "msg_1".into(),
            direction: Direction::Input,
            wire: "y".repeat(10_000).into(),
            model_view: ModelView::Same,
            state: Some(state),
        };
        let begin = ResponseRecord {
            lease: Lease::first("resp_1".into()),
            owner,
            status: ResponseStatus::InProgress,
            model: "m".to_owned(),
            created_at: 0,
            previous: None,
            body: "z".repeat(100_000).into(),
            items: vec![item.clone()],
        };
        let (lease, items) = (begin.lease.clone(), vec![item]);
        let state: Arc<[u8]> = vec![0; 1_000_000].into();
        assert_eq!(Write::Begin(begin.clone(), Some(Arc::clone(&state))).size(), 1_111_000);
        let turn = TurnRecord {
            lease,
            begin: Some(begin),
            items,
            first_position: 1,
            turn: 0,
            calls: Vec::new(),
            state: Some(state),
        };
        assert_eq!(Write::Turn(Box::new(turn)).size(), 1_122_000);
    }
}
