//! Notices to webhooks: inserted with the end of their response, taken for delivery, and removed.

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::clock::{db_now, db_statement_time};
use super::session::{Param, Session};
use super::values::{get, text};
use antwort_protocol::id::Id;
use antwort_store::retention::millis;
use antwort_store::{DueNotice, OutboxNotice, StoreError};

const INSERT: &str = concat!(
    "INSERT INTO webhook_outbox (owner, due_at, webhook, event_id, body) SELECT $1, ",
    db_now!(),
    ", n.webhook, n.event_id, n.body FROM unnest($2::text[], $3::text[], $4::bytea[]) AS n (webhook, event_id, body)"
);

/// Writes the notices of a response; they are due at once.
pub(super) async fn insert(
    session: Session<'_>,
    owner: i64,
    notices: &[OutboxNotice],
) -> Result<(), StoreError> {
    if notices.is_empty() {
        return Ok(());
    }
    let webhooks: Vec<&str> = notices.iter().map(|notice| &*notice.webhook).collect();
    let events: Vec<&str> = notices.iter().map(|notice| notice.event_id.as_str()).collect();
    let bodies: Vec<&[u8]> = notices.iter().map(|notice| notice.body.as_bytes()).collect();
    let parameters: [Param<'_>; 4] = [
        (&owner, Type::INT8),
        (&webhooks, Type::TEXT_ARRAY),
        (&events, Type::TEXT_ARRAY),
        (&bodies, Type::BYTEA_ARRAY),
    ];
    session.execute(INSERT, &parameters).await.map(drop)
}

const DELETE_OF: &str = "DELETE FROM webhook_outbox WHERE owner = $1";

/// Deletes the notices of an owner.
pub(super) async fn delete_of(session: Session<'_>, owner: i64) -> Result<(), StoreError> {
    session.execute(DELETE_OF, &[(&owner, Type::INT8)]).await.map(drop)
}

/// Those that no other process takes at this moment. If the answer is lost, they are due again when their time is over.
const TAKE: &str = concat!(
    "WITH due AS MATERIALIZED (SELECT key, due_at FROM webhook_outbox WHERE due_at <= ",
    db_statement_time!(),
    " AND webhook <> ALL ($3) ORDER BY due_at, key LIMIT $1 FOR UPDATE SKIP LOCKED)
    UPDATE webhook_outbox w SET attempts = w.attempts + 1, due_at = $2 + ",
    db_statement_time!(),
    " FROM due WHERE w.key = due.key
    RETURNING w.key, w.attempts, w.webhook, w.event_id, w.body, due.due_at"
);

/// Takes notices that are due, the oldest first, but none of these webhooks.
pub(super) async fn take(
    session: Session<'_>,
    limit: usize,
    lease: Duration,
    except: &[&str],
) -> Result<Vec<DueNotice>, StoreError> {
    let (limit, lease) = (i64::try_from(limit).unwrap_or(i64::MAX), millis(lease));
    let parameters: [Param<'_>; 3] =
        [(&limit, Type::INT8), (&lease, Type::INT8), (&except, Type::TEXT_ARRAY)];
    let rows = session.query(TAKE, &parameters).await?;
    let mut taken = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    taken.sort_unstable_by_key(|(due_at, notice)| (*due_at, notice.key));
    Ok(taken.into_iter().map(|(_, notice)| notice).collect())
}

/// When a notice was due, and the notice.
fn read(row: &Row) -> Result<(i64, DueNotice), StoreError> {
    let notice = DueNotice {
        key: get(row, 0)?,
        attempt: get::<i32>(row, 1)?.unsigned_abs(),
        webhook: get(row, 2)?,
        event_id: Id::from(get::<&str>(row, 3)?),
        body: text(row, 4)?.to_owned(),
    };
    Ok((get(row, 5)?, notice))
}

const REMOVE: &str = "DELETE FROM webhook_outbox WHERE key = $1 AND attempts = $2";

/// Removes a notice, unless it was taken again since.
pub(super) async fn remove(session: Session<'_>, notice: &DueNotice) -> Result<(), StoreError> {
    let parameters: [Param<'_>; 2] = [(&notice.key, Type::INT8), (&attempts(notice), Type::INT4)];
    session.execute(REMOVE, &parameters).await.map(drop)
}

const PUT_OFF: &str = concat!(
    "UPDATE webhook_outbox SET due_at = $3 + ",
    db_statement_time!(),
    " WHERE key = $1 AND attempts = $2"
);

/// Puts a notice off, unless it was taken again since.
pub(super) async fn put_off(
    session: Session<'_>,
    notice: &DueNotice,
    after: Duration,
) -> Result<(), StoreError> {
    let parameters: [Param<'_>; 3] =
        [(&notice.key, Type::INT8), (&attempts(notice), Type::INT4), (&millis(after), Type::INT8)];
    session.execute(PUT_OFF, &parameters).await.map(drop)
}

/// The column `attempts` of a notice.
fn attempts(notice: &DueNotice) -> i32 {
    i32::try_from(notice.attempt).unwrap_or(i32::MAX)
}
