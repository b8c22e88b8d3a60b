//! The rows of responses: found by id, inserted and ended.
//!
//! Whoever writes, takes over, ends or deletes a running response locks the row of its run first. So what is read behind
//! the lock is still so when the transaction is committed.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::keys::ResponseKey;
use super::running::{self, RunningRow};
use super::session::{Param, Session};
use super::values::get;
use super::{conversation_turns, item_ids};
use antwort_store::item_index::ItemColumns;
use antwort_store::row_policy::RowPolicy;
use antwort_store::{Lease, ResponseRecord, StoreError};

/// The columns of a row that has ended, beside those of its record.
#[derive(Default, Clone, Copy)]
pub(super) struct Lifetime {
    pub finished_at: Option<i64>,
    pub expires_at: Option<i64>,
    pub lineage_until: Option<i64>,
}

/// A row, as a write finds it.
pub(super) struct Row {
    pub key: (Uuid, i64),
    pub expires_at: Option<i64>,
    pub item_index: Vec<u8>,
    /// The process and the epoch that make it, while it runs.
    run: Option<(String, i32)>,
}

impl Row {
    pub(super) fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// The row as the holder of a lease finds it.
    pub(super) fn state(&self, policy: &RowPolicy, lease: &Lease) -> RunningRow {
        match &self.run {
            Some((instance, epoch)) if *instance == policy.instance && *epoch == running::epoch(lease) => {
                if self.expires_at.is_some() {
                    RunningRow::Deleted
                } else {
                    RunningRow::Held
                }
            }
            _ => RunningRow::Superseded,
        }
    }
}

const LOCK: &str = "SELECT 1 FROM runs WHERE response = $1 AND owner = $2 FOR UPDATE";
const FIND: &str = "SELECT s.expires_at, s.item_index, r.instance, r.epoch
    FROM responses s LEFT JOIN runs r ON r.response = s.key AND r.owner = s.owner
    WHERE s.key = $1 AND s.owner = $2";

/// The row of this id and owner. If it runs, its run is locked.
pub(super) async fn find(session: Session<'_>, owner: i64, id: &str) -> Result<Option<Row>, StoreError> {
    let key = (ResponseKey::of(id).uuid, owner);
    let params: [Param<'_>; 2] = [(&key.0, Type::UUID), (&key.1, Type::INT8)];
    let rows = session.query_behind((LOCK, &params), (FIND, &params)).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let run = get::<Option<String>>(row, 2)?.zip(get(row, 3)?);
    Ok(Some(Row { key, expires_at: get(row, 0)?, item_index: get(row, 1)?, run }))
}

const INSERT: &str =
    "INSERT INTO responses (key, owner, id, expires_at, lineage_until, created_at, finished_at,
        status, previous_key, previous_id, model, item_index, items, body, trace, unlisted)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) ON CONFLICT (key, owner) DO NOTHING";

/// Inserts the row of a response that has none, with its items. Returns its key; `None` if it has one meanwhile.
pub(super) async fn insert(
    session: Session<'_>,
    owner: i64,
    record: &ResponseRecord,
    lifetime: Lifetime,
) -> Result<Option<(Uuid, i64)>, StoreError> {
    let id = record.lease.id.as_str();
    let key = ResponseKey::of(id);
    let columns = ItemColumns::of(&record.items);
    let previous = record.continued().map(|id| id.as_str().as_bytes());
    let (model, body) = (record.model.as_bytes(), record.body.as_bytes());
    let previous_key = previous_key(record);
    let trace = record.trace.as_ref().map(|trace| trace.as_bytes());
    let params: [Param<'_>; 16] = [
        (&key.uuid, Type::UUID),
        (&owner, Type::INT8),
        (&key.id, Type::BYTEA),
        (&lifetime.expires_at, Type::INT8),
        (&lifetime.lineage_until, Type::INT8),
        (&record.created_at, Type::INT8),
        (&lifetime.finished_at, Type::INT8),
        (&record.status.as_str(), Type::TEXT),
        (&previous_key, Type::UUID),
        (&previous, Type::BYTEA),
        (&model, Type::BYTEA),
        (&columns.index, Type::BYTEA),
        (&columns.texts, Type::BYTEA),
        (&body, Type::BYTEA),
        (&trace, Type::BYTEA),
        (&record.is_unlisted.then_some(true), Type::BOOL),
    ];
    if session.execute(INSERT, &params).await? == 0 {
        return Ok(None);
    }
    let key = (key.uuid, owner);
    item_ids::replace(session, key, id, &[], &columns.index).await?;
    conversation_turns::note_context(session, key, record).await?;
    Ok(Some(key))
}

/// The column `previous_key`.
pub(super) fn previous_key(record: &ResponseRecord) -> Option<Uuid> {
    let previous = record.previous.as_ref().filter(|_| record.conversation.is_none());
    previous.map(|id| ResponseKey::of(id.as_str()).uuid)
}

const END: &str = "UPDATE responses SET expires_at = $3, lineage_until = $4, finished_at = $5, status = $6,
        previous_key = $7, previous_id = $8, model = $9, item_index = $10, items = $11, body = $12, trace = $13
    WHERE key = $1 AND owner = $2 AND finished_at IS NULL";

/// Ends the row of a running response: its record replaces what was written of it before.
pub(super) async fn end(
    session: Session<'_>,
    row: &Row,
    record: &ResponseRecord,
    lifetime: Lifetime,
) -> Result<(), StoreError> {
    let columns = ItemColumns::of(&record.items);
    let previous = record.continued().map(|id| id.as_str().as_bytes());
    let (model, body) = (record.model.as_bytes(), record.body.as_bytes());
    let previous_key = previous_key(record);
    let trace = record.trace.as_ref().map(|trace| trace.as_bytes());
    let params: [Param<'_>; 13] = [
        (&row.key.0, Type::UUID),
        (&row.key.1, Type::INT8),
        (&lifetime.expires_at, Type::INT8),
        (&lifetime.lineage_until, Type::INT8),
        (&lifetime.finished_at, Type::INT8),
        (&record.status.as_str(), Type::TEXT),
        (&previous_key, Type::UUID),
        (&previous, Type::BYTEA),
        (&model, Type::BYTEA),
        (&columns.index, Type::BYTEA),
        (&columns.texts, Type::BYTEA),
        (&body, Type::BYTEA),
        (&trace, Type::BYTEA),
    ];
    session.execute(END, &params).await?;
    running::remove(session, row.key).await?;
    item_ids::replace(session, row.key, record.lease.id.as_str(), &row.item_index, &columns.index).await
}
