//! The write that is made most: a response that ends and was never begun, in one statement.
//!
//! It does nothing if more is to be done than that: the response has a row, or the chain that it continues is to be kept
//! alive for longer.

use std::borrow::Cow;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::item_ids::IndexedNames;
use super::keys::ResponseKey;
use super::rows::previous_key;
use super::session::{Param, Session};
use super::values::get;
use antwort_store::in_flight::InFlightRows;
use antwort_store::item_index::ItemColumns;
use antwort_store::operation::Write;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{ResponseRecord, StoreError};

/// $5 is until when the chain before it must live already, if there is one and its life is limited.
const INSERT: &str = "WITH parent AS (SELECT lineage_until FROM responses WHERE key = $8 AND owner = $2),
    row AS (
        INSERT INTO responses (key, owner, id, expires_at, lineage_until, created_at, finished_at, previous_key,
            previous_id, status, model, item_index, items, body, trace)
        SELECT $1, $2, $3, $4, CASE WHEN $5::bigint IS NULL THEN $4 ELSE (SELECT lineage_until FROM parent) END, $6, $7,
            $8, $9, $10, $11, $12, $13, $14, $17
        WHERE $5::bigint IS NULL OR EXISTS (SELECT 1 FROM parent WHERE lineage_until >= $5)
        ON CONFLICT (key, owner) DO NOTHING RETURNING key),
    ids AS (INSERT INTO item_ids (owner, item_id, response)
        SELECT $2, i.name, row.key FROM row CROSS JOIN unnest($15::bytea[]) AS i (name) ON CONFLICT DO NOTHING),
    states AS (INSERT INTO item_states (owner, state_key, response)
        SELECT $2, i.name, row.key FROM row CROSS JOIN unnest($16::bytea[]) AS i (name) ON CONFLICT DO NOTHING)
    SELECT count(*) FROM row";

/// The columns of a response that ends.
pub(super) struct FastFinish<'a> {
    key: ResponseKey<'a>,
    owner: i64,
    record: &'a ResponseRecord,
    columns: ItemColumns,
    previous_key: Option<Uuid>,
    now: i64,
    expires_at: Option<i64>,
    recent: Option<i64>,
}

/// The record of a write that may be made so.
pub(super) fn record<'a>(write: &'a Write, in_flight: &InFlightRows) -> Option<&'a ResponseRecord> {
    let Write::Finish(record) = write else { return None };
    let lease = &record.lease;
    let is_alone = record.conversation.is_none() && record.outbox.is_empty() && record.approvals.is_empty();
    let is_whole = is_alone && lease.is_first() && !in_flight.is_begun(lease);
    (is_whole && !in_flight.is_deleted(&record.owner, &lease.id)).then_some(record)
}

impl<'a> FastFinish<'a> {
    pub(super) fn new(policy: &RowPolicy, owner: i64, record: &'a ResponseRecord) -> Self {
        let (now, retention) = (now(), policy.retention.of(&record.owner.tenant));
        let expires_at = retention.expiry(now);
        let previous_key = previous_key(record);
        let recent = expires_at.filter(|_| previous_key.is_some()).map(|expiry| retention.recent(expiry));
        let key = ResponseKey::of(record.lease.id.as_str());
        let columns = ItemColumns::of(&record.items);
        Self { key, owner, record, columns, previous_key, now, expires_at, recent }
    }

    /// Has the statement prepared, so that [`Self::send`] sends it as soon as it is polled.
    pub(super) async fn prepare(&self, session: Session<'_>) -> Result<(), StoreError> {
        session.prepare(INSERT, &self.params(&self.values())).await
    }

    /// Whether nothing is left to be prepared.
    pub(super) fn is_prepared(session: Session<'_>) -> bool {
        session.is_prepared(INSERT)
    }

    /// Sends it. Returns whether the row was written.
    pub(super) async fn send(&self, session: Session<'_>) -> Result<bool, StoreError> {
        let values = self.values();
        match session.query_opt(INSERT, &self.params(&values)).await? {
            Some(row) => Ok(get::<i64>(&row, 0)? > 0),
            None => Ok(false),
        }
    }

    fn values(&self) -> Values<'_> {
        let record = self.record;
        let names = IndexedNames::to_write(&self.columns.index, record.lease.id.as_str());
        Values {
            previous: record.continued().map(|id| id.as_str().as_bytes()),
            status: record.status.as_str(),
            model: record.model.as_bytes(),
            body: record.body.as_bytes(),
            trace: record.trace.as_ref().map(|trace| trace.as_bytes()),
            ids: names.ids,
            states: names.states,
        }
    }

    fn params<'b>(&'b self, values: &'b Values<'b>) -> [Param<'b>; 17] {
        [
            (&self.key.uuid, Type::UUID),
            (&self.owner, Type::INT8),
            (&self.key.id, Type::BYTEA),
            (&self.expires_at, Type::INT8),
            (&self.recent, Type::INT8),
            (&self.record.created_at, Type::INT8),
            (&self.now, Type::INT8),
            (&self.previous_key, Type::UUID),
            (&values.previous, Type::BYTEA),
            (&values.status, Type::TEXT),
            (&values.model, Type::BYTEA),
            (&self.columns.index, Type::BYTEA),
            (&self.columns.texts, Type::BYTEA),
            (&values.body, Type::BYTEA),
            (&values.ids, Type::BYTEA_ARRAY),
            (&values.states, Type::BYTEA_ARRAY),
            (&values.trace, Type::BYTEA),
        ]
    }
}

/// Parameters that are made of the record.
struct Values<'a> {
    previous: Option<&'a [u8]>,
    status: &'a str,
    model: &'a [u8],
    body: &'a [u8],
    trace: Option<&'a [u8]>,
    ids: Vec<Cow<'a, [u8]>>,
    states: Vec<Cow<'a, [u8]>>,
}
