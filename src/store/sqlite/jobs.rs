//! Runs that any process may make: queued, claimed, given back.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::error::database;
use super::keys::KeyRange;
use super::orphans::Orphan;
use super::read::text;
use super::running::{self, RunningRow};
use super::{idempotency, rows};
use crate::protocol::id::Id;
use crate::store::in_flight::InFlightRows;
use crate::store::operation::WriteOutcome;
use crate::store::row_policy::{RowPolicy, now};
use crate::store::taken_run::MAX_BATCH_BYTES;
use crate::store::{ClaimedJob, JobStats, Lease, NewJob, Owner, Requeue, ResponseRecord, StoreError};

/// The column `instance` of a run that nobody has claimed.
pub(super) const NOBODY: &str = "";

/// Which `runs r` are the next ones of their conversations. One that was cancelled ends without being made.
macro_rules! is_next_sql {
    () => {
        "(r.conversation IS NULL OR r.cancel_requested = 1 OR NOT EXISTS (SELECT 1 FROM runs e
            WHERE e.conversation = r.conversation AND (e.place, e.response) < (r.place, r.response)))"
    };
}

/// Which `runs r` the instance ?1 may claim at the time ?2. Of its own runs only those that were given up.
macro_rules! waiting_sql {
    () => {
        concat!(
            "r.attempt IS NOT NULL AND r.lease_until < ?2 AND (r.instance <> ?1 OR r.orphan IS NOT NULL) AND ",
            is_next_sql!()
        )
    };
}

/// The columns that [`Orphan::read`] takes, and three more.
macro_rules! columns_sql {
    () => {
        "SELECT s.key, s.id, o.tenant, o.principal, s.created_at, s.model, s.previous_id, s.body, r.epoch, r.orphan,
            r.state, s.expires_at IS NOT NULL, s.item_index, s.items, r.cancel_requested, r.attempt, r.job,
            r.conversation IS NOT NULL
        FROM runs r CROSS JOIN responses s ON s.key = r.response CROSS JOIN owners o ON o.key = s.owner WHERE "
    };
}

const ANY: &str = concat!("SELECT EXISTS (SELECT 1 FROM runs r WHERE ", waiting_sql!(), ")");

const NEXT: &str = concat!(columns_sql!(), waiting_sql!(), " ORDER BY r.response LIMIT 1");

/// One that was given back for a while is nobody's, and may be claimed by its id before that time.
const ONE: &str = concat!(
    columns_sql!(),
    "r.attempt IS NOT NULL AND (r.instance = '' OR ",
    waiting_sql!(),
    ") AND ",
    is_next_sql!(),
    " AND r.response BETWEEN ?3 AND ?4 AND s.id = ?5 AND o.tenant = ?6 AND o.principal = ?7"
);

const STATS: &str = concat!(
    "SELECT found, (SELECT created_at FROM responses WHERE key = oldest),
        (SELECT count(*) FROM runs WHERE waits_until IS NOT NULL)
    FROM (SELECT count(*) AS found, min(r.response) AS oldest FROM runs r WHERE ",
    waiting_sql!(),
    ")"
);

const CLAIMED: &str = "SELECT s.id, r.epoch FROM runs r CROSS JOIN responses s ON s.key = r.response
    WHERE r.attempt IS NOT NULL AND r.instance = ?1 AND r.orphan IS NULL";

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
                    (SELECT coalesce(max(q.place), 0) + 1 FROM runs q WHERE q.conversation = ?4) WHERE response = ?1",
            )?
            .execute(params![response, NOBODY, &*job.spec, conversation])?;
    }
    in_flight.remove(lease);
    Ok(WriteOutcome::Changed)
}

/// Claims the oldest runs that wait. A deleted one is removed.
pub(super) fn claim(
    connection: &mut Connection,
    policy: &RowPolicy,
    limit: usize,
) -> Result<Vec<ClaimedJob>, StoreError> {
    let now = now();
    // Usually there is nothing to do; then no lock is taken.
    let any: bool =
        connection.query_row(ANY, params![policy.instance, now], |row| row.get(0)).map_err(database)?;
    let (mut claimed, mut bytes) = (Vec::new(), 0_usize);
    if !any {
        return Ok(claimed);
    }
    let transaction = begin(connection)?;
    while claimed.len() < limit && bytes < MAX_BATCH_BYTES {
        let next = transaction
            .prepare_cached(NEXT)
            .map_err(database)?
            .query_row(params![policy.instance, now], Waiting::read)
            .optional()
            .map_err(database)?;
        let Some(waiting) = next else { break };
        if let Some(job) = waiting.claim(&transaction, policy, now).map_err(database)? {
            bytes = bytes.saturating_add(job.run.size() + job.spec.len());
            claimed.push(job);
        }
    }
    transaction.commit().map_err(database)?;
    Ok(claimed)
}

/// Claims this run, if nobody makes it.
pub(super) fn claim_one(
    connection: &mut Connection,
    policy: &RowPolicy,
    owner: &Owner,
    id: &Id,
) -> Result<Option<ClaimedJob>, StoreError> {
    let (now, KeyRange { first, last }) = (now(), KeyRange::of(id.as_str()));
    let transaction = begin(connection)?;
    let found = transaction
        .prepare_cached(ONE)
        .map_err(database)?
        .query_row(
            params![policy.instance, now, first, last, id.as_str(), &*owner.tenant, &*owner.principal],
            Waiting::read,
        )
        .optional()
        .map_err(database)?;
    let claimed = match found {
        Some(waiting) => waiting.claim(&transaction, policy, now).map_err(database)?,
        None => None,
    };
    transaction.commit().map_err(database)?;
    Ok(claimed)
}

fn begin(connection: &mut Connection) -> Result<Transaction<'_>, StoreError> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)
}

/// A run that waits, before it is claimed.
struct Waiting {
    orphan: Orphan,
    attempts: u32,
    spec: Arc<[u8]>,
    in_conversation: bool,
}

impl Waiting {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let spec = row.get::<_, Option<Vec<u8>>>(16)?.unwrap_or_default().into();
        let in_conversation = row.get(17)?;
        Ok(Self { orphan: Orphan::read(row)?, attempts: row.get(15)?, spec, in_conversation })
    }

    /// `None`: it was deleted, or cannot be read. What is damaged has no job, and so it fails.
    fn claim(
        self,
        connection: &Connection,
        policy: &RowPolicy,
        now: i64,
    ) -> rusqlite::Result<Option<ClaimedJob>> {
        let Self { orphan, attempts, spec, in_conversation } = self;
        if orphan.is_deleted {
            rows::remove(connection, orphan.key)?;
            return Ok(None);
        }
        let Some(epoch) = orphan.epoch(connection, now)? else { return Ok(None) };
        let attempt = attempts.saturating_add(1);
        connection
            .prepare_cached(
                "UPDATE runs SET instance = ?2, epoch = ?3, lease_until = ?4, orphan = NULL, attempt = ?5,
                    waits_until = NULL WHERE response = ?1",
            )?
            .execute(params![
                orphan.key,
                policy.instance,
                epoch,
                now.saturating_add(policy.lease),
                attempt
            ])?;
        let whole = orphan.whole(connection)?;
        Ok(whole.map(|(run, is_damaged)| {
            let spec = if is_damaged { Arc::default() } else { spec };
            ClaimedJob { run, spec, attempt, in_conversation }
        }))
    }
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

/// The leases of the runs that this instance has claimed.
pub(super) fn claimed(connection: &Connection, policy: &RowPolicy) -> Result<Vec<Lease>, StoreError> {
    let read = |row: &Row<'_>| Ok(Lease { id: Id::from(text(row, 0)?), epoch: row.get(1)? });
    let mut statement = connection.prepare_cached(CLAIMED).map_err(database)?;
    let found = statement.query_map([&policy.instance], read).map_err(database)?;
    found.collect::<Result<_, _>>().map_err(database)
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

    /// Each look for work once read all runs, with their states.
    #[test]
    fn work_is_found_by_the_index_of_background_runs() {
        let connection = Connection::open_in_memory().unwrap();
        schema::apply(&connection, 0).unwrap();
        for sql in [ANY, NEXT, STATS, CLAIMED] {
            let plan = schema::plan(&connection, sql);
            assert!(plan.iter().any(|step| step.contains("runs_with_job")), "{plan:#?}");
            assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:#?}");
        }
        let plan = schema::plan(&connection, ONE);
        assert!(!plan.iter().any(|step| step.starts_with("SCAN")), "{plan:#?}");
    }
}
