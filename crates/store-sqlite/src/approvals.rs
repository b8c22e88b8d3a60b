//! Approval requests: written with their response, consumed once, and deleted with their response or when they
//! expire.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::error::database;
use super::keys::KeyRange;
use super::owners;
use antwort_protocol::id::Id;
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::{ClaimRequest, WriteOutcome};
use antwort_store::row_policy::now;
use antwort_store::{ApprovalClaim, ClaimOutcome, Owner, PendingApproval, StoreError};

/// Rows per transaction.
const BATCH_ROWS: i64 = 200;

const FIND: &str = "SELECT response, arguments, definition, expires_at FROM approvals
    WHERE owner = ?1 AND id = ?2 AND (used_by = ?4 OR used_at IS NULL AND expires_at > ?3)";

/// Writes approval requests.
pub(super) fn insert(
    connection: &Connection,
    rows: &InFlightRows,
    pending: &[PendingApproval],
) -> rusqlite::Result<WriteOutcome> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO approvals (owner, id, response, arguments, definition, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let mut outcome = WriteOutcome::Absent;
    for approval in pending {
        let owner = owners::key(connection, &approval.owner)?;
        if rows.is_deleted(&approval.owner, &approval.response)
            || has_deleted_row(connection, owner, &approval.response)?
        {
            continue;
        }
        statement.execute(params![
            owner,
            approval.id.as_str(),
            approval.response.as_str(),
            approval.arguments,
            approval.definition,
            approval.expires_at,
        ])?;
        outcome = WriteOutcome::Changed;
    }
    Ok(outcome)
}

/// Whether the response was deleted while it runs, behind its first write, so that nothing of it is to be stored.
fn has_deleted_row(connection: &Connection, owner: i64, response: &Id) -> rusqlite::Result<bool> {
    let KeyRange { first, last } = KeyRange::of(response.as_str());
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM responses WHERE key BETWEEN ?1 AND ?2 AND id = ?3 AND +owner = ?4
                AND expires_at IS NOT NULL AND key IN (SELECT response FROM runs))",
        )?
        .query_row(params![first, last, response.as_str(), owner], |row| row.get(0))
}

/// Consumes approvals if all exist, are unused and match. Claims are serialized by the write transaction, so that of
/// two one finds the approval used.
pub(super) fn claim(connection: &Connection, request: &ClaimRequest) -> rusqlite::Result<ClaimOutcome> {
    let Some(owner) = owners::find(connection, &request.owner)? else {
        let is_none = request.claims.is_empty();
        return Ok(if is_none { ClaimOutcome::Granted } else { ClaimOutcome::Unknown });
    };
    for wanted in &request.claims {
        let state = claim_outcome(connection, owner, request, wanted)?;
        if state != ClaimOutcome::Granted {
            return Ok(state);
        }
    }
    let mut consume = connection
        .prepare_cached("UPDATE approvals SET used_at = ?3, used_by = ?4 WHERE owner = ?1 AND id = ?2")?;
    for wanted in &request.claims {
        consume.execute(params![owner, wanted.id.as_str(), request.now, request.by.as_str()])?;
    }
    Ok(ClaimOutcome::Granted)
}

/// The outcome of claiming one of them, without consuming it.
fn claim_outcome(
    connection: &Connection,
    owner: i64,
    request: &ClaimRequest,
    wanted: &ApprovalClaim,
) -> rusqlite::Result<ClaimOutcome> {
    let found: Option<(bool, bool)> = connection
        .prepare_cached(
            "SELECT used_at IS NOT NULL AND used_by IS NOT ?6, arguments = ?4 AND definition = ?5 FROM approvals
             WHERE owner = ?1 AND id = ?2 AND (expires_at > ?3 OR used_by = ?6)",
        )?
        .query_row(
            params![
                owner,
                wanted.id.as_str(),
                request.now,
                wanted.arguments,
                wanted.definition,
                request.by.as_str()
            ],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    Ok(match found {
        None => ClaimOutcome::Unknown,
        Some((true, _)) => ClaimOutcome::Used,
        Some((false, false)) => ClaimOutcome::Mismatch,
        Some((false, true)) => ClaimOutcome::Granted,
    })
}

/// Approval requests that are neither expired nor used by another response.
pub(super) fn find(
    connection: &Connection,
    owner: &Owner,
    ids: &[Id],
    by: Option<&str>,
) -> Result<Vec<Option<PendingApproval>>, StoreError> {
    let Some(key) = owners::find(connection, owner).map_err(database)? else {
        return Ok(vec![None; ids.len()]);
    };
    let mut statement = connection.prepare_cached(FIND).map_err(database)?;
    let read = |id: &Id, row: &Row<'_>| {
        Ok(PendingApproval {
            id: id.clone(),
            owner: owner.clone(),
            response: row.get::<_, String>(0)?.into(),
            arguments: hash(row, 1)?,
            definition: hash(row, 2)?,
            expires_at: row.get(3)?,
        })
    };
    let now = seconds();
    let found = ids
        .iter()
        .map(|id| statement.query_row(params![key, id.as_str(), now, by], |row| read(id, row)).optional());
    found.collect::<Result<_, _>>().map_err(database)
}

/// Deletes the approval requests of a response, which may have no row.
pub(super) fn delete_by_response(
    connection: &Connection,
    owner: i64,
    response: &str,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM approvals WHERE owner = ?1 AND response = ?2")?
        .execute(params![owner, response])?;
    Ok(())
}

/// Deletes approval requests of an owner whose responses have a key below this one, at most so many. Returns whether there
/// may be more.
pub(super) fn delete_before(
    connection: &Connection,
    owner: i64,
    before: i64,
    limit: usize,
) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("SELECT id, response FROM approvals WHERE owner = ?1")?;
    let mut rows = statement.query([owner])?;
    let mut older = Vec::new();
    while let Some(row) = rows.next()?.filter(|_| older.len() < limit) {
        let (id, response): (String, String) = (row.get(0)?, row.get(1)?);
        if KeyRange::of(&response).first < before {
            older.push(id);
        }
    }
    let mut delete = connection.prepare_cached("DELETE FROM approvals WHERE owner = ?1 AND id = ?2")?;
    for id in &older {
        delete.execute(params![owner, id])?;
    }
    Ok(older.len() == limit)
}

/// Deletes expired approval requests. Returns whether there may be more.
pub(super) fn delete_expired(connection: &mut Connection) -> Result<bool, StoreError> {
    let now = seconds();
    let any = "SELECT EXISTS (SELECT 1 FROM approvals WHERE expires_at <= ?1)";
    if !connection.query_row(any, [now], |row| row.get(0)).map_err(database)? {
        return Ok(false);
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    transaction
        .prepare_cached(
            "DELETE FROM approvals WHERE (owner, id) IN
                (SELECT owner, id FROM approvals WHERE expires_at <= ?1 LIMIT ?2)",
        )
        .map_err(database)?
        .execute(params![now, BATCH_ROWS])
        .map_err(database)?;
    transaction.commit().map_err(database)?;
    Ok(true)
}

fn hash(row: &Row<'_>, column: usize) -> rusqlite::Result<[u8; 32]> {
    let bytes = row
        .get_ref(column)?
        .as_blob()
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, Box::new(error)))?;
    bytes
        .try_into()
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, Box::new(error)))
}

fn seconds() -> i64 {
    now().div_euclid(1000)
}
