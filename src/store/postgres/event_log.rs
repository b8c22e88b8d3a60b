//! The log of a run's events: appended to while the run goes on, ended with its response, read from any event on.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::keys::ResponseKey;
use super::running::{self, RunningRow};
use super::session::{Param, Session};
use super::values::{get, number, unsigned};
use super::{event_log_sweep, keyed_rows, lifecycle};
use crate::protocol::id::Id;
use crate::store::in_flight::InFlightRows;
use crate::store::operation::WriteOutcome;
use crate::store::row_policy::{RowPolicy, now};
use crate::store::{Lease, LogEnd, LogExtent, LogPage, LoggedEvents, ResponseRecord, StoreError};

/// Rows that one query reads.
const PAGE_ROWS: i64 = 1_024;

/// Appends events to the log of a running response.
pub(super) async fn append(
    session: Session<'_>,
    policy: &RowPolicy,
    lease: &Lease,
    events: &LoggedEvents,
) -> Result<WriteOutcome, StoreError> {
    match running::find(session, policy, lease).await? {
        Some((key, RunningRow::Held)) => {
            keyed_rows::insert_events(session, key, events, false).await?;
            Ok(WriteOutcome::Changed)
        }
        Some((_, RunningRow::Superseded)) => Ok(WriteOutcome::Superseded),
        Some((_, RunningRow::Deleted)) | None => Ok(WriteOutcome::Absent),
    }
}

const CUT: &str = "DELETE FROM event_log WHERE response = $1 AND owner = $2 AND last >= $3";

/// Ends a response and its log.
pub(super) async fn finish(
    session: Session<'_>,
    policy: &RowPolicy,
    in_flight: &mut InFlightRows,
    record: &ResponseRecord,
    end: &LogEnd,
) -> Result<WriteOutcome, StoreError> {
    if let Some((key, RunningRow::Held)) = running::find(session, policy, &record.lease).await? {
        cut(session, key, end.keep_below).await?;
        if let Some(events) = &end.events {
            keyed_rows::insert_events(session, key, events, true).await?;
        }
    }
    lifecycle::finish(session, policy, in_flight, record).await
}

/// Removes events from this number on from a log.
async fn cut(
    session: Session<'_>,
    (response, owner): (Uuid, i64),
    keep_below: Option<u64>,
) -> Result<(), StoreError> {
    match keep_below {
        None => Ok(()),
        Some(0) => event_log_sweep::delete_beginnings(session, &[response], &[owner]).await.map(drop),
        Some(keep_below) => {
            let parameters: [Param<'_>; 3] =
                [(&response, Type::UUID), (&owner, Type::INT8), (&number(keep_below), Type::INT8)];
            session.execute(CUT, &parameters).await.map(drop)
        }
    }
}

/// All as of one moment: of a run that has ended, the log is whole. Texts of rows that would not fit are not read.
const PAGE: &str = "SELECT EXISTS (SELECT 1 FROM runs r WHERE r.response = s.key AND r.owner = s.owner),
        e.first, e.last, e.is_end, e.size, CASE WHEN e.total <= $5 THEN e.bytes END
    FROM responses s LEFT JOIN LATERAL (
        SELECT l.first, l.last, l.is_end, l.bytes, octet_length(l.bytes) AS size,
            sum(octet_length(l.bytes)) OVER (ORDER BY l.first) AS total
        FROM (SELECT * FROM event_log f WHERE f.response = s.key AND f.owner = s.owner AND f.first >= $4
            ORDER BY f.first LIMIT $6) l) e ON true
    WHERE s.key = $1 AND s.owner = $2 AND (s.expires_at IS NULL OR s.expires_at > $3)
    ORDER BY e.first";

/// Events from this number on, which is the first one of a row.
pub(super) async fn page(
    session: Session<'_>,
    owner: i64,
    id: &Id,
    from: u64,
    max_bytes: u64,
) -> Result<Option<LogPage>, StoreError> {
    let key = ResponseKey::of(id.as_str()).uuid;
    let parameters: [Param<'_>; 6] = [
        (&key, Type::UUID),
        (&owner, Type::INT8),
        (&now(), Type::INT8),
        (&number(from), Type::INT8),
        (&number(max_bytes), Type::INT8),
        (&PAGE_ROWS, Type::INT8),
    ];
    let rows = session.query(PAGE, &parameters).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let is_running = get(row, 0)?;
    let mut page = LogPage { bytes: Vec::new(), next: from, is_end: false, is_running };
    for row in &rows {
        let Some(first) = get::<Option<i64>>(row, 1)? else { break };
        if unsigned(first) != page.next {
            // Events before it could not be written.
            break;
        }
        let Some(bytes) = get::<Option<&[u8]>>(row, 5)? else {
            if page.bytes.is_empty() {
                return Err(StoreError::TooLarge { bytes: get::<i32>(row, 4)?.unsigned_abs().into() });
            }
            return Ok(Some(page));
        };
        page.bytes.extend_from_slice(bytes);
        page.next = unsigned(get(row, 2)?).saturating_add(1);
        page.is_end = get(row, 3)?;
    }
    Ok((is_running || !page.bytes.is_empty()).then_some(page))
}

const EXTENT: &str = "SELECT (SELECT e.last FROM event_log e WHERE e.response = s.key AND e.owner = s.owner
            ORDER BY e.first LIMIT 1),
        (SELECT e.last FROM event_log e WHERE e.response = s.key AND e.owner = s.owner
            ORDER BY e.first DESC LIMIT 1)
    FROM responses s
    WHERE s.key = $1 AND s.owner = $2 AND (s.expires_at IS NULL OR s.expires_at > $3)";

/// How far a log goes.
pub(super) async fn extent(
    session: Session<'_>,
    owner: i64,
    id: &Id,
) -> Result<Option<LogExtent>, StoreError> {
    let key = ResponseKey::of(id.as_str()).uuid;
    let parameters: [Param<'_>; 3] = [(&key, Type::UUID), (&owner, Type::INT8), (&now(), Type::INT8)];
    let Some(row) = session.query_opt(EXTENT, &parameters).await? else { return Ok(None) };
    let behind = |index| Ok(get::<Option<i64>>(&row, index)?.map(|last| unsigned(last).saturating_add(1)));
    let (begun, next): (Option<u64>, Option<u64>) = (behind(0)?, behind(1)?);
    Ok(begun.zip(next).map(|(begun, next)| LogExtent { begun, next }))
}
