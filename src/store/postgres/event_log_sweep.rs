//! Deletes event logs that are no longer kept, in steps.
//!
//! A log may be many times as large as its response. So the write that ends its keeping (a deletion, an expired key) deletes
//! only its beginning, without which it cannot be read, and this walk the rest.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::session::{Param, Session};
use super::values::get;
use crate::store::StoreError;

/// Logs that a step looks at.
const STEP_LOGS: i64 = 200;
/// Logs that a round looks at.
const ROUND_LOGS: usize = 2_000;
/// Rows that are deleted of each log with its key.
const BEGINNING_ROWS: i64 = 8;
/// Rows that a step deletes.
const STEP_ROWS: i64 = 500;

/// The logs behind a place, found one after another by the index, and whether each is kept: with its key, from the first
/// event on.
const LOOK: &str = "WITH RECURSIVE logs (response, owner, place) AS (
        (SELECT response, owner, 1 FROM event_log WHERE (response, owner) > ($1, $2)
            ORDER BY response, owner LIMIT 1)
        UNION ALL
        SELECT n.response, n.owner, l.place + 1 FROM logs l CROSS JOIN LATERAL (
            SELECT e.response, e.owner FROM event_log e WHERE (e.response, e.owner) > (l.response, l.owner)
            ORDER BY e.response, e.owner LIMIT 1) n
        WHERE l.place < $3)
    SELECT l.response, l.owner,
        EXISTS (SELECT 1 FROM idempotency_keys k WHERE k.response = l.response AND k.owner = l.owner)
        AND EXISTS (SELECT 1 FROM event_log e WHERE e.response = l.response AND e.owner = l.owner AND e.first = 0)
    FROM logs l ORDER BY l.place";
const DELETE: &str = "DELETE FROM event_log WHERE ctid = ANY (ARRAY(
        SELECT e.ctid FROM event_log e
        JOIN unnest($1::uuid[], $2::bigint[]) AS g (response, owner) ON e.response = g.response AND e.owner = g.owner
        WHERE NOT EXISTS (SELECT 1 FROM idempotency_keys k WHERE k.response = e.response AND k.owner = e.owner)
            OR NOT EXISTS (SELECT 1 FROM event_log b WHERE b.response = e.response AND b.owner = e.owner AND b.first = 0)
        LIMIT $3 FOR UPDATE OF e SKIP LOCKED))";
const DELETE_BEGINNINGS: &str = "DELETE FROM event_log WHERE ctid = ANY (ARRAY(
        SELECT e.place FROM unnest($1::uuid[], $2::bigint[]) AS g (response, owner)
        CROSS JOIN LATERAL (SELECT l.ctid AS place FROM event_log l
            WHERE l.response = g.response AND l.owner = g.owner ORDER BY l.first LIMIT $3) e))";

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
        let parameters: [Param<'_>; 3] =
            [(&response, Type::UUID), (&owner, Type::INT8), (&STEP_LOGS, Type::INT8)];
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
    let parameters: [Param<'_>; 3] =
        [(&responses, Type::UUID_ARRAY), (&owners, Type::INT8_ARRAY), (&STEP_ROWS, Type::INT8)];
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
