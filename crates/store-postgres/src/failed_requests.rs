//! Rows of requests that failed before their first output. Of each tenant the oldest are removed beyond a number.

use tokio_postgres::types::Type;

use super::keys::ResponseKey;
use super::owners;
use super::session::{Param, Session};
use antwort_store::failed_requests::MAX_REMOVED;
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{ResponseRecord, StoreError};

const INSERT: &str =
    "INSERT INTO responses (key, owner, id, expires_at, lineage_until, created_at, finished_at,
        status, model, item_index, items, body, trace, failed_tenant)
    VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8, ''::bytea, ''::bytea, $9, $10, $11)
    ON CONFLICT (key, owner) DO NOTHING";

/// Nothing but the row is there of such a request. Those that another process removes at the moment are left to it.
const REMOVE: &str = "DELETE FROM responses WHERE (key, owner) IN (
        SELECT key, owner FROM responses WHERE (key, owner) IN (
            SELECT key, owner FROM responses WHERE failed_tenant = $1 ORDER BY key DESC LIMIT $3 OFFSET $2)
        FOR UPDATE SKIP LOCKED)";

/// Writes the row of such a request.
pub(super) async fn insert(
    session: Session<'_>,
    policy: &RowPolicy,
    in_flight: &InFlightRows,
    record: &ResponseRecord,
) -> Result<WriteOutcome, StoreError> {
    let id = &record.lease.id;
    if in_flight.is_deleted(&record.owner, id) {
        return Ok(WriteOutcome::Absent);
    }
    let owner = owners::key(session, &record.owner).await?;
    let (now, key) = (now(), ResponseKey::of(id.as_str()));
    let expires_at = policy.retention.of(&record.owner.tenant).expiry(now);
    let (tenant, model) = (record.owner.tenant.as_bytes(), record.model.as_bytes());
    let (body, trace) = (record.body.as_bytes(), record.trace.as_ref().map(|trace| trace.as_bytes()));
    let params: [Param<'_>; 11] = [
        (&key.uuid, Type::UUID),
        (&owner, Type::INT8),
        (&key.id, Type::BYTEA),
        (&expires_at, Type::INT8),
        (&record.created_at, Type::INT8),
        (&now, Type::INT8),
        (&record.status.as_str(), Type::TEXT),
        (&model, Type::BYTEA),
        (&body, Type::BYTEA),
        (&trace, Type::BYTEA),
        (&tenant, Type::BYTEA),
    ];
    if session.execute(INSERT, &params).await? == 0 {
        return Ok(WriteOutcome::Superseded);
    }
    if let Some(kept) = policy.failed_requests.kept_with(id) {
        let params: [Param<'_>; 3] =
            [(&tenant, Type::BYTEA), (&kept, Type::INT8), (&MAX_REMOVED, Type::INT8)];
        session.execute(REMOVE, &params).await?;
    }
    Ok(WriteOutcome::Changed)
}
