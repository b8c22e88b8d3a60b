//! What belongs to a run that its client may come back for: its idempotency key, and the rows of its log.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::event_log_sweep;
use super::session::{Param, Session};
use super::values::number;
use antwort_store::{LoggedEvents, StoreError};

/// A log that is there is one of a write that is repeated.
const BEGIN: &str = "INSERT INTO event_logs (response, owner) VALUES ($1, $2) ON CONFLICT DO NOTHING";
/// A row that is there is one of a write that is repeated.
const INSERT: &str =
    "INSERT INTO event_log (response, owner, first, last, is_end, bytes) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (response, owner, first) DO UPDATE
        SET last = excluded.last, is_end = excluded.is_end, bytes = excluded.bytes";
const DELETE_KEYS: &str = "DELETE FROM idempotency_keys k
    USING unnest($1::uuid[], $2::bigint[]) AS g (response, owner)
    WHERE k.response = g.response AND k.owner = g.owner";
const DELETE_LOGS: &str = "DELETE FROM event_logs l
    USING unnest($1::uuid[], $2::bigint[]) AS g (response, owner)
    WHERE l.response = g.response AND l.owner = g.owner";

/// Begins the log of a response with its first events.
pub(super) async fn begin_log(
    session: Session<'_>,
    (response, owner): (Uuid, i64),
    events: &LoggedEvents,
) -> Result<(), StoreError> {
    session.execute(BEGIN, &[(&response, Type::UUID), (&owner, Type::INT8)]).await?;
    insert_events(session, (response, owner), events, false).await
}

/// Adds a row to the log of a response.
pub(super) async fn insert_events(
    session: Session<'_>,
    (response, owner): (Uuid, i64),
    events: &LoggedEvents,
    is_end: bool,
) -> Result<(), StoreError> {
    let (first, last) = (number(events.first), number(events.last));
    let parameters: [Param<'_>; 6] = [
        (&response, Type::UUID),
        (&owner, Type::INT8),
        (&first, Type::INT8),
        (&last, Type::INT8),
        (&is_end, Type::BOOL),
        (&events.bytes, Type::BYTEA),
    ];
    session.execute(INSERT, &parameters).await.map(drop)
}

/// Deletes the keys of responses, and their logs. What is large of the logs goes later.
pub(super) async fn remove(
    session: Session<'_>,
    responses: &[Uuid],
    owners: &[i64],
) -> Result<(), StoreError> {
    remove_keys(session, responses, owners).await?;
    let parameters: [Param<'_>; 2] = [(&responses, Type::UUID_ARRAY), (&owners, Type::INT8_ARRAY)];
    if session.execute(DELETE_LOGS, &parameters).await? > 0 {
        event_log_sweep::delete_beginnings(session, responses, owners).await?;
    }
    Ok(())
}

/// Deletes the keys of responses.
pub(super) async fn remove_keys(
    session: Session<'_>,
    responses: &[Uuid],
    owners: &[i64],
) -> Result<(), StoreError> {
    let parameters: [Param<'_>; 2] = [(&responses, Type::UUID_ARRAY), (&owners, Type::INT8_ARRAY)];
    session.execute(DELETE_KEYS, &parameters).await.map(drop)
}
