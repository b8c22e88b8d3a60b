//! Claims of runs that wait for a process: those of tenants in turn.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::error::database;
use super::keys::KeyRange;
use super::orphans::Orphan;
use super::read::text;
use super::rows;
use antwort_protocol::id::Id;
use antwort_store::job_turns::behind;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::taken_run::MAX_BATCH_BYTES;
use antwort_store::{ClaimedJob, JobTurns, Lease, Owner, StoreError};

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

pub(super) use {is_next_sql, waiting_sql};

/// The columns that [`Orphan::read`] takes, and three more.
macro_rules! columns_sql {
    () => {
        "SELECT s.key, s.id, o.tenant, o.principal, s.created_at, s.model, s.previous_id, s.body, r.epoch, r.orphan,
            r.state, s.expires_at IS NOT NULL, s.item_index, s.items, r.cancel_requested, r.attempt, r.job,
            r.conversation IS NOT NULL
        FROM runs r CROSS JOIN responses s ON s.key = r.response CROSS JOIN owners o ON o.key = s.owner WHERE "
    };
}

/// The first tenant from this name on of which a run waits, or which is one of these.
const TENANT: &str = concat!(
    "SELECT r.tenant FROM runs r WHERE r.attempt IS NOT NULL AND r.tenant >= ?3
        AND (r.tenant IN (SELECT value FROM json_each(?4)) OR ",
    waiting_sql!(),
    ") ORDER BY r.tenant LIMIT 1"
);

const HAS_OTHERS: &str =
    "SELECT ifnull((SELECT min(tenant) FROM owners WHERE tenant > '') < (SELECT max(tenant) FROM owners), 0)";

const NEXT: &str = concat!(columns_sql!(), waiting_sql!(), " AND r.tenant = ?3 ORDER BY r.response LIMIT 1");

/// One that was given back for a while is nobody's, and may be claimed by its id before that time.
const ONE: &str = concat!(
    columns_sql!(),
    "r.attempt IS NOT NULL AND (r.instance = '' OR ",
    waiting_sql!(),
    ") AND ",
    is_next_sql!(),
    " AND r.response BETWEEN ?3 AND ?4 AND s.id = ?5 AND o.tenant = ?6 AND o.principal = ?7"
);

const CLAIMED: &str = "SELECT s.id, r.epoch FROM runs r CROSS JOIN responses s ON s.key = r.response
    WHERE r.attempt IS NOT NULL AND r.instance = ?1 AND r.orphan IS NULL";

/// Claims runs that wait, those of tenants in turn. A deleted one is removed.
pub(super) fn claim(
    connection: &mut Connection,
    policy: &RowPolicy,
    turns: &JobTurns,
) -> Result<Vec<ClaimedJob>, StoreError> {
    let now = now();
    // Usually there is nothing to do; then no lock is taken.
    let dealt = deal(connection, policy, turns, now).map_err(database)?;
    let (mut claimed, mut bytes) = (Vec::new(), 0_usize);
    if dealt.is_empty() {
        return Ok(claimed);
    }
    let transaction = begin(connection)?;
    for tenant in dealt {
        if bytes >= MAX_BATCH_BYTES {
            break;
        }
        while let Some(waiting) = next(&transaction, policy, &tenant, now).map_err(database)? {
            if let Some(job) = waiting.claim(&transaction, policy, now).map_err(database)? {
                bytes = bytes.saturating_add(job.run.size() + job.spec.len());
                claimed.push(job);
                break;
            }
        }
    }
    transaction.commit().map_err(database)?;
    Ok(claimed)
}

/// Whose the next runs are.
fn deal(
    connection: &Connection,
    policy: &RowPolicy,
    turns: &JobTurns,
    now: i64,
) -> rusqlite::Result<Vec<Arc<str>>> {
    let full = serde_json::to_string(&turns.full()).unwrap_or_default();
    let mut waiting: Vec<Arc<str>> = Vec::new();
    let mut statement = connection.prepare_cached(TENANT)?;
    for start in [turns.first(), String::new()] {
        let mut from = start;
        while waiting.len() < turns.candidates() {
            let read = |row: &Row<'_>| row.get::<_, String>(0);
            let found = statement.query_row(params![policy.instance, now, from, full], read).optional()?;
            let Some(tenant) = found.map(Arc::<str>::from).filter(|tenant| !waiting.contains(tenant)) else {
                break;
            };
            from = behind(&tenant);
            waiting.push(tenant);
        }
    }
    if waiting.is_empty() {
        return Ok(Vec::new());
    }
    let has_others = connection.prepare_cached(HAS_OTHERS)?.query_row([], |row| row.get(0))?;
    Ok(turns.deal(waiting, has_others))
}

/// The oldest run of a tenant that waits.
fn next(
    transaction: &Transaction<'_>,
    policy: &RowPolicy,
    tenant: &str,
    now: i64,
) -> rusqlite::Result<Option<Waiting>> {
    let parameters = params![policy.instance, now, tenant];
    transaction.prepare_cached(NEXT)?.query_row(parameters, Waiting::read).optional()
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

/// The leases of the runs that this instance has claimed.
pub(super) fn claimed(connection: &Connection, policy: &RowPolicy) -> Result<Vec<Lease>, StoreError> {
    let read = |row: &Row<'_>| Ok(Lease { id: Id::from(text(row, 0)?), epoch: row.get(1)? });
    let mut statement = connection.prepare_cached(CLAIMED).map_err(database)?;
    let found = statement.query_map([&policy.instance], read).map_err(database)?;
    found.collect::<Result<_, _>>().map_err(database)
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    /// Each look for work once read all runs, with their states.
    #[test]
    fn work_is_found_by_the_indexes_of_background_runs() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        for (sql, index) in [
            (TENANT, "runs_by_tenant (tenant>?)"),
            (NEXT, "runs_by_tenant (tenant=?)"),
            (CLAIMED, "runs_with_job"),
        ] {
            let plan = schema::plan(&connection, sql);
            assert!(plan.iter().any(|step| step.contains(index)), "{plan:#?}");
            assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:#?}");
        }
        for sql in [ONE, HAS_OTHERS] {
            let plan = schema::plan(&connection, sql);
            assert!(!plan.iter().any(|step| step.starts_with("SCAN r")), "{plan:#?}");
            assert!(!plan.iter().any(|step| step.starts_with("SCAN owners")), "{plan:#?}");
        }
    }
}
