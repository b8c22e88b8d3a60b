//! The life of a response: begun, ended, deleted.

use rusqlite::Connection;

use super::retention::extend_lineage;
use super::rows::{self, Lifetime};
use super::running::{self, RunningRow};
use super::{approvals, conversations, deleted_keys, outbox, owners};
use antwort_protocol::id::Id;
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{Owner, ResponseRecord};

/// Begins a response. Returns the key of its row, or why it has none for this run.
pub(super) fn begin(
    connection: &Connection,
    policy: &RowPolicy,
    in_flight: &mut InFlightRows,
    record: &ResponseRecord,
    state: Option<&[u8]>,
) -> rusqlite::Result<Result<i64, WriteOutcome>> {
    let lease = &record.lease;
    if in_flight.drops(&record.owner, &lease.id) {
        return Ok(Err(WriteOutcome::Absent));
    }
    let owner = owners::key(connection, &record.owner)?;
    let slots = rows::slots(connection, owner, lease.id.as_str())?;
    if let Some(row) = &slots.row {
        return Ok(match row.state(policy, lease) {
            RunningRow::Held => Ok(row.key),
            RunningRow::Deleted => Err(WriteOutcome::Absent),
            RunningRow::Superseded => Err(WriteOutcome::Superseded),
        });
    }
    if !lease.is_first() {
        return Ok(Err(WriteOutcome::Superseded));
    }
    // A running row does not expire: its time starts at its end.
    let key = rows::insert(connection, owner, &slots, record, &Lifetime::default())?;
    running::insert(connection, policy, key, lease, state)?;
    in_flight.add(lease);
    Ok(Ok(key))
}

/// Ends a response, whether it was begun or not.
pub(super) fn finish(
    connection: &Connection,
    policy: &RowPolicy,
    in_flight: &mut InFlightRows,
    record: &ResponseRecord,
) -> rusqlite::Result<WriteOutcome> {
    let lease = &record.lease;
    let was_begun = in_flight.remove(lease);
    let owner = owners::key(connection, &record.owner)?;
    let slots = rows::slots(connection, owner, lease.id.as_str())?;
    let Some(row) = &slots.row else {
        if was_begun || !lease.is_first() || in_flight.is_deleted(&record.owner, &lease.id) {
            return Ok(WriteOutcome::Absent);
        }
        let lifetime = ended(connection, policy, owner, record)?;
        rows::insert(connection, owner, &slots, record, &lifetime)?;
        outbox::insert(connection, owner, &record.outbox)?;
        approvals::insert(connection, in_flight, &record.approvals)?;
        conversations::append_turn(connection, owner, record)?;
        return Ok(WriteOutcome::Changed);
    };
    match row.state(policy, lease) {
        RunningRow::Held => {
            let lifetime = ended(connection, policy, owner, record)?;
            rows::end(connection, owner, row, record, &lifetime)?;
            outbox::insert(connection, owner, &record.outbox)?;
            approvals::insert(connection, in_flight, &record.approvals)?;
            conversations::append_turn(connection, owner, record)?;
            Ok(WriteOutcome::Changed)
        }
        RunningRow::Deleted => {
            rows::remove(connection, row.key)?;
            Ok(WriteOutcome::Absent)
        }
        RunningRow::Superseded => Ok(WriteOutcome::Superseded),
    }
}

fn ended(
    connection: &Connection,
    policy: &RowPolicy,
    owner: i64,
    record: &ResponseRecord,
) -> rusqlite::Result<Lifetime> {
    let now = now();
    let tenant = &*record.owner.tenant;
    let retentions = (policy.retention.of(tenant), policy.conversations.of(tenant));
    let expires_at = retentions.0.expiry(now);
    let lineage_until = extend_lineage(connection, retentions, owner, record.previous.as_ref(), now)?;
    Ok(Lifetime { finished_at: Some(now), expires_at, lineage_until })
}

/// Deletes a response of this owner, or a registered run without a row.
pub(super) fn delete(
    connection: &Connection,
    in_flight: &mut InFlightRows,
    owner: &Owner,
    id: &str,
) -> rusqlite::Result<WriteOutcome> {
    let was_running = in_flight.delete(owner, &Id::from(id));
    let existed = match owners::find(connection, owner)? {
        Some(owner) => delete_row(connection, owner, id, was_running)?,
        None => false,
    };
    Ok(if existed || was_running { WriteOutcome::Changed } else { WriteOutcome::Absent })
}

fn delete_row(connection: &Connection, owner: i64, id: &str, was_running: bool) -> rusqlite::Result<bool> {
    let Some(row) = rows::slots(connection, owner, id)?.row else {
        if was_running {
            // Its approval requests are written before its row.
            approvals::delete_by_response(connection, owner, id)?;
        }
        return Ok(false);
    };
    deleted_keys::keep(connection, row.key)?;
    match row.is_running() {
        true => rows::remove_running(connection, row.key)?,
        false => rows::remove(connection, row.key)?,
    }
    Ok(row.expires_at.is_none_or(|at| at > now()))
}
