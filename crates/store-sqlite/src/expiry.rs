//! Deletes expired rows, by walks over the keys: no index is written for it at each use of a response.
//!
//! Keys begin with the time, so that rows expire in their order, but for those whose life was prolonged. One walk goes
//! over the rows that are older than the time to live, and comes to each row when its time is over; rows that live on
//! are passed, and looked at again by the next walk. The other goes slowly over all rows, for those whose time to live
//! was another, and those whose key is no time. Both go on where they stopped, a limited number of rows in each round
//! of maintenance. Readers ignore expired rows, whether they are deleted yet or not.

use rusqlite::{Connection, Row, TransactionBehavior, params};

use super::error::database;
use super::keys::{self, BEFORE_ALL};
use super::rows;
use super::space::{BATCH_BYTES, used_bytes};
use antwort_store::StoreError;
use antwort_store::row_policy::now;

/// Rows that one step looks at.
const STEP_ROWS: usize = 500;
/// Rows that live on and are passed in a round, of those that are older than the time to live.
const DUE_ROWS: usize = 20_000;
/// The same for the walk over all rows.
const ALL_ROWS: usize = 2_000;

/// Which rows are walked over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Those older than this many milliseconds.
    Older(i64),
    All,
}

impl Which {
    /// The key behind which the rows begin.
    fn start(self) -> i64 {
        match self {
            Self::Older(_) => keys::lowest_at(0) - 1,
            Self::All => BEFORE_ALL,
        }
    }

    /// The keys below which the rows are.
    fn bound(self) -> i64 {
        match self {
            Self::Older(millis) => keys::lowest_at(now().saturating_sub(millis)),
            Self::All => i64::MAX,
        }
    }
}

/// A walk over rows, in steps that other writes run between.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// The last key that was looked at; `None` at the beginning.
    position: Option<i64>,
    /// Rows that may be passed in this round.
    left: usize,
}

const ROWS: &str = "SELECT key, expires_at <= ?3 AND NOT EXISTS (SELECT 1 FROM runs WHERE response = key)
    FROM responses WHERE key > ?1 AND key < ?2 ORDER BY key LIMIT ?4";

impl Walk {
    /// Begins a round: the rows that may be passed are as many as at its beginning.
    pub(super) fn begin_round(&mut self, which: Which) {
        self.left = match which {
            Which::Older(_) => DUE_ROWS,
            Which::All => ALL_ROWS,
        };
    }

    /// One step: a bounded transaction. Returns whether there may be more to do in this round.
    pub(super) fn step(&mut self, connection: &mut Connection, which: Which) -> Result<bool, StoreError> {
        let bound = which.bound();
        let mut rows = self.look(connection, which.start(), bound)?;
        let mut handled = rows.len();
        if rows.iter().any(|(_, is_expired)| *is_expired) {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
            // Another process may have prolonged their lives since.
            rows = self.look(&transaction, which.start(), bound)?;
            handled = delete(&transaction, &rows)?;
            transaction.commit().map_err(database)?;
        }
        if handled == rows.len() && handled < STEP_ROWS {
            self.position = None;
            return Ok(false);
        }
        rows.truncate(handled);
        self.position = rows.last().map(|(key, _)| *key);
        let passed = rows.iter().filter(|(_, is_expired)| !is_expired).count();
        self.left = self.left.saturating_sub(passed);
        Ok(self.left > 0)
    }

    fn look(&self, connection: &Connection, start: i64, bound: i64) -> Result<Vec<(i64, bool)>, StoreError> {
        let mut statement = connection.prepare_cached(ROWS).map_err(database)?;
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, Option<bool>>(1)?.unwrap_or(false)));
        let parameters = params![self.position.unwrap_or(start), bound, now(), STEP_ROWS as i64];
        let rows = statement.query_map(parameters, read).map_err(database)?;
        rows.collect::<Result<_, _>>().map_err(database)
    }
}

const UNLISTED: &str = "SELECT key, NOT EXISTS (SELECT 1 FROM runs WHERE response = key) FROM responses
    WHERE unlisted IS NOT NULL AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2";

/// Deletes the oldest expired rows of responses that are kept for a short time only: they stand among others that live
/// on, and are found by an index. One step; returns whether there may be more to do.
pub(super) fn delete_unlisted(connection: &mut Connection) -> Result<bool, StoreError> {
    if unlisted(connection)?.is_empty() {
        return Ok(false);
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    let rows = unlisted(&transaction)?;
    let deleted = rows.iter().any(|(_, is_expired)| *is_expired);
    delete(&transaction, &rows)?;
    transaction.commit().map_err(database)?;
    Ok(deleted)
}

fn unlisted(connection: &Connection) -> Result<Vec<(i64, bool)>, StoreError> {
    let mut statement = connection.prepare_cached(UNLISTED).map_err(database)?;
    let rows = statement
        .query_map(params![now(), STEP_ROWS as i64], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(database)?;
    rows.collect::<Result<_, _>>().map_err(database)
}

/// Deletes the expired ones of these rows until enough is deleted for one transaction. Returns how many were handled.
fn delete(connection: &Connection, found: &[(i64, bool)]) -> Result<usize, StoreError> {
    let target = used_bytes(connection).map_err(database)?.saturating_sub(BATCH_BYTES);
    for (place, (key, is_expired)) in found.iter().enumerate() {
        if *is_expired {
            rows::remove(connection, *key).map_err(database)?;
            if used_bytes(connection).map_err(database)? <= target {
                return Ok(place + 1);
            }
        }
    }
    Ok(found.len())
}

#[cfg(test)]
mod tests {
    use super::super::{keys::KeyRange, schema};
    use super::*;
    use antwort_store::Owner;

    const TTL: i64 = 1_000_000;

    /// A database with this many rows that were made this many milliseconds ago, of which all but the last live on.
    fn database(rows: i64, age: i64) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        let owner = Owner { tenant: "t".into(), principal: "p".into() };
        let owner = super::super::owners::key(&connection, &owner).unwrap();
        let first = keys::lowest_at(now() - age);
        connection
            .execute(
                "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ?2)
                 INSERT INTO responses (key, owner, id, expires_at, created_at, status, model, item_index, items, body)
                 SELECT ?1 + x * 8, ?3, 'resp_' || x, CASE WHEN x = ?2 THEN 1 ELSE ?4 END, 0, 'completed', 'm', x'', x'', '{}'
                 FROM n",
                params![first, rows, owner, now() + TTL],
            )
            .unwrap();
        connection
    }

    fn count(connection: &Connection) -> i64 {
        connection.query_row("SELECT count(*) FROM responses", [], |row| row.get(0)).unwrap()
    }

    /// One round; how many steps it had.
    fn round(walk: &mut Walk, connection: &mut Connection, which: Which) -> usize {
        walk.begin_round(which);
        let mut steps = 1;
        while walk.step(connection, which).unwrap() {
            steps += 1;
        }
        steps
    }

    #[test]
    fn a_round_passes_a_limited_number_of_rows_that_live_on_and_the_next_goes_on_behind_them() {
        let (rows, which) = (45_000, Which::Older(TTL));
        let mut connection = database(rows, 2 * TTL);
        let mut walk = Walk::default();
        for rounds in 0..2 {
            assert_eq!(round(&mut walk, &mut connection, which), DUE_ROWS / STEP_ROWS);
            assert_eq!(count(&connection), rows, "round {rounds} has not come to the end");
        }
        round(&mut walk, &mut connection, which);
        assert_eq!(count(&connection), rows - 1);
        connection.execute("UPDATE responses SET expires_at = 1 WHERE id = 'resp_7'", []).unwrap();
        round(&mut walk, &mut connection, which);
        assert_eq!(count(&connection), rows - 2, "the next walk looks at those again that lived on");
    }

    #[test]
    fn rows_with_another_time_to_live_are_found_by_the_walk_over_all() {
        let mut connection = database(100, 0);
        connection
            .execute("UPDATE responses SET key = ?1 WHERE id = 'resp_7'", [KeyRange::of("import").first])
            .unwrap();
        connection.execute("UPDATE responses SET expires_at = 1 WHERE id = 'resp_7'", []).unwrap();
        let mut walk = Walk::default();
        round(&mut walk, &mut connection, Which::Older(TTL));
        assert_eq!(count(&connection), 100, "they are too young");
        round(&mut Walk::default(), &mut connection, Which::All);
        assert_eq!(count(&connection), 98);
    }

    #[test]
    fn a_step_deletes_no_more_than_a_transaction_should_and_no_run() {
        let mut connection = database(300, 2 * TTL);
        connection.execute("UPDATE responses SET expires_at = 1, body = ?1", ["x".repeat(100_000)]).unwrap();
        connection
            .execute(
                "INSERT INTO runs (response, instance, epoch, lease_until) SELECT key, 'i', 1, 1 FROM responses
                 WHERE id = 'resp_9'",
                [],
            )
            .unwrap();
        let (mut walk, which) = (Walk::default(), Which::Older(TTL));
        walk.begin_round(which);
        assert!(walk.step(&mut connection, which).unwrap());
        let left = count(&connection);
        assert!((200..300).contains(&left), "{left}");
        while walk.step(&mut connection, which).unwrap() {}
        assert_eq!(count(&connection), 1);
    }
}
