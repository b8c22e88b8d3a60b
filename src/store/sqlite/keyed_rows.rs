//! What belongs to a response that has an idempotency key: its key, and the rows of its log.

use rusqlite::{Connection, params};

use super::event_log_sweep;
use crate::store::LoggedEvents;

/// Adds a row to the log of a response.
pub(super) fn insert_events(
    connection: &Connection,
    response: i64,
    events: &LoggedEvents,
    is_end: bool,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO event_log (response, first, last, is_end, bytes) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![response, number(events.first), number(events.last), is_end, events.bytes])?;
    Ok(())
}

/// Deletes the key of a response, and the log that is kept for it. What is large of the log goes later.
pub(super) fn remove(connection: &Connection, response: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM idempotency_keys WHERE response = ?1")?.execute([response])?;
    event_log_sweep::delete_beginning(connection, response).map(drop)
}

/// A sequence number as it is stored.
pub(super) fn number(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}
