//! Approval requests: written with their response, consumed once, and deleted with their response or when they
//! expire.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::keys::{ResponseKey, id_of};
use super::session::{Param, Session};
use super::values::{get, hash, text};
use antwort_protocol::id::Id;
use antwort_store::row_policy::now;
use antwort_store::{ApprovalClaim, ClaimOutcome, Owner, PendingApproval, ResponseRecord, StoreError};

/// Rows per transaction.
const BATCH_ROWS: i64 = 500;

/// The runs of the responses. Whoever deletes a running response waits for this lock, and finds the requests then.
const LOCK: &str = "SELECT 1 FROM runs r WHERE r.response = ANY($1) AND r.owner = ANY($2)
    ORDER BY r.response, r.owner FOR SHARE";
/// Responses that were deleted while they run, behind their first write: nothing of them is to be stored.
const DELETED: &str =
    "SELECT s.key, s.owner FROM responses s JOIN runs r ON r.response = s.key AND r.owner = s.owner
    WHERE s.key = ANY($1) AND s.owner = ANY($2) AND s.expires_at IS NOT NULL";
const INSERT: &str =
    "INSERT INTO approvals (owner, id, response, response_id, arguments, definition, expires_at)
    SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::uuid[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bigint[])";

/// Approval requests with the numbers of their owners.
pub(super) type OwnedRequest<'a> = (i64, &'a PendingApproval);

/// Writes approval requests, but for those of responses that were deleted.
pub(super) async fn insert(session: Session<'_>, pending: &[OwnedRequest<'_>]) -> Result<(), StoreError> {
    let mut rows = Vec::with_capacity(pending.len());
    for &(owner, approval) in pending {
        rows.push((owner, ResponseKey::of(approval.response.as_str()), approval));
    }
    let deleted = deleted(session, &rows).await?;
    rows.retain(|(owner, key, _)| !deleted.contains(&(*owner, key.uuid)));
    if rows.is_empty() {
        return Ok(());
    }
    let owners: Vec<i64> = rows.iter().map(|(owner, ..)| *owner).collect();
    let keys: Vec<Uuid> = rows.iter().map(|(_, key, _)| key.uuid).collect();
    let ids: Vec<&[u8]> = rows.iter().map(|(.., approval)| approval.id.as_str().as_bytes()).collect();
    let responses: Vec<Option<&[u8]>> = rows.iter().map(|(_, key, _)| key.id).collect();
    let arguments: Vec<&[u8]> = rows.iter().map(|(.., approval)| &approval.arguments[..]).collect();
    let definitions: Vec<&[u8]> = rows.iter().map(|(.., approval)| &approval.definition[..]).collect();
    let expiries: Vec<i64> = rows.iter().map(|(.., approval)| approval.expires_at).collect();
    session
        .execute(
            INSERT,
            &[
                (&owners, Type::INT8_ARRAY),
                (&ids, Type::BYTEA_ARRAY),
                (&keys, Type::UUID_ARRAY),
                (&responses, Type::BYTEA_ARRAY),
                (&arguments, Type::BYTEA_ARRAY),
                (&definitions, Type::BYTEA_ARRAY),
                (&expiries, Type::INT8_ARRAY),
            ],
        )
        .await
        .map(drop)
}

/// Writes the approval requests of a response that ends.
pub(super) async fn insert_of(
    session: Session<'_>,
    owner: i64,
    record: &ResponseRecord,
) -> Result<(), StoreError> {
    let owned: Vec<_> = record.approvals.iter().map(|approval| (owner, approval)).collect();
    if owned.is_empty() { Ok(()) } else { insert(session, &owned).await }
}

/// Those of the responses that were deleted while they run.
async fn deleted(
    session: Session<'_>,
    rows: &[(i64, ResponseKey<'_>, &PendingApproval)],
) -> Result<Vec<(i64, Uuid)>, StoreError> {
    let owners: Vec<i64> = rows.iter().map(|(owner, ..)| *owner).collect();
    let keys: Vec<Uuid> = rows.iter().map(|(_, key, _)| key.uuid).collect();
    let parameters: [Param<'_>; 2] = [(&keys, Type::UUID_ARRAY), (&owners, Type::INT8_ARRAY)];
    if session.query(LOCK, &parameters).await?.is_empty() {
        return Ok(Vec::new());
    }
    // Looked at behind the locks: a deletion that was waited for is seen.
    let found = session.query(DELETED, &parameters).await?;
    found.iter().map(|row| Ok((get(row, 1)?, get(row, 0)?))).collect()
}

const CANDIDATES: &str =
    "SELECT id, used_at IS NOT NULL AND used_by IS DISTINCT FROM $4, arguments, definition FROM approvals
    WHERE owner = $1 AND id = ANY($2) AND (expires_at > $3 OR used_by = $4) ORDER BY id FOR UPDATE";
const CONSUME: &str =
    "UPDATE approvals SET used_at = $3, used_by = $4 WHERE owner = $1 AND id = ANY($2) AND used_at IS NULL";

/// Consumes approvals if all exist, are unused and match. Their rows are locked first, in one order, so that of two
/// claims one finds the approval used.
pub(super) async fn claim(
    session: Session<'_>,
    (owner, by): (i64, &Id),
    claims: &[ApprovalClaim],
    now: i64,
) -> Result<ClaimOutcome, StoreError> {
    let ids: Vec<&[u8]> = claims.iter().map(|wanted| wanted.id.as_str().as_bytes()).collect();
    let by = by.as_str().as_bytes();
    let parameters: [Param<'_>; 4] =
        [(&owner, Type::INT8), (&ids, Type::BYTEA_ARRAY), (&now, Type::INT8), (&by, Type::BYTEA)];
    let found = session.query(CANDIDATES, &parameters).await?;
    for wanted in claims {
        let outcome = outcome_of(&found, wanted)?;
        if outcome != ClaimOutcome::Granted {
            return Ok(outcome);
        }
    }
    session.execute(CONSUME, &parameters).await?;
    Ok(ClaimOutcome::Granted)
}

/// The outcome of claiming one of them, without consuming it.
fn outcome_of(found: &[Row], wanted: &ApprovalClaim) -> Result<ClaimOutcome, StoreError> {
    for row in found {
        if get::<&[u8]>(row, 0)? != wanted.id.as_str().as_bytes() {
            continue;
        }
        let matches = get::<&[u8]>(row, 2)? == wanted.arguments && get::<&[u8]>(row, 3)? == wanted.definition;
        return Ok(match (get(row, 1)?, matches) {
            (true, _) => ClaimOutcome::Used,
            (false, false) => ClaimOutcome::Mismatch,
            (false, true) => ClaimOutcome::Granted,
        });
    }
    Ok(ClaimOutcome::Unknown)
}

const FIND: &str = "SELECT id, response, response_id, arguments, definition, expires_at FROM approvals
    WHERE owner = $1 AND id = ANY($2) AND (used_by = $4 OR used_at IS NULL AND expires_at > $3)";

/// Approval requests that are neither expired nor used by another response.
pub(super) async fn find(
    session: Session<'_>,
    (key, owner): (i64, &Owner),
    ids: &[Id],
    by: Option<&Id>,
) -> Result<Vec<Option<PendingApproval>>, StoreError> {
    let wanted: Vec<&[u8]> = ids.iter().map(|id| id.as_str().as_bytes()).collect();
    let by = by.map(|id| id.as_str().as_bytes());
    let parameters: [Param<'_>; 4] =
        [(&key, Type::INT8), (&wanted, Type::BYTEA_ARRAY), (&seconds(), Type::INT8), (&by, Type::BYTEA)];
    let rows = session.query(FIND, &parameters).await?;
    let found = rows.iter().map(|row| read(owner, row)).collect::<Result<Vec<_>, _>>()?;
    let of = |id: &Id| found.iter().find(|approval| approval.id == *id).cloned();
    Ok(ids.iter().map(of).collect())
}

fn read(owner: &Owner, row: &Row) -> Result<PendingApproval, StoreError> {
    Ok(PendingApproval {
        id: text(row, 0)?.into(),
        owner: owner.clone(),
        response: id_of(get(row, 1)?, get(row, 2)?)?,
        arguments: hash(row, 3)?,
        definition: hash(row, 4)?,
        expires_at: get(row, 5)?,
    })
}

const DELETE_OF_RESPONSE: &str = "DELETE FROM approvals WHERE owner = $1 AND response = $2";

/// Deletes the approval requests of a response, which may have no row.
pub(super) async fn delete_by_response(
    session: Session<'_>,
    owner: i64,
    response: &str,
) -> Result<(), StoreError> {
    let key = ResponseKey::of(response).uuid;
    session.execute(DELETE_OF_RESPONSE, &[(&owner, Type::INT8), (&key, Type::UUID)]).await.map(drop)
}

const DELETE_BEFORE: &str = "DELETE FROM approvals WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM approvals WHERE owner = $1 AND response < $2 ORDER BY response LIMIT $3 FOR UPDATE))";

/// Deletes approval requests of an owner whose responses have a key below this one, at most so many. Returns whether there
/// may be more.
pub(super) async fn delete_before(
    session: Session<'_>,
    owner: i64,
    before: Uuid,
    limit: i64,
) -> Result<bool, StoreError> {
    let deleted = session
        .execute(DELETE_BEFORE, &[(&owner, Type::INT8), (&before, Type::UUID), (&limit, Type::INT8)])
        .await?;
    Ok(deleted >= limit.cast_unsigned())
}

const DELETE_EXPIRED: &str = "DELETE FROM approvals WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM approvals WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))";

/// Deletes expired approval requests. Returns whether there may be more.
pub(super) async fn delete_expired(session: Session<'_>) -> Result<bool, StoreError> {
    let deleted =
        session.execute(DELETE_EXPIRED, &[(&seconds(), Type::INT8), (&BATCH_ROWS, Type::INT8)]).await?;
    Ok(deleted >= BATCH_ROWS.cast_unsigned())
}

fn seconds() -> i64 {
    now().div_euclid(1000)
}
