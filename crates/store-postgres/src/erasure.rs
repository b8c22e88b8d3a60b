//! Erases the rows of a tenant or an owner, in steps between which other writes are committed.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::session::{Param, Session};
use super::values::get;
use super::{approvals, conversation_expiry, deleted_keys, keys, outbox, removal};
use antwort_store::operation::EraseRequest;
use antwort_store::{ErasedCounts, ErasureTarget, StoreError};

/// Responses that one step deletes at most.
const STEP_ROWS: i64 = 200;

/// The owners whose rows are erased.
const OWNERS: &str = "SELECT key FROM owners
    WHERE tenant = $1 AND ($2::bytea IS NULL OR principal = $2) AND key >= $3 ORDER BY key LIMIT $4";

/// Owners of a step.
const MAX_OWNERS: usize = 100;

/// Responses of an owner. One that was deleted while it runs keeps an empty row until its end.
const RESPONSES: &str = "SELECT s.key FROM responses s WHERE s.owner = $1 AND s.key < $2
        AND (s.expires_at IS NULL
            OR NOT EXISTS (SELECT 1 FROM runs r WHERE r.response = s.key AND r.owner = s.owner))
    ORDER BY s.key LIMIT $3";
/// Those of them that run. None of them ends from now on.
const RUNNING: &str = "SELECT response FROM runs WHERE owner = $1 AND response = ANY($2)
    ORDER BY response FOR UPDATE";

const CONVERSATIONS: &str = "UPDATE conversations SET used_at = 0, metadata = ''::bytea WHERE key IN
        (SELECT key FROM conversations WHERE owner = $1 AND created_at <= $2 ORDER BY key LIMIT $3 FOR UPDATE)
    RETURNING key";

/// What a step has come to.
pub(super) struct Step {
    /// What it has deleted.
    pub counts: ErasedCounts,
    /// The owner with whom the next one goes on; `None`: all is erased.
    pub next_owner: Option<i64>,
}

/// One step, from this owner on.
pub(super) async fn step(
    session: Session<'_>,
    request: &EraseRequest,
    from_owner: i64,
) -> Result<Step, StoreError> {
    let mut counts = ErasedCounts::default();
    let before = keys::lowest_at(request.at.saturating_add(1));
    let owners = owners(session, &request.target, from_owner).await?;
    for &owner in &owners {
        let (found, erased) = erase_responses(session, owner, before).await?;
        counts.responses = erased;
        if found {
            return Ok(Step { counts, next_owner: Some(owner) });
        }
        let (found, gone) = erase_conversations(session, owner, request.at).await?;
        counts.conversations = gone;
        if found {
            return Ok(Step { counts, next_owner: Some(owner) });
        }
        outbox::delete_of(session, owner).await?;
        if deleted_keys::delete_of(session, owner, STEP_ROWS).await? {
            return Ok(Step { counts, next_owner: Some(owner) });
        }
        // Those of responses without a row.
        if approvals::delete_before(session, owner, before, STEP_ROWS).await? {
            return Ok(Step { counts, next_owner: Some(owner) });
        }
    }
    let last = owners.last().filter(|_| owners.len() == MAX_OWNERS);
    Ok(Step { counts, next_owner: last.map(|last| last.saturating_add(1)) })
}

async fn owners(session: Session<'_>, target: &ErasureTarget, from: i64) -> Result<Vec<i64>, StoreError> {
    let (tenant, principal) =
        (target.tenant.as_bytes(), target.principal.as_ref().map(|name| name.as_bytes()));
    let limit = MAX_OWNERS as i64;
    let parameters: [Param<'_>; 4] =
        [(&tenant, Type::BYTEA), (&principal, Type::BYTEA), (&from, Type::INT8), (&limit, Type::INT8)];
    let rows = session.query(OWNERS, &parameters).await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

/// Erases some responses of an owner. Returns whether any were found, and how many it erased: another process may be
/// faster.
async fn erase_responses(session: Session<'_>, owner: i64, before: Uuid) -> Result<(bool, u64), StoreError> {
    let parameters: [Param<'_>; 3] = [(&owner, Type::INT8), (&before, Type::UUID), (&STEP_ROWS, Type::INT8)];
    let found = session.query(RESPONSES, &parameters).await?;
    let found = found.iter().map(|row| get(row, 0)).collect::<Result<Vec<Uuid>, _>>()?;
    if found.is_empty() {
        return Ok((false, 0));
    }
    let running = session.query(RUNNING, &[(&owner, Type::INT8), (&found, Type::UUID_ARRAY)]).await?;
    let running = running.iter().map(|row| get(row, 0)).collect::<Result<Vec<Uuid>, _>>()?;
    let (running, ended): (Vec<_>, Vec<_>) =
        found.iter().map(|key| (*key, owner)).partition(|(key, _)| running.contains(key));
    let erased =
        removal::empty_running(session, &running).await? + removal::remove_all(session, &ended).await?;
    Ok((true, erased))
}

/// Erases conversations of an owner. Returns whether there were any, and how many are gone.
async fn erase_conversations(session: Session<'_>, owner: i64, at: i64) -> Result<(bool, u64), StoreError> {
    let parameters: [Param<'_>; 3] =
        [(&owner, Type::INT8), (&at.div_euclid(1000), Type::INT8), (&STEP_ROWS, Type::INT8)];
    let found = session.query(CONVERSATIONS, &parameters).await?;
    let found = found.iter().map(|row| get(row, 0)).collect::<Result<Vec<i64>, _>>()?;
    if found.is_empty() {
        return Ok((false, 0));
    }
    Ok((true, conversation_expiry::delete_parts(session, &found).await?))
}
