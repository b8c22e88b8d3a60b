//! Erases the rows of a tenant or an owner, in steps between which other writes are committed.

use rusqlite::{Connection, OptionalExtension, params};

use super::space::{BATCH_BYTES, used_bytes};
use super::{approvals, conversation_expiry, deleted_keys, keys, outbox, rows};
use antwort_store::operation::{EraseRequest, WriteOutcome};
use antwort_store::{ErasedCounts, ErasureTarget};

/// Responses that one step deletes at most.
const STEP_ROWS: i64 = 200;

/// The owners whose rows are erased.
const OWNERS: &str = "SELECT key FROM owners WHERE tenant = ?1 AND (?2 IS NULL OR principal = ?2)";

/// Responses of an owner, and whether they run. One that was deleted while it runs keeps an empty row until its end.
const ROWS: &str = "SELECT s.key, r.response IS NOT NULL
    FROM responses s LEFT JOIN runs r ON r.response = s.key
    WHERE s.owner = ?1 AND s.key < ?2 AND (r.response IS NULL OR s.expires_at IS NULL) ORDER BY s.key LIMIT ?3";

const CONVERSATION: &str = "SELECT key FROM conversations WHERE owner = ?1 AND created_at <= ?2 LIMIT 1";

/// One step. Returns how much was deleted, and whether there may be more.
pub(super) fn step(connection: &Connection, request: &EraseRequest) -> rusqlite::Result<WriteOutcome> {
    let mut counts = ErasedCounts::default();
    let enough = used_bytes(connection)?.saturating_sub(BATCH_BYTES);
    for owner in owners(connection, &request.target)? {
        for (key, is_running) in responses(connection, owner, keys::before(request))? {
            match is_running {
                true => rows::remove_running(connection, key)?,
                false => rows::remove(connection, key)?,
            }
            counts.responses += 1;
            if counts.responses >= STEP_ROWS as u64 || used_bytes(connection)? <= enough {
                return Ok(WriteOutcome::Erased { counts, more: true });
            }
        }
        while let Some(conversation) = conversation(connection, owner, request.at)? {
            let is_done = conversation_expiry::delete_part(connection, conversation)?;
            counts.conversations += u64::from(is_done);
            if !is_done || counts.conversations >= STEP_ROWS as u64 || used_bytes(connection)? <= enough {
                return Ok(WriteOutcome::Erased { counts, more: true });
            }
        }
        outbox::delete_of(connection, owner)?;
        if deleted_keys::delete_of(connection, owner, STEP_ROWS)? {
            return Ok(WriteOutcome::Erased { counts, more: true });
        }
        // Those of responses without a row.
        if approvals::delete_before(connection, owner, keys::before(request), STEP_ROWS as usize)? {
            return Ok(WriteOutcome::Erased { counts, more: true });
        }
    }
    Ok(WriteOutcome::Erased { counts, more: false })
}

fn owners(connection: &Connection, target: &ErasureTarget) -> rusqlite::Result<Vec<i64>> {
    let mut statement = connection.prepare_cached(OWNERS)?;
    let keys =
        statement.query_map(params![&*target.tenant, target.principal.as_deref()], |row| row.get(0))?;
    keys.collect()
}

fn responses(connection: &Connection, owner: i64, before: i64) -> rusqlite::Result<Vec<(i64, bool)>> {
    let mut statement = connection.prepare_cached(ROWS)?;
    let rows =
        statement.query_map(params![owner, before, STEP_ROWS], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// A conversation of an owner.
fn conversation(connection: &Connection, owner: i64, at: i64) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached(CONVERSATION)?
        .query_row([owner, at.div_euclid(1000)], |row| row.get(0))
        .optional()
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn rows_to_erase_are_found_by_their_owner() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        assert_eq!(
            schema::plan(&connection, OWNERS),
            ["SEARCH owners USING COVERING INDEX sqlite_autoindex_owners_1 (tenant=?)"]
        );
        assert_eq!(
            schema::plan(&connection, CONVERSATION),
            ["SEARCH conversations USING INDEX conversations_by_owner (owner=?)"]
        );
        assert_eq!(
            schema::plan(&connection, ROWS),
            [
                "SEARCH s USING INDEX responses_by_owner (owner=? AND key<?)",
                "SEARCH r USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"
            ]
        );
    }
}
