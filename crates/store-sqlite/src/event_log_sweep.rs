//! Deletes event logs that are no longer kept, in steps that other writes run between.
//!
//! A log may be many times as large as its response. So a deletion deletes only its beginning, without which it cannot be read,
//! and this walk the rest; one that has expired is not read any more, and the walk deletes all of it.

use rusqlite::{Connection, TransactionBehavior, params};

use super::error::database;
use super::space::{BATCH_BYTES, used_bytes};
use antwort_store::StoreError;
use antwort_store::row_policy::now;

/// Logs that a step looks at.
const STEP_LOGS: usize = 200;
/// Logs that a round looks at.
const ROUND_LOGS: usize = 2_000;
/// Rows that are deleted between two looks at the size of the transaction.
const BATCH_ROWS: i64 = 8;

const NEXT: &str = "SELECT min(response) FROM event_log WHERE response > ?1";
/// Whether the log `l` of the response ?1 is kept at the time ?2: while its run goes on, for some time after that, and
/// with its key.
macro_rules! is_log_kept {
    () => {
        "(l.expires_at > ?2) IS TRUE OR EXISTS (SELECT 1 FROM runs WHERE response = ?1)
            OR (l.expires_at <> 0) IS TRUE AND EXISTS (SELECT 1 FROM idempotency_keys WHERE response = ?1)"
    };
}
pub(super) use is_log_kept;

/// Without its first event it cannot be read.
const IS_KEPT: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM event_log WHERE response = ?1 AND first = 0)
        AND coalesce((SELECT ",
    is_log_kept!(),
    " FROM event_logs l WHERE l.response = ?1), 0)"
);
const BEGINNING: &str = "DELETE FROM event_log WHERE response = ?1 AND first IN
    (SELECT first FROM event_log WHERE response = ?1 ORDER BY first LIMIT ?2)";

/// A walk over the logs.
#[derive(Debug, Default)]
pub(super) struct LogSweep {
    /// The last response whose log was looked at.
    position: Option<i64>,
    /// Logs that may still be looked at in this round.
    left: usize,
}

impl LogSweep {
    pub(super) fn begin_round(&mut self) {
        self.left = ROUND_LOGS;
    }

    /// One step: at most one transaction. Returns whether there may be more to do in this round.
    pub(super) fn step(&mut self, connection: &mut Connection) -> Result<bool, StoreError> {
        for _ in 0..STEP_LOGS.min(self.left) {
            let after = self.position.unwrap_or(i64::MIN);
            let Some(response) = next(connection, after).map_err(database)? else {
                self.position = None;
                return Ok(false);
            };
            if !is_kept(connection, response).map_err(database)? {
                delete(connection, response)?;
                return Ok(true);
            }
            self.position = Some(response);
            self.left -= 1;
        }
        Ok(self.left > 0)
    }
}

fn next(connection: &Connection, after: i64) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached(NEXT)?.query_row([after], |row| row.get(0))
}

fn is_kept(connection: &Connection, response: i64) -> rusqlite::Result<bool> {
    connection.prepare_cached(IS_KEPT)?.query_row([response, now()], |row| row.get(0))
}

/// Deletes as much of a log as is enough for one transaction.
fn delete(connection: &mut Connection, response: i64) -> Result<(), StoreError> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    let enough = used_bytes(&transaction).map_err(database)?.saturating_sub(BATCH_BYTES);
    while delete_beginning(&transaction, response).map_err(database)? > 0
        && used_bytes(&transaction).map_err(database)? > enough
    {}
    transaction.commit().map_err(database)
}

/// Deletes the first rows of a log: it cannot be read any more. Returns how many there were.
pub(super) fn delete_beginning(connection: &Connection, response: i64) -> rusqlite::Result<usize> {
    connection.prepare_cached(BEGINNING)?.execute(params![response, BATCH_ROWS])
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn a_large_log_is_deleted_in_steps_and_one_that_is_kept_stays() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        for response in [1, 2, 3] {
            for first in 0..100 {
                let row = "INSERT INTO event_log (response, first, last, is_end, bytes)
                    VALUES (?1, ?2, ?2, 0, zeroblob(100000))";
                connection.execute(row, [response, first]).unwrap();
            }
            let log = "INSERT INTO event_logs (response, expires_at) VALUES (?1, ?2)";
            connection.execute(log, [response, now() + 100_000]).unwrap();
        }
        let rows = |connection: &Connection, response: i64| -> i64 {
            let count = "SELECT count(*) FROM event_log WHERE response = ?1";
            connection.query_row(count, [response], |row| row.get(0)).unwrap()
        };
        // The first was given up, the second has expired.
        assert_eq!(delete_beginning(&connection, 1).unwrap(), 8);
        connection.execute("UPDATE event_logs SET expires_at = 1 WHERE response = 2", []).unwrap();
        let (mut sweep, mut steps, mut largest) = (LogSweep::default(), 0, 0);
        sweep.begin_round();
        loop {
            let before = rows(&connection, 1) + rows(&connection, 2);
            let is_more = sweep.step(&mut connection).unwrap();
            largest = largest.max(before - rows(&connection, 1) - rows(&connection, 2));
            steps += 1;
            if !is_more {
                break;
            }
        }
        assert_eq!([1, 2, 3].map(|response| rows(&connection, response)), [0, 0, 100]);
        assert!(steps >= 4 && largest * 100_000 < 6 << 20, "{largest} rows at most in one of {steps} steps");
    }

    #[test]
    fn logs_are_found_without_a_scan() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        for sql in [NEXT, IS_KEPT, BEGINNING] {
            let plan = schema::plan(&connection, sql);
            assert!(plan.iter().all(|step| !step.contains("SCAN event_log")), "{plan:?}");
        }
    }
}
