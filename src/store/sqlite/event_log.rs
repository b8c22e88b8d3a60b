//! The log of a run's events: appended to while the run goes on, ended with its response, read from any event on.

use rusqlite::{Connection, params};

use super::error::database;
use super::event_log_sweep;
use super::keyed_rows::{self, number};
use super::read::{self, bytes};
use super::running::{self, RunningRow};
use super::{lifecycle, owners};
use crate::protocol::id::Id;
use crate::store::in_flight::InFlightRows;
use crate::store::operation::WriteOutcome;
use crate::store::row_policy::RowPolicy;
use crate::store::{Lease, LogEnd, LogExtent, LogPage, LoggedEvents, Owner, ResponseRecord, StoreError};

/// Appends events to the log of a running response.
pub(super) fn append(
    connection: &Connection,
    policy: &RowPolicy,
    lease: &Lease,
    events: &LoggedEvents,
) -> rusqlite::Result<WriteOutcome> {
    match running::find(connection, policy, lease)? {
        Some((key, RunningRow::Held)) => {
            keyed_rows::insert_events(connection, key, events, false)?;
            Ok(WriteOutcome::Changed)
        }
        Some((_, RunningRow::Superseded)) => Ok(WriteOutcome::Superseded),
        Some((_, RunningRow::Deleted)) | None => Ok(WriteOutcome::Absent),
    }
}

/// Ends a response and its log.
pub(super) fn finish(
    connection: &Connection,
    policy: &RowPolicy,
    in_flight: &mut InFlightRows,
    record: &ResponseRecord,
    end: &LogEnd,
) -> rusqlite::Result<WriteOutcome> {
    if let Some((key, RunningRow::Held)) = running::find(connection, policy, &record.lease)? {
        if end.keep_below == Some(0) {
            event_log_sweep::delete_beginning(connection, key)?;
        } else if let Some(keep_below) = end.keep_below {
            connection
                .prepare_cached("DELETE FROM event_log WHERE response = ?1 AND last >= ?2")?
                .execute(params![key, number(keep_below)])?;
        }
        if let Some(events) = &end.events {
            keyed_rows::insert_events(connection, key, events, true)?;
        }
    }
    lifecycle::finish(connection, policy, in_flight, record)
}

const ROWS: &str = "SELECT first, last, is_end, octet_length(bytes), bytes FROM event_log
    WHERE response = ?1 AND first >= ?2 ORDER BY first";

/// Events from this number on, which is the first one of a row.
pub(super) fn page(
    connection: &Connection,
    owner: &Owner,
    id: &Id,
    from: u64,
    max_bytes: u64,
) -> Result<Option<LogPage>, StoreError> {
    let Some(response) = key(connection, owner, id)? else { return Ok(None) };
    // Before the events are read: of a run that has ended, the log is whole then.
    let is_running = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM runs WHERE response = ?1)")
        .map_err(database)?
        .query_row([response], |row| row.get(0))
        .map_err(database)?;
    let mut page = LogPage { bytes: Vec::new(), next: from, is_end: false, is_running };
    let mut statement = connection.prepare_cached(ROWS).map_err(database)?;
    let mut rows = statement.query(params![response, number(from)]).map_err(database)?;
    while let Some(row) = rows.next().map_err(database)? {
        let (first, last): (i64, i64) = (row.get(0).map_err(database)?, row.get(1).map_err(database)?);
        let size = row.get::<_, u32>(3).map_err(database)?.into();
        if first != number(page.next) {
            // Events before it could not be written.
            break;
        }
        if page.bytes.len() as u64 + size > max_bytes {
            if page.bytes.is_empty() {
                return Err(StoreError::TooLarge { bytes: size });
            }
            return Ok(Some(page));
        }
        page.bytes.extend_from_slice(bytes(row, 4).map_err(database)?);
        page.next = last.cast_unsigned().saturating_add(1);
        page.is_end = row.get(2).map_err(database)?;
    }
    Ok((is_running || !page.bytes.is_empty()).then_some(page))
}

/// How far a log goes.
pub(super) fn extent(
    connection: &Connection,
    owner: &Owner,
    id: &Id,
) -> Result<Option<LogExtent>, StoreError> {
    let Some(response) = key(connection, owner, id)? else { return Ok(None) };
    let last: [Option<i64>; 2] = connection
        .prepare_cached(
            "SELECT (SELECT last FROM event_log WHERE response = ?1 ORDER BY first LIMIT 1),
                (SELECT last FROM event_log WHERE response = ?1 ORDER BY first DESC LIMIT 1)",
        )
        .map_err(database)?
        .query_row([response], |row| Ok([row.get(0)?, row.get(1)?]))
        .map_err(database)?;
    let [begun, next] = last.map(|last| last.map(|last| last.cast_unsigned().saturating_add(1)));
    Ok(begun.zip(next).map(|(begun, next)| LogExtent { begun, next }))
}

fn key(connection: &Connection, owner: &Owner, id: &Id) -> Result<Option<i64>, StoreError> {
    match owners::find(connection, owner).map_err(database)? {
        Some(owner) => read::live_key(connection, owner, id.as_str()),
        None => Ok(None),
    }
}
