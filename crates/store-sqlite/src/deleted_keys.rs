//! The idempotency keys of responses that their owner has deleted, so that a request that is sent again is not made again.

use rusqlite::{Connection, params};

use antwort_store::row_policy::now;

/// A key may be there from an earlier response, if it had expired and was used again.
const KEEP: &str = "INSERT OR REPLACE INTO deleted_keys (owner, key, fingerprint, expires_at)
    SELECT owner, key, fingerprint, expires_at FROM idempotency_keys WHERE response = ?1";
const IS_KEPT: &str = "SELECT 1 FROM deleted_keys WHERE owner = ?1 AND key = ?2 AND expires_at > ?3";
const ANY_EXPIRED: &str = "SELECT 1 FROM deleted_keys WHERE expires_at <= ?1 LIMIT 1";
/// Up to the time of the last of so many: of a list of pairs only the owner would be looked up.
const DELETE_EXPIRED: &str = "DELETE FROM deleted_keys WHERE expires_at <= (SELECT max(expires_at) FROM
    (SELECT expires_at FROM deleted_keys WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2))";
const DELETE_OF: &str = "DELETE FROM deleted_keys WHERE owner = ?1 AND key IN
    (SELECT key FROM deleted_keys WHERE owner = ?1 LIMIT ?2)";

/// Keeps the key of a response that is about to be deleted.
pub(super) fn keep(connection: &Connection, response: i64) -> rusqlite::Result<()> {
    connection.prepare_cached(KEEP)?.execute([response]).map(drop)
}

/// Whether the response of this key was deleted.
pub(super) fn is_kept(connection: &Connection, owner: i64, key: &str) -> rusqlite::Result<bool> {
    connection.prepare_cached(IS_KEPT)?.exists(params![owner, key, now()])
}

/// Whether any have expired.
pub(super) fn any_expired(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached(ANY_EXPIRED)?.exists([now()])
}

/// Deletes so many expired ones, and those that expire at the same moment as the last.
pub(super) fn delete_expired(connection: &Connection, limit: i64) -> rusqlite::Result<()> {
    connection.prepare_cached(DELETE_EXPIRED)?.execute(params![now(), limit]).map(drop)
}

/// Deletes those of an owner. Returns whether there may be more.
pub(super) fn delete_of(connection: &Connection, owner: i64, limit: i64) -> rusqlite::Result<bool> {
    let deleted = connection.prepare_cached(DELETE_OF)?.execute([owner, limit])?;
    Ok(i64::try_from(deleted).is_ok_and(|deleted| deleted >= limit))
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn deleted_keys_are_found_by_their_indexes() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        for sql in [KEEP, IS_KEPT, ANY_EXPIRED, DELETE_EXPIRED, DELETE_OF] {
            let plan = schema::plan(&connection, sql);
            assert!(plan.iter().any(|step| step.starts_with("SEARCH")), "{plan:#?}");
            let is_scan = |step: &String| step.starts_with("SCAN") && !step.starts_with("SCAN (subquery");
            assert!(!plan.iter().any(is_scan), "{plan:#?}");
        }
    }
}
