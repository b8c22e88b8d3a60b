//! The life of a response: begun, ended, deleted.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::conversation_locks::HeldLocks;
use super::keys::ResponseKey;
use super::retention::extend_lineage;
use super::rows::{self, Lifetime};
use super::running::{self, RunningRow};
use super::session::Session;
use super::{approvals, conversation_turns, deleted_keys, outbox, owners, removal};
use antwort_protocol::id::Id;
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{Owner, ResponseRecord, StoreError};

/// Begins a response. Returns the key of its row, or why it has none for this run.
pub(super) async fn begin(
    session: Session<'_>,
    policy: &RowPolicy,
    in_flight: &mut InFlightRows,
    record: &ResponseRecord,
    state: Option<&[u8]>,
) -> Result<Result<(Uuid, i64), WriteOutcome>, StoreError> {
    let lease = &record.lease;
    if in_flight.drops(&record.owner, &lease.id) {
        return Ok(Err(WriteOutcome::Absent));
    }
    let owner = owners::key(session, &record.owner).await?;
    if lease.is_first() {
        // A running row does not expire: its time starts at its end.
        if let Some(key) = rows::insert(session, owner, record, Lifetime::default()).await? {
            running::insert(session, policy, key, lease, state).await?;
            in_flight.add(lease);
            return Ok(Ok(key));
        }
    }
    let Some(row) = rows::find(session, owner, lease.id.as_str()).await? else {
        return Ok(Err(WriteOutcome::Superseded));
    };
    Ok(match row.state(policy, lease) {
        RunningRow::Held => {
            in_flight.add(lease);
            Ok(row.key)
        }
        RunningRow::Deleted => Err(WriteOutcome::Absent),
        RunningRow::Superseded => Err(WriteOutcome::Superseded),
    })
}

/// Ends a response, whether it was begun or not.
pub(super) async fn finish(
    session: Session<'_>,
    policy: &RowPolicy,
    locks: &HeldLocks,
    in_flight: &mut InFlightRows,
    record: &ResponseRecord,
) -> Result<WriteOutcome, StoreError> {
    let lease = &record.lease;
    let was_begun = in_flight.remove(lease);
    let owner = owners::key(session, &record.owner).await?;
    let Some(row) = rows::find(session, owner, lease.id.as_str()).await? else {
        if was_begun || !lease.is_first() || in_flight.is_deleted(&record.owner, &lease.id) {
            return Ok(WriteOutcome::Absent);
        }
        conversation_turns::release(session, policy, locks, owner, record).await?;
        let lifetime = ended(session, policy, owner, record).await?;
        if rows::insert(session, owner, record, lifetime).await?.is_none() {
            return Ok(WriteOutcome::Superseded);
        }
        outbox::insert(session, owner, &record.outbox).await?;
        approvals::insert_of(session, owner, record).await?;
        conversation_turns::append_turn(session, owner, record).await?;
        return Ok(WriteOutcome::Changed);
    };
    match row.state(policy, lease) {
        RunningRow::Held => {
            conversation_turns::release(session, policy, locks, owner, record).await?;
            let lifetime = ended(session, policy, owner, record).await?;
            rows::end(session, &row, record, lifetime).await?;
            outbox::insert(session, owner, &record.outbox).await?;
            approvals::insert_of(session, owner, record).await?;
            conversation_turns::append_turn(session, owner, record).await?;
            Ok(WriteOutcome::Changed)
        }
        RunningRow::Deleted => {
            removal::remove_all(session, &[row.key]).await?;
            Ok(WriteOutcome::Absent)
        }
        RunningRow::Superseded => Ok(WriteOutcome::Superseded),
    }
}

async fn ended(
    session: Session<'_>,
    policy: &RowPolicy,
    owner: i64,
    record: &ResponseRecord,
) -> Result<Lifetime, StoreError> {
    let now = now();
    let tenant = &*record.owner.tenant;
    let retentions = (policy.retention.of(tenant), policy.conversations.of(tenant));
    let expires_at = retentions.0.expiry(now);
    let lineage_until = extend_lineage(session, retentions, owner, record.previous.as_ref(), now).await?;
    Ok(Lifetime { finished_at: Some(now), expires_at, lineage_until })
}

const IS_STORED: &str =
    "SELECT 1 FROM responses s WHERE key = $1 AND owner = $2 AND body = $3 AND finished_at IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.response = s.key AND r.owner = s.owner)";

/// Whether a response has ended with this record: a commit whose outcome was unknown was made.
pub(super) async fn is_stored(session: Session<'_>, record: &ResponseRecord) -> Result<bool, StoreError> {
    let Some(owner) = owners::find(session, &record.owner).await? else { return Ok(false) };
    let (key, body) = (ResponseKey::of(record.lease.id.as_str()).uuid, record.body.as_bytes());
    let params: [super::session::Param<'_>; 3] =
        [(&key, Type::UUID), (&owner, Type::INT8), (&body, Type::BYTEA)];
    Ok(session.query_opt(IS_STORED, &params).await?.is_some())
}

/// Deletes a response of this owner, or a registered run without a row.
pub(super) async fn delete(
    session: Session<'_>,
    in_flight: &mut InFlightRows,
    owner: &Owner,
    id: &str,
) -> Result<WriteOutcome, StoreError> {
    let was_running = in_flight.delete(owner, &Id::from(id));
    let existed = match owners::find(session, owner).await? {
        Some(owner) => delete_row(session, owner, id, was_running).await?,
        None => false,
    };
    Ok(if existed || was_running { WriteOutcome::Changed } else { WriteOutcome::Absent })
}

async fn delete_row(
    session: Session<'_>,
    owner: i64,
    id: &str,
    was_running: bool,
) -> Result<bool, StoreError> {
    let Some(row) = rows::find(session, owner, id).await? else {
        if was_running {
            // Its approval requests are written before its row.
            approvals::delete_by_response(session, owner, id).await?;
        }
        return Ok(false);
    };
    deleted_keys::keep(session, row.key).await?;
    match row.is_running() {
        true => removal::empty_running(session, &[row.key]).await?,
        false => removal::remove_all(session, &[row.key]).await?,
    };
    Ok(row.expires_at.is_none_or(|at| at > now()))
}
