//! The owner column of items: with it in front, the index of items leads to one owner's rows only, however many
//! others have items of the same id.
//!
//! It is a hash, which is small; who may see a row is still decided by its response. Rows of earlier versions have
//! none until [`backfill`] has added it.

use aws_lc_rs::digest::{SHA256, digest};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::error::database;
use super::read::text;
use crate::store::{Owner, StoreError};

/// Rows per transaction.
const BATCH_ROWS: i64 = 200;
/// A transaction ends after this many bytes of items, since each row is rewritten.
const BATCH_BYTES: i64 = 4 << 20;

/// The value of the column `owner` for this owner.
pub(super) fn key(owner: &Owner) -> i64 {
    key_of(&owner.tenant, &owner.principal)
}

fn key_of(tenant: &str, principal: &str) -> i64 {
    let text = format!("{tenant}\u{1f}{principal}");
    let hash = digest(&SHA256, text.as_bytes());
    hash.as_ref().first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// The value of the column `owner` for items of the response of this key; `None` if there is no such row.
pub(super) fn key_of_response(connection: &Connection, response: i64) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT tenant, principal FROM responses WHERE key = ?1")?
        .query_row([response], |row| Ok(key_of(text(row, 0)?, text(row, 1)?)))
        .optional()
}

const SELECT_WITHOUT_OWNER: &str =
    "SELECT i.response, i.position, octet_length(i.wire) + coalesce(octet_length(i.state), 0)
    FROM items i WHERE i.owner IS NULL LIMIT ?1";

/// Transactions per round of maintenance: its other tasks, such as renewing leases, must not wait for long.
pub(super) const MAX_BATCHES: usize = 50;

/// Adds the owner to rows of earlier versions. Returns whether there may be more.
pub(super) fn backfill(connection: &mut Connection) -> Result<bool, StoreError> {
    let any = "SELECT EXISTS (SELECT 1 FROM items WHERE owner IS NULL)";
    if !connection.query_row(any, [], |row| row.get(0)).map_err(database)? {
        return Ok(false);
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    backfill_batch(&transaction).map_err(database)?;
    transaction.commit().map_err(database)?;
    Ok(true)
}

fn backfill_batch(connection: &Connection) -> rusqlite::Result<()> {
    let rows: Vec<(i64, i64, i64)> = connection
        .prepare_cached(SELECT_WITHOUT_OWNER)?
        .query_map([BATCH_ROWS], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut update =
        connection.prepare_cached("UPDATE items SET owner = ?1 WHERE response = ?2 AND position = ?3")?;
    let mut bytes: i64 = 0;
    for (response, position, size) in rows {
        // A row without a response has no owner: no owner's key is 0, but by a chance of one in 2^64.
        let owner = key_of_response(connection, response)?.unwrap_or(0);
        update.execute(params![owner, response, position])?;
        bytes = bytes.saturating_add(size);
        if bytes >= BATCH_BYTES {
            break;
        }
    }
    Ok(())
}
