//! The idempotency keys of responses that their owner has deleted, so that a request that is sent again is not made again.

use tokio_postgres::types::Type;

use super::removal::Place;
use super::session::Session;
use antwort_store::StoreError;
use antwort_store::row_policy::now;

/// A key may be there from an earlier response, if it had expired and was used again, or from a write that is repeated.
const KEEP: &str = "INSERT INTO deleted_keys (owner, key, fingerprint, expires_at)
    SELECT owner, key, fingerprint, expires_at FROM idempotency_keys WHERE response = $1 AND owner = $2
    ON CONFLICT (owner, key) DO UPDATE SET fingerprint = excluded.fingerprint, expires_at = excluded.expires_at";
const DELETE_EXPIRED: &str = "DELETE FROM deleted_keys WHERE (owner, key) IN
    (SELECT owner, key FROM deleted_keys WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)";
const DELETE_OF: &str = "DELETE FROM deleted_keys WHERE owner = $1 AND key IN
    (SELECT key FROM deleted_keys WHERE owner = $1 LIMIT $2)";

/// Keeps the key of a response that is about to be deleted.
pub(super) async fn keep(session: Session<'_>, (response, owner): Place) -> Result<(), StoreError> {
    session.execute(KEEP, &[(&response, Type::UUID), (&owner, Type::INT8)]).await.map(drop)
}

/// Deletes expired ones. Returns whether there may be more.
pub(super) async fn delete_expired(session: Session<'_>, limit: i64) -> Result<bool, StoreError> {
    let deleted = session.execute(DELETE_EXPIRED, &[(&now(), Type::INT8), (&limit, Type::INT8)]).await?;
    Ok(i64::try_from(deleted).is_ok_and(|deleted| deleted >= limit))
}

/// Deletes those of an owner. Returns whether there may be more.
pub(super) async fn delete_of(session: Session<'_>, owner: i64, limit: i64) -> Result<bool, StoreError> {
    let deleted = session.execute(DELETE_OF, &[(&owner, Type::INT8), (&limit, Type::INT8)]).await?;
    Ok(i64::try_from(deleted).is_ok_and(|deleted| deleted >= limit))
}
