//! The log of a run's events: appended to while the run goes on, ended with its response, read from any event on.

use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::clock::db_now;
use super::conversation_locks::HeldLocks;
use super::event_log_sweep::{self, is_log_kept};
use super::keys::ResponseKey;
use super::running::{self, RunningRow};
use super::session::{Param, Session};
use super::values::{get, number, unsigned};
use super::{lifecycle, logged_rows};
use antwort_protocol::id::Id;
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{
    Lease, LogEnd, LogExtent, LogKept, LogPage, LogState, LoggedEvents, ResponseRecord, StoreError,
};

/// Rows that one query looks at. Each has the events of some time, so that as many fill a piece of what is sent.
const PAGE_ROWS: i64 = 256;

/// Appends events to the log of a running response.
pub(super) async fn append(
    session: Session<'_>,
    policy: &RowPolicy,
    lease: &Lease,
    events: &LoggedEvents,
) -> Result<WriteOutcome, StoreError> {
    match running::find(session, policy, lease).await? {
        Some((key, RunningRow::Held)) => {
            logged_rows::insert_events(session, key, events, false).await?;
            Ok(WriteOutcome::Changed)
        }
        Some((_, RunningRow::Superseded)) => Ok(WriteOutcome::Superseded),
        Some((_, RunningRow::Deleted)) | None => Ok(WriteOutcome::Absent),
    }
}

/// Ends a response and its log.
pub(super) async fn finish(
    session: Session<'_>,
    policy: &RowPolicy,
    locks: &HeldLocks,
    in_flight: &mut InFlightRows,
    record: &ResponseRecord,
    end: &LogEnd,
) -> Result<WriteOutcome, StoreError> {
    let held = match running::find(session, policy, &record.lease).await? {
        Some((key, RunningRow::Held)) => Some(key),
        _ => None,
    };
    if let Some(key) = held {
        end_log(session, policy, key, end).await?;
    }
    let finished = lifecycle::finish(session, policy, locks, in_flight, record).await?;
    if let Some((response, owner)) = held.filter(|_| end.is_unlisted) {
        let until = now().saturating_add(policy.event_ttl);
        let parameters: [Param<'_>; 3] =
            [(&response, Type::UUID), (&owner, Type::INT8), (&until, Type::INT8)];
        session.execute(KEEP_FOR, &parameters).await?;
    }
    Ok(finished)
}

// As long as its key, which must not lead to another response.
const KEEP_FOR: &str = "UPDATE responses s
    SET expires_at = least(s.expires_at, k.until), lineage_until = least(s.lineage_until, k.until), unlisted = true
    FROM (SELECT greatest($3, max(expires_at)) AS until FROM idempotency_keys WHERE response = $1 AND owner = $2) k
    WHERE s.key = $1 AND s.owner = $2";

const CUT: &str = "DELETE FROM event_log WHERE response = $1 AND owner = $2 AND last >= $3";
const END: &str = "UPDATE event_logs SET expires_at = $3, replaced_from = coalesce($4, replaced_from)
    WHERE response = $1 AND owner = $2";

async fn end_log(
    session: Session<'_>,
    policy: &RowPolicy,
    (response, owner): (Uuid, i64),
    end: &LogEnd,
) -> Result<(), StoreError> {
    let (mut replaced_from, mut expires_at) = (None, now().saturating_add(policy.event_ttl));
    if end.keep_below == Some(0) {
        event_log_sweep::delete_beginnings(session, &[response], &[owner]).await?;
        expires_at = 0;
    } else if let Some(keep_below) = end.keep_below.map(number) {
        let parameters: [Param<'_>; 3] =
            [(&response, Type::UUID), (&owner, Type::INT8), (&keep_below, Type::INT8)];
        let cut = session.execute(CUT, &parameters).await?;
        replaced_from = Some(keep_below).filter(|_| cut > 0);
    }
    if let Some(events) = &end.events {
        logged_rows::insert_events(session, (response, owner), events, true).await?;
    }
    let parameters: [Param<'_>; 4] = [
        (&response, Type::UUID),
        (&owner, Type::INT8),
        (&expires_at, Type::INT8),
        (&replaced_from, Type::INT8),
    ];
    session.execute(END, &parameters).await.map(drop)
}

/// What is known of the log of the response with this key and owner without its events: whether the run goes on, whether
/// nobody makes it, whether the instance $4 does, whether the log is kept (null: there never was one), from where on its
/// events are others. A log is kept while its run goes on, for some time after that, and with its key. If nobody makes a
/// run, what was logged last may be replaced; a background run goes on from what was logged.
macro_rules! log_columns {
    () => {
        concat!(
            "r.response IS NOT NULL,
            coalesce((r.lease_until < ",
            db_now!(),
            " OR r.orphan IS NOT NULL) AND r.attempt IS NULL, false),
            coalesce(r.instance = $4, false),
            CASE WHEN l.response IS NOT NULL THEN ",
            is_log_kept!(),
            " END,
            l.replaced_from"
        )
    };
}

/// Where those columns are from.
macro_rules! log_from {
    () => {
        "responses s
            LEFT JOIN runs r ON r.response = s.key AND r.owner = s.owner
            LEFT JOIN event_logs l ON l.response = s.key AND l.owner = s.owner"
    };
}

/// A row of these.
struct Log {
    is_running: bool,
    is_orphaned: bool,
    is_own: bool,
    is_kept: Option<bool>,
    replaced_from: Option<u64>,
}

impl Log {
    fn read(row: &Row) -> Result<Self, StoreError> {
        let replaced_from = get::<Option<i64>>(row, 4)?.map(unsigned);
        let (is_running, is_orphaned, is_own) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
        Ok(Self { is_running, is_orphaned, is_own, is_kept: get(row, 3)?, replaced_from })
    }
}

/// All as of one moment: of a run that has ended, the log is whole. From the row with the event that is asked for on; an
/// event of a later row if that is missing. Of the rows that would not fit only the first is returned, without its text: a
/// long log is read in many pages, each of which would return all that is left of it.
const PAGE: &str = concat!(
    "SELECT ",
    log_columns!(),
    ", e.first, e.last, e.is_end, e.size, CASE WHEN e.total <= $6 THEN e.bytes END
    FROM ",
    log_from!(),
    " LEFT JOIN LATERAL (
        SELECT f.first, f.last, f.is_end, f.bytes, octet_length(f.bytes) AS size,
            sum(octet_length(f.bytes)) OVER (ORDER BY f.first) AS total
        FROM (SELECT * FROM event_log g WHERE g.response = s.key AND g.owner = s.owner AND g.last >= $5
                AND g.first >= coalesce((SELECT max(b.first) FROM event_log b
                    WHERE b.response = s.key AND b.owner = s.owner AND b.first <= $5), $5)
            ORDER BY g.first LIMIT $7) f) e ON e.total - e.size <= $6
    WHERE s.key = $1 AND s.owner = $2 AND (s.expires_at IS NULL OR s.expires_at > $3)
    ORDER BY e.first"
);

/// Events from this number on, with those that stand in one row with it.
pub(super) async fn page(
    session: Session<'_>,
    policy: &RowPolicy,
    (owner, id): (i64, &Id),
    from: u64,
    max_bytes: u64,
) -> Result<Option<LogPage>, StoreError> {
    let key = ResponseKey::of(id.as_str()).uuid;
    let parameters: [Param<'_>; 7] = [
        (&key, Type::UUID),
        (&owner, Type::INT8),
        (&now(), Type::INT8),
        (&policy.instance.as_str(), Type::TEXT),
        (&number(from), Type::INT8),
        (&number(max_bytes), Type::INT8),
        (&PAGE_ROWS, Type::INT8),
    ];
    let rows = session.query(PAGE, &parameters).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let Log { is_running, is_orphaned, is_own, is_kept, replaced_from } = Log::read(row)?;
    if is_kept != Some(true) {
        return Ok(None);
    }
    let (bytes, is_end) = (Vec::new(), false);
    let mut page = LogPage { first: from, bytes, next: from, is_end, is_running, is_own, replaced_from };
    if is_orphaned {
        return Ok(Some(page));
    }
    for row in &rows {
        let Some(first) = get::<Option<i64>>(row, 5)?.map(unsigned) else { break };
        let is_first = page.bytes.is_empty();
        if first > page.next || !is_first && first < page.next {
            // Events before it could not be written.
            break;
        }
        let Some(bytes) = get::<Option<&[u8]>>(row, 9)? else {
            if is_first {
                return Err(StoreError::TooLarge { bytes: get::<i32>(row, 8)?.unsigned_abs().into() });
            }
            return Ok(Some(page));
        };
        if is_first {
            page.first = first;
        }
        page.bytes.extend_from_slice(bytes);
        page.next = unsigned(get(row, 6)?).saturating_add(1);
        page.is_end = get(row, 7)?;
    }
    Ok((is_running || !page.bytes.is_empty()).then_some(page))
}

const STATE: &str = concat!(
    "SELECT ",
    log_columns!(),
    ", (SELECT e.last FROM event_log e WHERE e.response = s.key AND e.owner = s.owner AND e.first = 0),
        (SELECT e.last FROM event_log e WHERE e.response = s.key AND e.owner = s.owner
            ORDER BY e.first DESC LIMIT 1)
    FROM ",
    log_from!(),
    " WHERE s.key = $1 AND s.owner = $2 AND (s.expires_at IS NULL OR s.expires_at > $3)"
);

/// Whether a log is kept, and how far it goes.
pub(super) async fn state(
    session: Session<'_>,
    policy: &RowPolicy,
    owner: i64,
    id: &Id,
) -> Result<Option<LogState>, StoreError> {
    let key = ResponseKey::of(id.as_str()).uuid;
    let parameters: [Param<'_>; 4] = [
        (&key, Type::UUID),
        (&owner, Type::INT8),
        (&now(), Type::INT8),
        (&policy.instance.as_str(), Type::TEXT),
    ];
    let Some(row) = session.query_opt(STATE, &parameters).await? else { return Ok(None) };
    let Log { is_running, is_kept, replaced_from, .. } = Log::read(&row)?;
    let behind = |index| Ok(get::<Option<i64>>(&row, index)?.map(|last| unsigned(last).saturating_add(1)));
    let (begun, next): (Option<u64>, Option<u64>) = (behind(5)?, behind(6)?);
    let extent = begun.zip(next).map(|(begun, next)| LogExtent { begun, next, replaced_from });
    let log = match is_kept {
        None => LogKept::Never,
        Some(false) => LogKept::Gone,
        Some(true) => extent.map_or(LogKept::Gone, LogKept::Kept),
    };
    Ok(Some(LogState { is_running, log }))
}

/// The state of a running response.
pub(super) async fn run_state(
    session: Session<'_>,
    owner: i64,
    id: &Id,
) -> Result<Option<Arc<[u8]>>, StoreError> {
    let key = ResponseKey::of(id.as_str()).uuid;
    let parameters: [Param<'_>; 2] = [(&key, Type::UUID), (&owner, Type::INT8)];
    let sql = "SELECT state FROM runs WHERE response = $1 AND owner = $2";
    let Some(row) = session.query_opt(sql, &parameters).await? else { return Ok(None) };
    Ok(get::<Option<&[u8]>>(&row, 0)?.map(Arc::from))
}
