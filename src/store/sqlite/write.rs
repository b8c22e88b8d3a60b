//! Writes of responses: begin, end, delete. Those of calls are in `journal` and `approvals`.
//!
//! Runs inside the writer's transaction; committing and replying is the writer's business.

use std::collections::HashMap;

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use super::approvals::{self, ClaimRequest};
use super::journal;
use super::owners;
use super::recovery::NOT_STORED;
use super::retention::{self, RowPolicy};
use crate::protocol::id::Id;
use crate::store::{
    CallOutcome, ClaimOutcome, Direction, ModelView, Owner, PendingApproval, ResponseRecord, RunRegistry,
    StoredItem, TurnRecord,
};

/// The approximate size of an approval's row.
const APPROVAL_BYTES: usize = 256;

/// A write.
pub(super) enum Write {
    Begin(ResponseRecord),
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
            Self::Begin(_)
            | Self::Turn(_)
            | Self::ToolResult(_)
            | Self::Finish(_)
            | Self::AddApprovals(_) => true,
            Self::Delete(..) | Self::ClaimApprovals(_) => false,
        }
    }

    /// The approximate number of bytes that it adds to the log.
    pub(super) fn size(&self) -> usize {
        let of_item = |item: &StoredItem| {
            let state = item.state.as_ref().map_or(0, |state| state.blob.len());
            item.wire.len() + history(item).map_or(0, str::len) + state
        };
        let of_record =
            |record: &ResponseRecord| record.body.len() + record.items.iter().map(of_item).sum::<usize>();
        match self {
            Self::Begin(record) | Self::Finish(record) => of_record(record),
            Self::Turn(turn) => {
                let calls = turn.calls.iter().map(|call| call.arguments.len());
                let begun = turn.begin.as_ref().map_or(0, of_record);
                turn.items.iter().map(of_item).chain(calls).sum::<usize>() + begun
            }
            Self::ToolResult(outcome) => outcome.output.len(),
            Self::AddApprovals(pending) => pending.len().saturating_mul(APPROVAL_BYTES),
            Self::Delete(..) | Self::ClaimApprovals(..) => 0,
        }
    }
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

/// The responses that this process has begun and not finished, with the keys of their rows.
///
/// Because of them a response that is deleted while it runs stays deleted: its end updates a row that is gone,
/// whereas that of a response which was never begun inserts one. Runs without a row are in the registry. Changes are
/// undone with the transaction.
pub(super) struct InFlightRows {
    keys: HashMap<Id, i64>,
    undo: Vec<(Id, Option<i64>)>,
    runs: RunRegistry,
    deleted: Vec<Id>,
    abandoned: Vec<(i64, Id)>,
}

impl InFlightRows {
    pub(super) fn new(runs: RunRegistry) -> Self {
        Self { keys: HashMap::new(), undo: Vec::new(), runs, deleted: Vec::new(), abandoned: Vec::new() }
    }

    /// A write has failed for good. If it was the end of a run, the run will not write it again.
    pub(super) fn abandon(&mut self, write: &Write) {
        if let Write::Finish(record) = write
            && let Some(key) = self.keys.remove(&record.id)
        {
            self.abandoned.push((key, record.id.clone()));
        }
    }

    /// Abandons the rows of runs whose end could not be written, so that they are ended like those of a dead process.
    pub(super) fn release_abandoned(
        &mut self,
        connection: &Connection,
        policy: &RowPolicy,
    ) -> rusqlite::Result<()> {
        while let Some((key, id)) = self.abandoned.last() {
            connection
                .prepare_cached(
                    "UPDATE responses SET instance = instance || ?4, lease_until = 0
                     WHERE key = ?1 AND id = ?2 AND instance = ?3 AND lease_until IS NOT NULL",
                )?
                .execute(params![key, id.as_str(), policy.instance, NOT_STORED])?;
            self.abandoned.pop();
        }
        Ok(())
    }

    /// Deletes a run, with or without a row. Returns whether this owner had one that was not deleted yet.
    fn delete(&mut self, owner: &Owner, id: &Id) -> bool {
        let was_running = self.runs.delete(id, owner);
        if was_running {
            self.deleted.push(id.clone());
        }
        was_running
    }

    /// Whether a running response was deleted, so that nothing more of it is stored.
    pub(super) fn is_deleted(&self, id: &Id) -> bool {
        self.runs.is_deleted(id)
    }

    fn add(&mut self, id: &Id, key: i64) {
        let before = self.keys.insert(id.clone(), key);
        self.undo.push((id.clone(), before));
    }

    /// The key of a response that this process has begun.
    pub(super) fn key(&self, id: &Id) -> Option<i64> {
        self.keys.get(id).copied()
    }

    fn remove(&mut self, id: &Id) -> Option<i64> {
        let (id, key) = self.keys.remove_entry(id)?;
        self.undo.push((id, Some(key)));
        Some(key)
    }

    pub(super) fn commit(&mut self) {
        self.undo.clear();
        self.deleted.clear();
    }

    pub(super) fn rollback(&mut self) {
        for id in self.deleted.drain(..) {
            self.runs.restore(&id);
        }
        while let Some((id, before)) = self.undo.pop() {
            match before {
                Some(key) => self.keys.insert(id, key),
                None => self.keys.remove(&id),
            };
        }
    }
}

/// Applies one write.
pub(super) fn apply(
    connection: &Connection,
    policy: &RowPolicy,
    begun: &mut InFlightRows,
    write: &Write,
) -> rusqlite::Result<WriteOutcome> {
    match write {
        Write::Begin(record) => begin(connection, policy, begun, record),
        Write::Turn(turn) => journal::commit_turn(connection, policy, begun, turn),
        Write::ToolResult(outcome) => journal::record_tool_result(connection, begun, outcome),
        Write::Finish(record) => {
            let key = begun.remove(&record.id);
            match key {
                _ if begun.is_deleted(&record.id) => Ok(WriteOutcome::Absent),
                Some(key) => end(connection, policy, record, key),
                None => insert_ended(connection, policy, record),
            }
        }
        Write::Delete(owner, id) => delete(connection, begun, owner, id),
        Write::AddApprovals(pending) => approvals::insert(connection, begun, pending),
        Write::ClaimApprovals(asked) => approvals::claim(connection, asked).map(WriteOutcome::Claimed),
    }
}

const INSERT: &str =
    "INSERT INTO responses (tenant, principal, id, previous_id, status, created_at, finished_at,
        expires_at, lineage_until, instance, lease_until, model, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
    ON CONFLICT (tenant, principal, id) DO NOTHING";

pub(super) fn begin(
    connection: &Connection,
    policy: &RowPolicy,
    begun: &mut InFlightRows,
    record: &ResponseRecord,
) -> rusqlite::Result<WriteOutcome> {
    if begun.is_deleted(&record.id) {
        return Ok(WriteOutcome::Absent);
    }
    if begun.keys.contains_key(&record.id) {
        return Ok(WriteOutcome::Changed);
    }
    let lease_until = retention::now().saturating_add(policy.lease);
    // A running row does not expire: its time starts at its end.
    let row = Row { lease_until: Some(lease_until), ..Row::default() };
    let Some(key) = insert(connection, policy, record, &row)? else {
        return Ok(WriteOutcome::Superseded);
    };
    begun.add(&record.id, key);
    insert_items(connection, key, owners::key(&record.owner), 0, &record.items)?;
    Ok(WriteOutcome::Changed)
}

fn insert_ended(
    connection: &Connection,
    policy: &RowPolicy,
    record: &ResponseRecord,
) -> rusqlite::Result<WriteOutcome> {
    let row = ended_row(connection, policy, record)?;
    let Some(key) = insert(connection, policy, record, &row)? else {
        return Ok(WriteOutcome::Superseded);
    };
    insert_items(connection, key, owners::key(&record.owner), 0, &record.items)?;
    Ok(WriteOutcome::Changed)
}

/// Ends a row that this process began.
fn end(
    connection: &Connection,
    policy: &RowPolicy,
    record: &ResponseRecord,
    key: i64,
) -> rusqlite::Result<WriteOutcome> {
    let row = ended_row(connection, policy, record)?;
    // The id is compared, too: keys of deleted rows are reused. Rows of this process have epoch 1, since a take-over
    // by another one increments it.
    let changed = connection
        .prepare_cached(
            "UPDATE responses SET previous_id = ?1, status = ?2, finished_at = ?3, expires_at = ?4,
                lineage_until = ?5, lease_until = NULL, model = ?6, body = ?7
             WHERE key = ?8 AND id = ?9 AND instance = ?10 AND lease_until IS NOT NULL AND epoch = 1",
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
            record.id.as_str(),
            policy.instance,
        ])?;
    if changed == 0 {
        let exists = find(connection, &record.owner, record.id.as_str())?.is_some();
        return Ok(if exists { WriteOutcome::Superseded } else { WriteOutcome::Absent });
    }
    connection.prepare_cached("DELETE FROM items WHERE response = ?1")?.execute([key])?;
    insert_items(connection, key, owners::key(&record.owner), 0, &record.items)?;
    Ok(WriteOutcome::Changed)
}

fn delete(
    connection: &Connection,
    begun: &mut InFlightRows,
    owner: &Owner,
    id: &str,
) -> rusqlite::Result<WriteOutcome> {
    let was_running = begun.delete(owner, &Id::from(id));
    let existed = match find(connection, owner, id)? {
        Some((key, expires_at)) => {
            remove_row(connection, key)?;
            expires_at.is_none_or(|at| at > retention::now())
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
    connection.prepare_cached("DELETE FROM responses WHERE key = ?1")?.execute([key])?;
    Ok(())
}

/// The columns of a row beside its record.
#[derive(Default)]
struct Row {
    finished_at: Option<i64>,
    expires_at: Option<i64>,
    lineage_until: Option<i64>,
    lease_until: Option<i64>,
}

fn ended_row(connection: &Connection, policy: &RowPolicy, record: &ResponseRecord) -> rusqlite::Result<Row> {
    let now = retention::now();
    let expires_at = policy.expiry(now);
    let lineage_until = retention::extend_lineage(connection, policy, record, now)?;
    Ok(Row { finished_at: Some(now), expires_at, lineage_until, lease_until: None })
}

/// The key of the new row; `None` if a row of this id exists.
fn insert(
    connection: &Connection,
    policy: &RowPolicy,
    record: &ResponseRecord,
    row: &Row,
) -> rusqlite::Result<Option<i64>> {
    let inserted = connection.prepare_cached(INSERT)?.execute(params![
        &*record.owner.tenant,
        &*record.owner.principal,
        record.id.as_str(),
        record.previous.as_ref().map(Id::as_str),
        record.status.as_str(),
        record.created_at,
        row.finished_at,
        row.expires_at,
        row.lineage_until,
        policy.instance,
        row.lease_until,
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

fn find(connection: &Connection, owner: &Owner, id: &str) -> rusqlite::Result<Option<(i64, Option<i64>)>> {
    connection
        .prepare_cached(
            "SELECT key, expires_at FROM responses WHERE tenant = ?1 AND principal = ?2 AND id = ?3",
        )?
        .query_row(params![&*owner.tenant, &*owner.principal, id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::response::ResponseStatus;
    use crate::store::{StateKey, StoredState};

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
            id: "resp_1".into(),
            owner,
            status: ResponseStatus::InProgress,
            model: "m".to_owned(),
            created_at: 0,
            previous: None,
            body: "z".repeat(100_000).into(),
            items: vec![item.clone()],
        };
        let (id, items) = (begin.id.clone(), vec![item]);
        assert_eq!(Write::Begin(begin.clone()).size(), 111_000);
        let turn =
            TurnRecord { id, begin: Some(begin), items, first_position: 1, turn: 0, calls: Vec::new() };
        assert_eq!(Write::Turn(Box::new(turn)).size(), 122_000);
    }
}
