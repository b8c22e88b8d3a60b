//! Leases of runs, and runs that nobody makes any more: their process is gone, or their end could not be stored.

use tokio_postgres::types::Type;

use super::clock::db_now;
use super::keys::ResponseKey;
use super::removal::{self, Place};
use super::running::{self, END_NOT_STORED, PROCESS_GONE};
use super::session::{Param, Session};
use super::taken_runs;
use super::values::get;
use antwort_store::row_policy::RowPolicy;
use antwort_store::taken_run::MAX_BATCH_BYTES;
use antwort_store::{Lease, OrphanedRun, StoreError};

/// Those that somebody writes at this moment are passed over, and returned. A statement that holds many of these rows must not
/// wait for one: writers that commit several runs together hold some, and wait for others.
const RENEW: &str = concat!(
    "WITH own AS (SELECT response, owner FROM runs WHERE instance = $1 AND orphan IS NULL),
    free AS (SELECT response, owner FROM runs WHERE instance = $1 AND orphan IS NULL FOR UPDATE SKIP LOCKED),
    renewed AS (UPDATE runs r SET lease_until = $2 + ",
    db_now!(),
    " FROM free f WHERE r.response = f.response AND r.owner = f.owner AND r.instance = $1
        RETURNING r.response, r.owner)
    SELECT response, owner FROM own EXCEPT SELECT response, owner FROM renewed"
);

/// One of these, which is waited for.
const RENEW_ONE: &str = concat!(
    "UPDATE runs SET lease_until = $2 + ",
    db_now!(),
    " WHERE response = $3 AND owner = $4 AND instance = $1 AND orphan IS NULL"
);

/// Renews the leases of the runs that this process makes; not in a transaction. Those of orphans that it has taken over end
/// unless they are finished. Returns those that are written at this moment, which [`renew_lease`] waits for.
pub(super) async fn renew_leases(session: Session<'_>, policy: &RowPolicy) -> Result<Vec<Place>, StoreError> {
    let instance = policy.instance.as_str();
    let own: [Param<'_>; 2] = [(&instance, Type::TEXT), (&policy.lease, Type::INT8)];
    let rows = session.query(RENEW, &own).await?;
    rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect()
}

/// The same for one run.
pub(super) async fn renew_lease(
    session: Session<'_>,
    policy: &RowPolicy,
    (response, owner): Place,
) -> Result<(), StoreError> {
    let one: [Param<'_>; 4] = [
        (&policy.instance.as_str(), Type::TEXT),
        (&policy.lease, Type::INT8),
        (&response, Type::UUID),
        (&owner, Type::INT8),
    ];
    session.execute(RENEW_ONE, &one).await.map(drop)
}

const RELEASE: &str = "UPDATE runs SET lease_until = 0 WHERE instance = $1";

/// Releases this process's leases, so that another process may end its runs.
pub(super) async fn release_leases(session: Session<'_>, policy: &RowPolicy) -> Result<(), StoreError> {
    session.execute(RELEASE, &[(&policy.instance.as_str(), Type::TEXT)]).await.map(drop)
}

const RELEASE_LEFT: &str =
    "UPDATE runs SET orphan = coalesce(orphan, $2), lease_until = 0 WHERE instance = $1";

/// Gives up the leases that an earlier process of this name left.
pub(super) async fn release_left(session: Session<'_>, policy: &RowPolicy) -> Result<(), StoreError> {
    let instance = policy.instance.as_str();
    session.execute(RELEASE_LEFT, &[(&instance, Type::TEXT), (&PROCESS_GONE, Type::INT2)]).await.map(drop)
}

const ABANDON: &str = "UPDATE runs r SET orphan = coalesce(r.orphan, $4), lease_until = 0
    FROM unnest($1::uuid[], $2::integer[]) AS g (response, epoch)
    WHERE r.response = g.response AND r.epoch = g.epoch AND r.instance = $3";

/// Abandons the rows of runs whose end could not be written, so that they are ended like those of a dead process.
pub(super) async fn release_abandoned(
    session: Session<'_>,
    policy: &RowPolicy,
    abandoned: &[Lease],
) -> Result<(), StoreError> {
    if abandoned.is_empty() {
        return Ok(());
    }
    let of = |lease: &Lease| (ResponseKey::of(lease.id.as_str()).uuid, running::epoch(lease));
    let (keys, epochs): (Vec<_>, Vec<_>) = abandoned.iter().map(of).unzip();
    let params: [Param<'_>; 4] = [
        (&keys, Type::UUID_ARRAY),
        (&epochs, Type::INT4_ARRAY),
        (&policy.instance.as_str(), Type::TEXT),
        (&END_NOT_STORED, Type::INT2),
    ];
    session.execute(ABANDON, &params).await.map(drop)
}

/// Which `runs r` are orphans for the instance $1, whose leases have expired for so many milliseconds. Of its own runs only those
/// that were orphans before, and none that a worker claims.
macro_rules! is_orphan {
    ($grace:literal) => {
        concat!(
            "r.lease_until < ",
            super::clock::db_now!(),
            " - ",
            $grace,
            " AND (r.instance <> $1 OR r.orphan IS NOT NULL) AND r.attempt IS NULL"
        )
    };
}

const CANDIDATES: &str = concat!(
    "SELECT r.response, r.owner FROM runs r WHERE ",
    is_orphan!("$3"),
    " ORDER BY r.response LIMIT $2"
);

/// Some that may be orphans; [`take`] looks at each under its lock. Usually there are none.
pub(super) async fn candidates(
    session: Session<'_>,
    policy: &RowPolicy,
    (limit, grace): (usize, i64),
) -> Result<Vec<Place>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let params: [Param<'_>; 3] =
        [(&policy.instance.as_str(), Type::TEXT), (&limit, Type::INT8), (&grace, Type::INT8)];
    let rows = session.query(CANDIDATES, &params).await?;
    rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect()
}

/// One that another process writes at this moment is none.
const LOCK: &str = "SELECT 1 FROM runs WHERE response = $1 AND owner = $2 FOR UPDATE SKIP LOCKED";
const TAKE: &str = concat!(
    "UPDATE runs r SET instance = $1, epoch = r.epoch + 1, lease_until = $4 + ",
    db_now!(),
    ", orphan = coalesce(r.orphan, $5) FROM responses s, owners o
    WHERE r.response = $2 AND r.owner = $3 AND s.key = r.response AND s.owner = r.owner AND o.key = s.owner AND ",
    is_orphan!("$6"),
    " RETURNING ",
    taken_runs::columns!(),
    ", s.expires_at IS NOT NULL"
);

/// Takes orphans over for this instance. A deleted one is removed.
pub(super) async fn take(
    session: Session<'_>,
    policy: &RowPolicy,
    (candidates, grace): (&[Place], i64),
) -> Result<Vec<OrphanedRun>, StoreError> {
    let (mut taken, mut bytes) = (Vec::new(), 0_usize);
    for key in candidates {
        if bytes >= MAX_BATCH_BYTES {
            break;
        }
        let place: [Param<'_>; 2] = [(&key.0, Type::UUID), (&key.1, Type::INT8)];
        if session.query_opt(LOCK, &place).await?.is_none() {
            continue;
        }
        let params: [Param<'_>; 6] = [
            (&policy.instance.as_str(), Type::TEXT),
            (&key.0, Type::UUID),
            (&key.1, Type::INT8),
            (&policy.lease, Type::INT8),
            (&PROCESS_GONE, Type::INT2),
            (&grace, Type::INT8),
        ];
        let Some(row) = session.query_opt(TAKE, &params).await? else { continue };
        if get(&row, taken_runs::COLUMNS)? {
            removal::remove_all(session, &[*key]).await?;
            continue;
        }
        for read in taken_runs::read(session, std::slice::from_ref(&row)).await? {
            bytes = bytes.saturating_add(read.run.size());
            taken.push(read.run);
        }
    }
    Ok(taken)
}
