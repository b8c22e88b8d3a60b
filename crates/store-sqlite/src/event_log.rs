//! The log of a run's events: appended to while the run goes on, ended with its response, read from any event on.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::database;
use super::event_log_sweep::{self, is_log_kept};
use super::logged_rows::{self, number};
use super::read::{self, bytes};
use super::running::{self, RunningRow};
use super::{lifecycle, owners};
use antwort_protocol::id::Id;
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{
    Lease, LogEnd, LogExtent, LogKept, LogPage, LogState, LoggedEvents, Owner, ResponseRecord, StoreError,
};

/// Appends events to the log of a running response.
pub(super) fn append(
    connection: &Connection,
    policy: &RowPolicy,
    lease: &Lease,
    events: &LoggedEvents,
) -> rusqlite::Result<WriteOutcome> {
    match running::find(connection, policy, lease)? {
        Some((key, RunningRow::Held)) => {
            logged_rows::insert_events(connection, key, events, false)?;
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
    let held = match running::find(connection, policy, &record.lease)? {
        Some((key, RunningRow::Held)) => Some(key),
        _ => None,
    };
    if let Some(key) = held {
        end_log(connection, policy, key, end)?;
    }
    let finished = lifecycle::finish(connection, policy, in_flight, record)?;
    if let Some(key) = held.filter(|_| end.is_unlisted) {
        // As long as its key, which must not lead to another response.
        let key_until: Option<i64> = connection
            .prepare_cached("SELECT max(expires_at) FROM idempotency_keys WHERE response = ?1")?
            .query_row([key], |row| row.get(0))?;
        let until = now().saturating_add(policy.event_ttl).max(key_until.unwrap_or(0));
        connection
            .prepare_cached(
                "UPDATE responses SET expires_at = min(coalesce(expires_at, ?2), ?2),
                    lineage_until = min(coalesce(lineage_until, ?2), ?2), unlisted = 1
                 WHERE key = ?1",
            )?
            .execute(params![key, until])?;
    }
    Ok(finished)
}

fn end_log(connection: &Connection, policy: &RowPolicy, key: i64, end: &LogEnd) -> rusqlite::Result<()> {
    let mut replaced_from = None;
    let mut expires_at = now().saturating_add(policy.event_ttl);
    if end.keep_below == Some(0) {
        event_log_sweep::delete_beginning(connection, key)?;
        expires_at = 0;
    } else if let Some(keep_below) = end.keep_below {
        let cut = connection
            .prepare_cached("DELETE FROM event_log WHERE response = ?1 AND last >= ?2")?
            .execute(params![key, number(keep_below)])?;
        replaced_from = Some(number(keep_below)).filter(|_| cut > 0);
    }
    if let Some(events) = &end.events {
        logged_rows::insert_events(connection, key, events, true)?;
    }
    connection
        .prepare_cached(
            "UPDATE event_logs SET expires_at = ?2, replaced_from = coalesce(?3, replaced_from)
             WHERE response = ?1",
        )?
        .execute(params![key, expires_at, replaced_from])?;
    Ok(())
}

/// What is known of a log without its events.
struct LogRow {
    is_running: bool,
    /// Nobody makes the run: what was logged last may be replaced. A background run goes on from what was logged.
    is_orphaned: bool,
    /// This process has its lease.
    is_own: bool,
    /// `None`: there never was a log.
    is_kept: Option<bool>,
    replaced_from: Option<u64>,
}

/// A log is kept while its run goes on, for some time after that, and with its key.
const LOG: &str = concat!(
    "SELECT (SELECT (lease_until < ?2 OR orphan IS NOT NULL) AND attempt IS NULL FROM runs WHERE response = ?1), (SELECT ",
    is_log_kept!(),
    " FROM event_logs l WHERE l.response = ?1), (SELECT replaced_from FROM event_logs WHERE response = ?1),
        (SELECT instance = ?3 FROM runs WHERE response = ?1)"
);

fn log(connection: &Connection, policy: &RowPolicy, response: i64) -> rusqlite::Result<LogRow> {
    connection.prepare_cached(LOG)?.query_row(params![response, now(), policy.instance], |row| {
        let is_orphaned: Option<bool> = row.get(0)?;
        Ok(LogRow {
            is_running: is_orphaned.is_some(),
            is_orphaned: is_orphaned.unwrap_or(false),
            is_kept: row.get(1)?,
            replaced_from: row.get::<_, Option<i64>>(2)?.map(i64::cast_unsigned),
            is_own: row.get::<_, Option<bool>>(3)?.unwrap_or(false),
        })
    })
}

// From the row with the event that is asked for on; an event of a later row if that is missing. Text that cannot fit is not
// read from the file: its size is all that is told of it.
const ROWS: &str =
    "SELECT first, last, is_end, octet_length(bytes), CASE WHEN octet_length(bytes) <= ?3 THEN bytes END
    FROM event_log
    WHERE response = ?1 AND last >= ?2
        AND first >= coalesce((SELECT max(first) FROM event_log WHERE response = ?1 AND first <= ?2), ?2)
    ORDER BY first";

/// Events from this number on, with those that stand in one row with it.
pub(super) fn page(
    connection: &Connection,
    policy: &RowPolicy,
    (owner, id): (&Owner, &Id),
    from: u64,
    max_bytes: u64,
) -> Result<Option<LogPage>, StoreError> {
    // The state of the log and its events are of one moment: events that take the place of others must not be read without
    // the mark that says so.
    let snapshot = connection.unchecked_transaction().map_err(database)?;
    let connection = &*snapshot;
    let Some(response) = key(connection, owner, id)? else { return Ok(None) };
    let log = log(connection, policy, response).map_err(database)?;
    if log.is_kept != Some(true) {
        return Ok(None);
    }
    let LogRow { is_running, is_orphaned, is_own, replaced_from, .. } = log;
    let mut page = LogPage {
        first: from,
        bytes: Vec::new(),
        next: from,
        is_end: false,
        is_running,
        is_own,
        replaced_from,
    };
    if is_orphaned {
        return Ok(Some(page));
    }
    let mut statement = connection.prepare_cached(ROWS).map_err(database)?;
    let mut rows = statement.query(params![response, number(from), number(max_bytes)]).map_err(database)?;
    while let Some(row) = rows.next().map_err(database)? {
        let (first, last): (i64, i64) = (row.get(0).map_err(database)?, row.get(1).map_err(database)?);
        let size = row.get::<_, u32>(3).map_err(database)?.into();
        let is_first = page.bytes.is_empty();
        if first > number(page.next) || !is_first && first < number(page.next) {
            // Events before it could not be written.
            break;
        }
        if page.bytes.len() as u64 + size > max_bytes {
            if is_first {
                return Err(StoreError::TooLarge { bytes: size });
            }
            return Ok(Some(page));
        }
        if is_first {
            page.first = first.cast_unsigned();
        }
        page.bytes.extend_from_slice(bytes(row, 4).map_err(database)?);
        page.next = last.cast_unsigned().saturating_add(1);
        page.is_end = row.get(2).map_err(database)?;
    }
    Ok((is_running || !page.bytes.is_empty()).then_some(page))
}

const EXTENT: &str = "SELECT (SELECT last FROM event_log WHERE response = ?1 AND first = 0),
    (SELECT last FROM event_log WHERE response = ?1 ORDER BY first DESC LIMIT 1)";

/// Whether a log is kept, and how far it goes.
pub(super) fn state(
    connection: &Connection,
    policy: &RowPolicy,
    owner: &Owner,
    id: &Id,
) -> Result<Option<LogState>, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(database)?;
    let connection = &*snapshot;
    let Some(response) = key(connection, owner, id)? else { return Ok(None) };
    let LogRow { is_running, is_kept, replaced_from, .. } =
        log(connection, policy, response).map_err(database)?;
    let kept = match is_kept {
        None => LogKept::Never,
        Some(false) => LogKept::Gone,
        Some(true) => {
            let last: [Option<i64>; 2] = connection
                .prepare_cached(EXTENT)
                .map_err(database)?
                .query_row([response], |row| Ok([row.get(0)?, row.get(1)?]))
                .map_err(database)?;
            let [begun, next] = last.map(|last| last.map(|last| last.cast_unsigned().saturating_add(1)));
            let extent = begun.zip(next).map(|(begun, next)| LogExtent { begun, next, replaced_from });
            extent.map_or(LogKept::Gone, LogKept::Kept)
        }
    };
    Ok(Some(LogState { is_running, log: kept }))
}

/// The state of a running response.
pub(super) fn run_state(
    connection: &Connection,
    owner: &Owner,
    id: &Id,
) -> Result<Option<Arc<[u8]>>, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(database)?;
    let Some(response) = key(&snapshot, owner, id)? else { return Ok(None) };
    let read = |row: &Row<'_>| row.get::<_, Option<Vec<u8>>>(0);
    let mut statement =
        snapshot.prepare_cached("SELECT state FROM runs WHERE response = ?1").map_err(database)?;
    let state = statement.query_row([response], read).optional().map_err(database)?;
    Ok(state.flatten().map(Arc::from))
}

fn key(connection: &Connection, owner: &Owner, id: &Id) -> Result<Option<i64>, StoreError> {
    match owners::find(connection, owner).map_err(database)? {
        Some(owner) => read::live_key(connection, owner, id.as_str()),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

    use super::super::{Location, SqliteOptions, SqliteStore, schema};
    use super::*;
    use antwort_protocol::response::ResponseStatus;
    use antwort_store::{EventLog, IdempotencyKeys, Lease, LogEnd, LoggedEvents, LoggedRun, ResponseRecord};

    /// A follower reads the log a few times a second: from the middle of a long log, too, it must not look at all of it.
    #[test]
    fn events_are_found_without_a_scan() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        for sql in [LOG, ROWS, EXTENT] {
            let plan = schema::plan(&connection, sql);
            assert!(
                !plan.iter().any(|step| step.starts_with("SCAN") && !step.contains("CONSTANT")),
                "{plan:#?}"
            );
        }
        let rows = schema::plan(&connection, ROWS);
        assert!(rows.iter().any(|step| step.contains("(response=? AND first>?)")), "{rows:#?}");
    }

    fn events(first: u64, last: u64) -> LoggedEvents {
        LoggedEvents { first, last, bytes: b"event".to_vec() }
    }

    /// A follower that read the events of an end that had taken the place of others, but not that it had, sent them behind
    /// these.
    #[tokio::test(flavor = "multi_thread")]
    async fn events_that_replace_others_are_never_read_without_the_mark_that_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db");
        let store = SqliteStore::open(SqliteOptions::new(Location::File(path.clone()), "one")).unwrap();
        let store = Arc::new(store);
        let record = ResponseRecord {
            lease: Lease::first("resp_1".into()),
            owner: Owner { tenant: "t".into(), principal: "p".into() },
            status: ResponseStatus::InProgress,
            model: "m".to_owned(),
            created_at: 1_700_000_000,
            previous: None,
            conversation: None,
            body: "{}".into(),
            items: Vec::new(),
            outbox: Vec::new(),
            approvals: Vec::new(),
            trace: None,
            is_unlisted: false,
        };
        let (lease, owner) = (record.lease.clone(), record.owner.clone());
        let run = LoggedRun { key: None, record: record.clone(), state: None, events: Some(events(0, 1)) };
        store.begin_logged(run).await.unwrap();
        store.log_events(&lease, events(2, 4)).await.unwrap();

        let (runtime, writing) = (tokio::runtime::Handle::current(), Arc::clone(&store));
        let mut end = Some(move || {
            let record = ResponseRecord { status: ResponseStatus::Completed, ..record };
            let end = LogEnd { keep_below: Some(2), events: Some(events(2, 6)), is_unlisted: false };
            runtime.block_on(writing.finish_logged(record, end)).unwrap();
        });
        let policy = Arc::clone(&store.policy);
        let read = std::thread::spawn(move || {
            let mut connection = super::super::connection::reader(&path).unwrap();
            // The run ends when the state was read, and its events were not.
            let on_events = move |context: AuthContext<'_>| {
                let is_events = matches!(
                    context.action,
                    AuthAction::Read { table_name: "event_log", column_name: "bytes" }
                );
                if let Some(end) = is_events.then(|| end.take()).flatten() {
                    std::thread::spawn(end).join().unwrap();
                }
                Authorization::Allow
            };
            connection.authorizer(Some(on_events)).unwrap();
            let read =
                |from| page(&connection, &policy, (&owner, &lease.id), from, 1 << 20).unwrap().unwrap();
            let [before, after] =
                [read(5), read(5)].map(|page| (page.replaced_from, page.bytes.len(), page.next));
            assert_eq!(before, (None, 0, 5), "as it was when the read began");
            assert_eq!(after.0, Some(2));
            assert!(after.1 > 0);
        });
        tokio::task::spawn_blocking(move || read.join().unwrap()).await.unwrap();
    }
}
