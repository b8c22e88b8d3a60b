//! Deletes event logs that are no longer kept, in steps.
//!
//! A log may be many times as large as its response. So a deletion deletes only its beginning, without which it cannot be
//! read, and this walk the rest; one that has expired is not read any more, and the walk deletes all of it.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::session::{Param, Session};
use super::values::get;
use antwort_store::StoreError;
use antwort_store::row_policy::now;

/// Logs that a step looks at.
const STEP_LOGS: i64 = 200;
/// Logs that a round looks at.
const ROUND_LOGS: usize = 2_000;
/// Rows that are deleted of each log with its key.
const BEGINNING_ROWS: i64 = 8;
/// Rows that a step deletes.
const STEP_ROWS: i64 = 500;

/// Whether the log `l` is kept at the time $3: while its run goes on, for some time after that, and with its key.
macro_rules! is_log_kept {
    () => {
        "((l.expires_at > $3) IS TRUE
            OR EXISTS (SELECT 1 FROM runs q WHERE q.response = l.response AND q.owner = l.owner)
            OR (l.expires_at <> 0) IS TRUE AND EXISTS
                (SELECT 1 FROM idempotency_keys k WHERE k.response = l.response AND k.owner = l.owner))"
    };
}
pub(super) use is_log_kept;

/// Whether the log `e` is kept: without its first event it cannot be read.
macro_rules! is_of_use {
    () => {
        concat!(
            "(EXISTS (SELECT 1 FROM event_log b WHERE b.response = e.response AND b.owner = e.owner AND b.first = 0)
            AND EXISTS (SELECT 1 FROM event_logs l WHERE l.response = e.response AND l.owner = e.owner AND ",
            is_log_kept!(),
            "))"
        )
    };
}

/// The logs behind a place, found one after another by the index, and whether each is kept.
const LOOK: &str = concat!(
    "WITH RECURSIVE logs (response, owner, place) AS (
        (SELECT response, owner, 1 FROM event_log WHERE (response, owner) > ($1, $2)
            ORDER BY response, owner LIMIT 1)
        UNION ALL
        SELECT n.response, n.owner, p.place + 1 FROM logs p CROSS JOIN LATERAL (
            SELECT f.response, f.owner FROM event_log f WHERE (f.response, f.owner) > (p.response, p.owner)
            ORDER BY f.response, f.owner LIMIT 1) n
        WHERE p.place < $4)
    SELECT e.response, e.owner, ",
    is_of_use!(),
    " FROM logs e ORDER BY e.place"
);
// Of a partitioned table, `ctid` is unique in each partition only: so rows of other logs are excluded by their key.
const DELETE: &str = concat!(
    "DELETE FROM event_log d WHERE d.ctid = ANY (ARRAY(
        SELECT e.ctid FROM event_log e
        JOIN unnest($1::uuid[], $2::bigint[]) AS g (response, owner) ON e.response = g.response AND e.owner = g.owner
        WHERE NOT ",
    is_of_use!(),
    " LIMIT $4 FOR UPDATE OF e SKIP LOCKED))
        AND (d.response, d.owner) IN (SELECT * FROM unnest($1::uuid[], $2::bigint[]))"
);
const DELETE_BEGINNINGS: &str = "DELETE FROM event_log d WHERE d.ctid = ANY (ARRAY(
        SELECT e.place FROM unnest($1::uuid[], $2::bigint[]) AS g (response, owner)
        CROSS JOIN LATERAL (SELECT l.ctid AS place FROM event_log l
            WHERE l.response = g.response AND l.owner = g.owner ORDER BY l.first LIMIT $3) e))
        AND (d.response, d.owner) IN (SELECT * FROM unnest($1::uuid[], $2::bigint[]))";

/// A walk over the logs.
#[derive(Debug, Default)]
pub(super) struct LogSweep {
    /// The last log that was looked at.
    position: Option<(Uuid, i64)>,
    /// Logs that may still be looked at in this round.
    left: usize,
}

impl LogSweep {
    pub(super) fn begin_round(&mut self) {
        self.left = ROUND_LOGS;
    }

    /// One step, in a transaction of its own; [`Self::go_on`] notes it behind the commit.
    pub(super) async fn step(&self, session: Session<'_>) -> Result<Step, StoreError> {
        // No response has the lowest key.
        let (response, owner) = self.position.unwrap_or((Uuid::nil(), i64::MIN));
        let parameters: [Param<'_>; 4] =
            [(&response, Type::UUID), (&owner, Type::INT8), (&now(), Type::INT8), (&STEP_LOGS, Type::INT8)];
        let rows = session.query(LOOK, &parameters).await?;
        let (mut responses, mut owners, mut last) = (Vec::new(), Vec::new(), None);
        for row in &rows {
            let (response, owner): (Uuid, i64) = (get(row, 0)?, get(row, 1)?);
            if !get::<bool>(row, 2)? {
                responses.push(response);
                owners.push(owner);
            }
            last = Some((response, owner));
        }
        if delete(session, &responses, &owners).await? >= STEP_ROWS.cast_unsigned() {
            // Looked at again from the same place.
            return Ok(Step { position: self.position, passed: 1, is_end: false });
        }
        let position = last.filter(|_| rows.len() as i64 == STEP_LOGS);
        Ok(Step { position, passed: rows.len(), is_end: position.is_none() })
    }

    /// Notes a step. Returns whether there may be more to do in this round.
    pub(super) fn go_on(&mut self, step: Step) -> bool {
        self.position = step.position;
        self.left = self.left.saturating_sub(step.passed);
        !step.is_end && self.left > 0
    }
}

/// What a step has come to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    position: Option<(Uuid, i64)>,
    passed: usize,
    is_end: bool,
}

/// Deletes as much of these logs as is enough for one transaction. Returns how many rows there were.
async fn delete(session: Session<'_>, responses: &[Uuid], owners: &[i64]) -> Result<u64, StoreError> {
    if responses.is_empty() {
        return Ok(0);
    }
    let parameters: [Param<'_>; 4] = [
        (&responses, Type::UUID_ARRAY),
        (&owners, Type::INT8_ARRAY),
        (&now(), Type::INT8),
        (&STEP_ROWS, Type::INT8),
    ];
    session.execute(DELETE, &parameters).await
}

/// Deletes the first rows of logs: they cannot be read any more. Returns how many there were.
pub(super) async fn delete_beginnings(
    session: Session<'_>,
    responses: &[Uuid],
    owners: &[i64],
) -> Result<u64, StoreError> {
    let parameters: [Param<'_>; 3] =
        [(&responses, Type::UUID_ARRAY), (&owners, Type::INT8_ARRAY), (&BEGINNING_ROWS, Type::INT8)];
    session.execute(DELETE_BEGINNINGS, &parameters).await
}
