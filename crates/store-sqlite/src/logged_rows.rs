//! What belongs to a run that its client may come back for: its idempotency key, and the rows of its log.

use rusqlite::{Connection, params};

use super::event_log_sweep;
use antwort_store::LoggedEvents;

/// Begins the log of a response with its first events.
pub(super) fn begin_log(
    connection: &Connection,
    response: i64,
    events: &LoggedEvents,
) -> rusqlite::Result<()> {
    connection.prepare_cached("INSERT INTO event_logs (response) VALUES (?1)")?.execute([response])?;
    insert_events(connection, response, events, false)
}

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

/// Deletes the key of a response, and its log. What is large of the log goes later.
pub(super) fn remove(connection: &Connection, response: i64) -> rusqlite::Result<()> {
    remove_key(connection, response)?;
    if connection.prepare_cached("DELETE FROM event_logs WHERE response = ?1")?.execute([response])? > 0 {
        event_log_sweep::delete_beginning(connection, response)?;
    }
    Ok(())
}

/// Deletes the key of a response.
pub(super) fn remove_key(connection: &Connection, response: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM idempotency_keys WHERE response = ?1")?.execute([response])?;
    Ok(())
}

/// A sequence number as it is stored.
pub(super) fn number(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}
