//! Runs that any process may make: queued, written while they go on, given back.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::clock::db_now;
use super::keys::ResponseKey;
use super::rows::{self, Lifetime};
use super::running::{self, RunningRow};
use super::session::{Param, Session};
use super::values::get;
use super::{owners, removal};
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::WriteOutcome;
use antwort_store::retention::millis;
use antwort_store::row_policy::RowPolicy;
use antwort_store::{JobStats, Lease, Requeue, ResponseRecord, StoreError};

/// Its instance is nobody's: a worker's claim gives it one.
const INSERT: &str =
    "INSERT INTO runs (response, owner, instance, epoch, lease_until, state, attempt, job, conversation, place, tenant)
    VALUES ($1, $2, '', $3, 0, $4, 0, $5, $6,
        (SELECT coalesce(max(q.place), 0) + 1 FROM runs q WHERE q.owner = $2 AND q.conversation = $6), $7)";

/// Begins a queued response. Returns the key of its row, or why it has none for this run.
pub(super) async fn begin(
    session: Session<'_>,
    in_flight: &InFlightRows,
    record: &ResponseRecord,
    state: Option<&[u8]>,
    job: &[u8],
) -> Result<Result<(Uuid, i64), WriteOutcome>, StoreError> {
    if in_flight.is_deleted(&record.owner, &record.lease.id) {
        return Ok(Err(WriteOutcome::Absent));
    }
    let owner = owners::key(session, &record.owner).await?;
    let Some(key) = rows::insert(session, owner, record, Lifetime::default()).await? else {
        return Ok(Err(WriteOutcome::Superseded));
    };
    let conversation = record.conversation.as_ref().map(|turn| turn.id.as_str().as_bytes());
    let parameters: [Param<'_>; 7] = [
        (&key.0, Type::UUID),
        (&key.1, Type::INT8),
        (&running::epoch(&record.lease), Type::INT4),
        (&state, Type::BYTEA),
        (&job, Type::BYTEA),
        (&conversation, Type::BYTEA),
        (&record.owner.tenant.as_bytes(), Type::BYTEA),
    ];
    session.execute(INSERT, &parameters).await?;
    Ok(Ok(key))
}

const IS_THERE: &str = "SELECT 1 FROM responses WHERE key = $1 AND owner = $2";

/// Whether a response has a row: a commit whose outcome was unknown was made.
pub(super) async fn is_there(session: Session<'_>, record: &ResponseRecord) -> Result<bool, StoreError> {
    let Some(owner) = owners::find(session, &record.owner).await? else { return Ok(false) };
    let key = ResponseKey::of(record.lease.id.as_str()).uuid;
    Ok(session.query_opt(IS_THERE, &[(&key, Type::UUID), (&owner, Type::INT8)]).await?.is_some())
}

const UPDATE: &str =
    "UPDATE responses SET status = $3, body = $4 WHERE key = $1 AND owner = $2 AND finished_at IS NULL";

/// Replaces the status and the body of a row whose run goes on.
pub(super) async fn update_running(
    session: Session<'_>,
    policy: &RowPolicy,
    record: &ResponseRecord,
) -> Result<WriteOutcome, StoreError> {
    match running::find(session, policy, &record.lease).await? {
        Some((key, RunningRow::Held)) => {
            let parameters: [Param<'_>; 4] = [
                (&key.0, Type::UUID),
                (&key.1, Type::INT8),
                (&record.status.as_str(), Type::TEXT),
                (&record.body.as_bytes(), Type::BYTEA),
            ];
            session.execute(UPDATE, &parameters).await?;
            Ok(WriteOutcome::Changed)
        }
        Some((_, RunningRow::Superseded)) => Ok(WriteOutcome::Superseded),
        Some((_, RunningRow::Deleted)) | None => Ok(WriteOutcome::Absent),
    }
}

const GIVE_BACK: &str = concat!(
    "UPDATE runs SET instance = '', claim = NULL, lease_until = CASE WHEN $3 = 0 THEN 0 ELSE $3 + ",
    db_now!(),
    " END, attempt = greatest(attempt - $4, 0)
    WHERE response = $1 AND owner = $2 AND attempt IS NOT NULL"
);

/// Ends the lease of a run, so that it is claimed again. A deleted one is removed.
pub(super) async fn requeue(
    session: Session<'_>,
    policy: &RowPolicy,
    lease: &Lease,
    requeue: Requeue,
) -> Result<WriteOutcome, StoreError> {
    match running::find(session, policy, lease).await? {
        Some((key, RunningRow::Held)) => {
            let parameters: [Param<'_>; 4] = [
                (&key.0, Type::UUID),
                (&key.1, Type::INT8),
                (&millis(requeue.delay), Type::INT8),
                (&i32::from(!requeue.counts), Type::INT4),
            ];
            session.execute(GIVE_BACK, &parameters).await?;
            Ok(WriteOutcome::Changed)
        }
        Some((key, RunningRow::Deleted)) => {
            removal::remove_all(session, &[key]).await?;
            Ok(WriteOutcome::Absent)
        }
        Some((_, RunningRow::Superseded)) => Ok(WriteOutcome::Superseded),
        None => Ok(WriteOutcome::Absent),
    }
}

/// Those that nobody has, and those whose holder is gone.
const STATS: &str = concat!(
    "WITH waiting AS MATERIALIZED (
        SELECT r.response, r.owner FROM runs r
            WHERE r.attempt IS NOT NULL AND r.instance = '' AND r.lease_until < ",
    db_now!(),
    " UNION ALL
        SELECT r.response, r.owner FROM runs r
            WHERE r.attempt IS NOT NULL AND r.instance <> '' AND r.lease_until < ",
    db_now!(),
    " AND (r.instance <> $1 OR r.orphan IS NOT NULL))
    SELECT (SELECT count(*) FROM waiting), (SELECT s.created_at FROM responses s
        JOIN (SELECT * FROM waiting ORDER BY response, owner LIMIT 1) w ON s.key = w.response AND s.owner = w.owner),
        (SELECT count(*) FROM runs WHERE waits_until IS NOT NULL)"
);

/// How many runs wait, and since when.
pub(super) async fn stats(session: Session<'_>, policy: &RowPolicy) -> Result<JobStats, StoreError> {
    let found = session.query_opt(STATS, &[(&policy.instance.as_str(), Type::TEXT)]).await?;
    let Some(row) = found else { return Ok(JobStats::default()) };
    Ok(JobStats {
        queued: get::<i64>(&row, 0)?.unsigned_abs(),
        oldest_created_at: get(&row, 1)?,
        waiting: get::<i64>(&row, 2)?.unsigned_abs(),
    })
}
