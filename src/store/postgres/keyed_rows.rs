//! What belongs to a response that has an idempotency key: its key, and the rows of its log.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::event_log_sweep;
use super::session::{Param, Session};
use super::values::number;
use crate::store::{LoggedEvents, StoreError};

/// A row that is there is one of a write that is repeated.
const INSERT: &str =
    "INSERT INTO event_log (response, owner, first, last, is_end, bytes) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (response, owner, first) DO UPDATE
        SET last = excluded.last, is_end = excluded.is_end, bytes = excluded.bytes";
const DELETE_KEYS: &str = "DELETE FROM idempotency_keys k
    USING unnest($1::uuid[], $2::bigint[]) AS g (response, owner)
    WHERE k.response = g.response AND k.owner = g.owner";

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

/// Deletes the keys of responses, and the logs that are kept for them. What is large of the logs goes later.
pub(super) async fn remove(
    session: Session<'_>,
    responses: &[Uuid],
    owners: &[i64],
) -> Result<(), StoreError> {
    session.execute(DELETE_KEYS, &[(&responses, Type::UUID_ARRAY), (&owners, Type::INT8_ARRAY)]).await?;
    event_log_sweep::delete_beginnings(session, responses, owners).await.map(drop)
}
