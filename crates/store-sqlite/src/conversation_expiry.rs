//! Deletes conversations with their items, in steps that other writes run between.
//!
//! The one that was used longest ago comes first. A conversation that is deleted is marked in the first step, and its row
//! goes with its last items.

use rusqlite::{Connection, Row, TransactionBehavior, params};

use super::conversation_items::{end, key};
use super::conversations::{self, DELETED};
use super::error::database;
use super::space::{BATCH_BYTES, used_bytes};
use antwort_store::conversations::ConversationLocks;
use antwort_store::retention::TenantRetentions;
use antwort_store::row_policy::now;
use antwort_store::{Owner, StoreError};

/// Items that a step deletes.
pub(super) const STEP_ITEMS: usize = 200;

/// Conversations that a step looks at.
const LOOK_ROWS: usize = 200;
/// Conversations that a round passes.
const ROUND_ROWS: usize = 2_000;

const USED: &str =
    "SELECT c.key, c.used_at, c.id, o.tenant, o.principal FROM conversations c CROSS JOIN owners o ON o.key = c.owner
    WHERE (c.used_at, c.key) > (?1, ?2) AND c.used_at <= ?3 ORDER BY c.used_at, c.key LIMIT ?4";
const LEAST_USED: &str =
    "SELECT c.key, c.used_at, c.id, o.tenant, o.principal FROM conversations c CROSS JOIN owners o ON o.key = c.owner
    ORDER BY c.used_at LIMIT ?1";
const ITEMS: &str = "SELECT key FROM conversation_items WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3";

/// The conversation that was used longest ago, and when that was; none in which a run goes on.
pub(super) fn least_used(
    connection: &Connection,
    locks: &ConversationLocks,
) -> Result<Option<(i64, i64)>, StoreError> {
    let mut statement = connection.prepare_cached(LEAST_USED).map_err(database)?;
    let found = statement.query_map([LOOK_ROWS as i64], Used::read).map_err(database)?;
    for used in found {
        let used = used.map_err(database)?;
        if !locks.is_locked(&used.owner, &used.id) {
            return Ok(Some((used.key, used.used_at)));
        }
    }
    Ok(None)
}

/// One step of deleting expired conversations. Those that live on, as their tenants keep them for longer, are passed, and
/// looked at again by the next walk. Returns whether there may be more to do in this round.
pub(super) fn step(
    connection: &mut Connection,
    retentions: &TenantRetentions,
    locks: &ConversationLocks,
    walk: &mut ConversationWalk,
) -> Result<bool, StoreError> {
    let now = now();
    let found = walk.look(connection, retentions.newest_expired_use(now))?;
    let is_expired = |used: &Used| {
        used.used_at == DELETED
            || used.used_at <= retentions.of(&used.owner.tenant).oldest_use(now)
                // Its turn is appended at its end.
                && !locks.is_locked(&used.owner, &used.id)
    };
    let handled = delete_all(connection, found.iter().filter(|used| is_expired(used)))?;
    walk.left = walk.left.saturating_sub(handled.max(1));
    if handled == 0 {
        walk.position =
            found.last().filter(|_| found.len() == LOOK_ROWS).map(|last| (last.used_at, last.key));
        walk.left = walk.left.saturating_sub(found.len());
        return Ok(walk.position.is_some() && walk.left > 0);
    }
    Ok(walk.left > 0)
}

/// Deletes these conversations until it is enough for one transaction. Returns how many were handled.
fn delete_all<'a>(
    connection: &mut Connection,
    expired: impl Iterator<Item = &'a Used>,
) -> Result<usize, StoreError> {
    let mut expired = expired.peekable();
    if expired.peek().is_none() {
        return Ok(0);
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    let enough = used_bytes(&transaction).map_err(database)?.saturating_sub(BATCH_BYTES);
    let mut handled = 0;
    for used in expired {
        handled += 1;
        let is_done = delete_part(&transaction, used.key).map_err(database)?;
        if !is_done || used_bytes(&transaction).map_err(database)? <= enough {
            break;
        }
    }
    transaction.commit().map_err(database)?;
    Ok(handled)
}

/// A walk over the conversations that no tenant has used for some time.
#[derive(Debug, Default)]
pub(super) struct ConversationWalk {
    /// The last use and the key of the last one that was passed.
    position: Option<(i64, i64)>,
    /// Rows that may still be passed in this round.
    left: usize,
}

/// A conversation, as the walk comes to it.
struct Used {
    key: i64,
    used_at: i64,
    id: String,
    owner: Owner,
}

impl Used {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let owner =
            Owner { tenant: row.get::<_, String>(3)?.into(), principal: row.get::<_, String>(4)?.into() };
        Ok(Self { key: row.get(0)?, used_at: row.get(1)?, id: row.get(2)?, owner })
    }
}

impl ConversationWalk {
    pub(super) fn begin_round(&mut self) {
        self.left = ROUND_ROWS;
    }

    fn look(&self, connection: &Connection, newest: i64) -> Result<Vec<Used>, StoreError> {
        let (used_at, key) = self.position.unwrap_or((DELETED, 0));
        let mut statement = connection.prepare_cached(USED).map_err(database)?;
        let parameters = params![used_at, key, newest, LOOK_ROWS as i64];
        let rows = statement.query_map(parameters, Used::read).map_err(database)?;
        rows.collect::<Result<_, _>>().map_err(database)
    }
}

/// One step of deleting a conversation. Returns whether there is more of it.
pub(super) fn delete(connection: &mut Connection, conversation: i64) -> Result<bool, StoreError> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    let is_done = delete_part(&transaction, conversation).map_err(database)?;
    transaction.commit().map_err(database)?;
    Ok(!is_done)
}

/// Deletes as much of a conversation as is enough for one transaction. Returns whether nothing is left of it.
pub(super) fn delete_part(connection: &Connection, conversation: i64) -> rusqlite::Result<bool> {
    conversations::mark_deleted(connection, conversation)?;
    let is_done = delete_items(connection, conversation)?;
    if is_done {
        connection.prepare_cached("DELETE FROM conversations WHERE key = ?1")?.execute([conversation])?;
    }
    Ok(is_done)
}

/// Deletes items until it is enough for one transaction. Returns whether none is left.
fn delete_items(connection: &Connection, conversation: i64) -> rusqlite::Result<bool> {
    let target = used_bytes(connection)?.saturating_sub(BATCH_BYTES);
    let mut statement = connection.prepare_cached(ITEMS)?;
    let keys = statement
        .query_map(params![key(conversation, 0), end(conversation), STEP_ITEMS as i64], |row| {
            row.get::<_, i64>(0)
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut delete = connection.prepare_cached("DELETE FROM conversation_items WHERE key = ?1")?;
    for key in &keys {
        delete.execute([key])?;
        if used_bytes(connection)? <= target {
            return Ok(false);
        }
    }
    Ok(keys.len() < STEP_ITEMS)
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn the_conversation_to_delete_and_its_items_are_found_by_indexes() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        assert_eq!(
            schema::plan(&connection, LEAST_USED),
            ["SCAN c USING INDEX conversations_by_use", "SEARCH o USING INTEGER PRIMARY KEY (rowid=?)"]
        );
        let plan = schema::plan(&connection, USED);
        assert!(plan[0].starts_with("SEARCH c USING INDEX conversations_by_use"), "{plan:?}");
        assert!(plan.iter().all(|step| !step.contains("SCAN") && !step.contains("ORDER BY")), "{plan:?}");
        let range = "SEARCH conversation_items USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)";
        assert_eq!(schema::plan(&connection, ITEMS), [range]);
    }
}
