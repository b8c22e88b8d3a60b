//! Runs that any process may make: queued, written while they go on, given back.

use rusqlite::{Connection, params};

use super::error::database;
use super::job_claims::{is_next_sql, waiting_sql};
use super::running::{self, NOBODY, RunningRow};
use super::{idempotency, rows};
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{JobStats, Lease, NewJob, Requeue, ResponseRecord, StoreError};

const STATS: &str = concat!(
    "SELECT found, (SELECT created_at FROM responses WHERE key = oldest),
        (SELECT count(*) FROM runs WHERE waits_until IS NOT NULL)
    FROM (SELECT count(*) AS found, min(r.response) AS oldest FROM runs r WHERE ",
    waiting_sql!(),
    ")"
);

/// Begins a queued response, unless its key has led to another one.
pub(super) fn enqueue(
    connection: &Connection,
    policy: &RowPolicy,
    in_flight: &mut InFlightRows,
    job: &NewJob,
) -> rusqlite::Result<WriteOutcome> {
    match idempotency::begin(connection, policy, in_flight, &job.run)? {
        WriteOutcome::Changed => {}
        refused => return Ok(refused),
    }
    let record = &job.run.record;
    let (lease, conversation) = (&record.lease, record.conversation.as_ref().map(|turn| turn.id.as_str()));
    // From now on it is nobody's, until a worker claims it.
    if let Some((response, _)) = running::find(connection, policy, lease)? {
        connection
            .prepare_cached(
                "UPDATE runs SET instance = ?2, lease_until = 0, attempt = 0, job = ?3, conversation = ?4, place =
                    (SELECT coalesce(max(q.place), 0) + 1 FROM runs q WHERE q.conversation = ?4), tenant = ?5
                 WHERE response = ?1",
            )?
            .execute(params![response, NOBODY, &*job.spec, conversation, &*record.owner.tenant])?;
    }
    in_flight.remove(lease);
    Ok(WriteOutcome::Changed)
}

/// Replaces the status and the body of a row whose run goes on.
pub(super) fn update_running(
    connection: &Connection,
    policy: &RowPolicy,
    record: &ResponseRecord,
) -> rusqlite::Result<WriteOutcome> {
    match running::find(connection, policy, &record.lease)? {
        Some((key, RunningRow::Held)) => {
            connection
                .prepare_cached("UPDATE responses SET status = ?2, body = ?3 WHERE key = ?1")?
                .execute(params![key, record.status.as_str(), &*record.body])?;
            Ok(WriteOutcome::Changed)
        }
        Some((_, RunningRow::Superseded)) => Ok(WriteOutcome::Superseded),
        Some((_, RunningRow::Deleted)) | None => Ok(WriteOutcome::Absent),
    }
}

/// Ends the lease of a run, so that it is claimed again. A deleted one is removed.
pub(super) fn requeue(
    connection: &Connection,
    policy: &RowPolicy,
    lease: &Lease,
    requeue: Requeue,
) -> rusqlite::Result<WriteOutcome> {
    match running::find(connection, policy, lease)? {
        Some((key, RunningRow::Held)) => {
            let delay = i64::try_from(requeue.delay.as_millis()).unwrap_or(i64::MAX);
            let until = if delay == 0 { 0 } else { now().saturating_add(delay) };
            connection
                .prepare_cached(
                    "UPDATE runs SET instance = ?2, lease_until = ?3, attempt = max(attempt - ?4, 0)
                     WHERE response = ?1",
                )?
                .execute(params![key, NOBODY, until, i64::from(!requeue.counts)])?;
            Ok(WriteOutcome::Changed)
        }
        Some((key, RunningRow::Deleted)) => {
            rows::remove(connection, key)?;
            Ok(WriteOutcome::Absent)
        }
        Some((_, RunningRow::Superseded)) => Ok(WriteOutcome::Superseded),
        None => Ok(WriteOutcome::Absent),
    }
}

/// How many runs wait, and since when.
pub(super) fn stats(connection: &Connection, policy: &RowPolicy) -> Result<JobStats, StoreError> {
    connection
        .prepare_cached(STATS)
        .map_err(database)?
        .query_row(params![policy.instance, now()], |row| {
            Ok(JobStats {
                queued: row.get::<_, u32>(0)?.into(),
                oldest_created_at: row.get(1)?,
                waiting: row.get::<_, u32>(2)?.into(),
            })
        })
        .map_err(database)
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn the_length_of_the_queue_is_found_by_the_index_of_background_runs() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        let plan = schema::plan(&connection, STATS);
        assert!(plan.iter().any(|step| step.contains("runs_with_job")), "{plan:#?}");
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:#?}");
    }
}
