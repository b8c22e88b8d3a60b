//! Claims of runs that wait for a process.
//!
//! The rows are locked first, and read by another statement behind the locks: what the holder before has committed until
//! then is seen, and what it tries to commit later is refused.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::clock::db_now;
use super::error::corrupt;
use super::keys::id_of;
use super::removal::Place;
use super::session::{Param, Session};
use super::taken_runs::{self, Taken};
use super::values::get;
use crate::store::row_policy::RowPolicy;
use crate::store::taken_run::MAX_BATCH_BYTES;
use crate::store::{ClaimedJob, Lease, StoreError};

/// Which `runs r` are the next ones of their conversations. One that was cancelled ends without being made.
macro_rules! is_next {
    () => {
        "(r.conversation IS NULL OR r.cancel_requested OR NOT EXISTS (SELECT 1 FROM runs e
            WHERE e.owner = r.owner AND e.conversation = r.conversation AND (e.place, e.response) < (r.place, r.response)))"
    };
}

/// Which `runs r` nobody has claimed, or were given back.
macro_rules! is_waiting {
    () => {
        concat!(
            "r.attempt IS NOT NULL AND r.instance = '' AND r.lease_until < ",
            db_now!(),
            " AND ",
            is_next!()
        )
    };
}

/// Whose holder is gone, as the instance $1 sees it: of its own runs only those that were given up.
macro_rules! is_left {
    () => {
        concat!(
            "r.attempt IS NOT NULL AND r.instance <> '' AND r.lease_until < ",
            db_now!(),
            " AND (r.instance <> $1 OR r.orphan IS NOT NULL)"
        )
    };
}

const ANY: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM runs r WHERE ",
    is_waiting!(),
    ") OR EXISTS (SELECT 1 FROM runs r WHERE ",
    is_left!(),
    ")"
);

/// Whether there is something to claim. Usually there is not; then no transaction is needed.
pub(super) async fn is_any(session: Session<'_>, policy: &RowPolicy) -> Result<bool, StoreError> {
    match session.query_opt(ANY, &[(&policy.instance.as_str(), Type::TEXT)]).await? {
        Some(row) => get(&row, 0),
        None => Ok(false),
    }
}

/// The oldest that no other process claims or writes at this moment.
pub const CLAIM_OLDEST: &str = concat!(
    "WITH waiting AS (SELECT r.response, r.owner FROM runs r WHERE ",
    is_waiting!(),
    " ORDER BY r.response, r.owner LIMIT $2 FOR UPDATE SKIP LOCKED),
    left_ones AS (SELECT r.response, r.owner FROM runs r WHERE ",
    is_left!(),
    " ORDER BY r.response, r.owner LIMIT $2 FOR UPDATE SKIP LOCKED)
    SELECT * FROM (SELECT * FROM waiting UNION ALL SELECT * FROM left_ones) AS r
    ORDER BY r.response, r.owner LIMIT $2"
);

/// One that was given back for a while is nobody's, and may be claimed before that time.
const LOCK_ONE: &str = concat!(
    "SELECT r.response, r.owner FROM runs r WHERE r.response = $2 AND r.owner = $3
        AND (r.attempt IS NOT NULL AND r.instance = '' AND ",
    is_next!(),
    " OR ",
    is_left!(),
    ") FOR UPDATE"
);

const CLAIMED: &str =
    "SELECT r.response, s.id, r.epoch FROM runs r JOIN responses s ON s.key = r.response AND s.owner = r.owner
    WHERE r.attempt IS NOT NULL AND r.instance <> '' AND r.instance = $1 AND r.orphan IS NULL";

/// The leases of the runs that this process has claimed.
pub(super) async fn claimed(session: Session<'_>, policy: &RowPolicy) -> Result<Vec<Lease>, StoreError> {
    let found = session.query(CLAIMED, &[(&policy.instance.as_str(), Type::TEXT)]).await?;
    let lease = |row: &Row| {
        let epoch = u32::try_from(get::<i32>(row, 2)?).map_err(corrupt)?;
        Ok(Lease { id: id_of(get(row, 0)?, get(row, 1)?)?, epoch })
    };
    found.iter().map(lease).collect()
}

/// Locks the oldest runs that wait.
pub(super) async fn lock_oldest(
    session: Session<'_>,
    policy: &RowPolicy,
    limit: usize,
) -> Result<Vec<Place>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let parameters: [Param<'_>; 2] = [(&policy.instance.as_str(), Type::TEXT), (&limit, Type::INT8)];
    places(&session.query(CLAIM_OLDEST, &parameters).await?)
}

/// Locks this run, if it waits.
pub(super) async fn lock_one(
    session: Session<'_>,
    policy: &RowPolicy,
    (response, owner): Place,
) -> Result<Vec<Place>, StoreError> {
    let parameters: [Param<'_>; 3] =
        [(&policy.instance.as_str(), Type::TEXT), (&response, Type::UUID), (&owner, Type::INT8)];
    places(&session.query(LOCK_ONE, &parameters).await?)
}

fn places(rows: &[Row]) -> Result<Vec<Place>, StoreError> {
    rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect()
}

/// Of these, the first ones whose bytes before them are not too many.
const CLAIM: &str = concat!(
    "WITH sized AS (
        SELECT r.response, r.owner, b.bytes,
            sum(b.bytes) OVER (ORDER BY r.response, r.owner) - b.bytes AS before
        FROM unnest($2::uuid[], $3::bigint[]) AS g (response, owner)
        JOIN runs r ON r.response = g.response AND r.owner = g.owner
        JOIN responses s ON s.key = r.response AND s.owner = r.owner
        CROSS JOIN LATERAL (SELECT octet_length(s.items) + octet_length(s.body)
            + coalesce(octet_length(r.state), 0) + coalesce(octet_length(r.job), 0)
            + coalesce((SELECT sum(octet_length(t.items)) FROM turns t
                WHERE t.response = r.response AND t.owner = r.owner), 0)
            + coalesce((SELECT sum(octet_length(c.arguments) + coalesce(octet_length(c.output), 0)) FROM tool_calls c
                WHERE c.response = r.response AND c.owner = r.owner), 0) AS bytes) b)
    UPDATE runs r SET instance = $1, epoch = r.epoch + 1, lease_until = $4 + ",
    db_now!(),
    ", orphan = NULL, attempt = r.attempt + 1, claim = $5, waits_until = NULL
    FROM sized z, responses s, owners o
    WHERE r.response = z.response AND r.owner = z.owner AND z.before < $6
        AND s.key = r.response AND s.owner = r.owner AND o.key = r.owner
    RETURNING ",
    taken_runs::columns!(),
    ", r.attempt, r.job, r.conversation IS NOT NULL"
);

/// Claims runs that are locked, oldest first, as many as are not too large together. One that is damaged has no job, and so
/// it fails.
pub(super) async fn claim(
    session: Session<'_>,
    policy: &RowPolicy,
    claim: Uuid,
    places: &[Place],
) -> Result<Vec<ClaimedJob>, StoreError> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let (responses, owners): (Vec<Uuid>, Vec<i64>) = places.iter().copied().unzip();
    let parameters: [Param<'_>; 6] = [
        (&policy.instance.as_str(), Type::TEXT),
        (&responses, Type::UUID_ARRAY),
        (&owners, Type::INT8_ARRAY),
        (&policy.lease, Type::INT8),
        (&claim, Type::UUID),
        (&(MAX_BATCH_BYTES as i64), Type::INT8),
    ];
    let rows = session.query(CLAIM, &parameters).await?;
    let mut claimed = Vec::with_capacity(rows.len());
    for Taken { row, place, run, is_damaged } in taken_runs::read(session, &rows).await? {
        let attempt = get::<i32>(row, taken_runs::COLUMNS)?.unsigned_abs();
        let spec = get::<Option<&[u8]>>(row, taken_runs::COLUMNS + 1)?.filter(|_| !is_damaged);
        let (spec, in_conversation) = (spec.unwrap_or_default().into(), get(row, taken_runs::COLUMNS + 2)?);
        claimed.push((place, ClaimedJob { run, spec, attempt, in_conversation }));
    }
    claimed.sort_unstable_by_key(|(place, _)| *place);
    Ok(claimed.into_iter().map(|(_, job)| job).collect())
}

const UNDO: &str =
    "UPDATE runs SET instance = '', claim = NULL, lease_until = 0, attempt = greatest(attempt - 1, 0)
    WHERE instance = $1 AND claim = ANY($2) AND attempt IS NOT NULL";

/// Gives back what claims have got of which nobody was told, as the connection was lost at their commit.
pub(super) async fn undo(
    session: Session<'_>,
    policy: &RowPolicy,
    claims: &[Uuid],
) -> Result<(), StoreError> {
    let parameters: [Param<'_>; 2] = [(&policy.instance.as_str(), Type::TEXT), (&claims, Type::UUID_ARRAY)];
    session.execute(UNDO, &parameters).await.map(drop)
}
