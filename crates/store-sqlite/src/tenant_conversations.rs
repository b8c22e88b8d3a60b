//! Conversations of a tenant whose size is bounded: their bytes, and those that go first.

use rusqlite::{Connection, Row, params};

use super::conversation_items::{end, key};
use antwort_store::Owner;
use antwort_store::conversations::ConversationLocks;

/// Conversations of an owner that a step chooses from, the oldest ones.
const CANDIDATES: i64 = 200;

const NEXT: &str = "SELECT min(key) FROM conversations WHERE owner = ?1 AND key > ?2";
const ITEMS: &str =
    "SELECT key, octet_length(wire) + ifnull(octet_length(model_view), 0) + ifnull(octet_length(state), 0)
    FROM conversation_items WHERE key > ?1 AND key < ?2 ORDER BY key LIMIT ?3";
const OLDEST: &str = "SELECT c.key, c.used_at, c.id, o.tenant, o.principal
    FROM conversations c CROSS JOIN owners o ON o.key = c.owner WHERE c.owner = ?1 ORDER BY c.key LIMIT ?2";

/// The conversation of an owner behind this one.
pub(super) fn next(connection: &Connection, owner: i64, after: i64) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached(NEXT)?.query_row([owner, after], |row| row.get(0))
}

/// Items of a conversation behind this key, at most so many: the last one's key, how many they are, and their bytes.
pub(super) fn measure(
    connection: &Connection,
    conversation: i64,
    after: i64,
    limit: usize,
) -> rusqlite::Result<(i64, usize, u64)> {
    let (mut last, mut count, mut bytes) = (after, 0, 0_u64);
    let mut statement = connection.prepare_cached(ITEMS)?;
    let mut rows = statement.query(params![after, end(conversation), limit as i64])?;
    while let Some(row) = rows.next()? {
        last = row.get(0)?;
        count += 1;
        bytes = bytes.saturating_add(u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0));
    }
    Ok((last, count, bytes))
}

/// The key before those of a conversation's items.
pub(super) fn before_items(conversation: i64) -> i64 {
    key(conversation, 0) - 1
}

/// The last uses (Unix milliseconds) and the keys of an owner's oldest conversations, of those in which no run goes on.
pub(super) fn oldest(
    connection: &Connection,
    owner: i64,
    locks: &ConversationLocks,
) -> rusqlite::Result<Vec<(i64, i64)>> {
    let read = |row: &Row<'_>| {
        let of =
            Owner { tenant: row.get::<_, String>(3)?.into(), principal: row.get::<_, String>(4)?.into() };
        let is_locked = locks.is_locked(&of, &row.get::<_, String>(2)?);
        Ok((!is_locked).then_some((row.get(1)?, row.get(0)?)))
    };
    let mut statement = connection.prepare_cached(OLDEST)?;
    let found = statement.query_map([owner, CANDIDATES], read)?;
    found.filter_map(Result::transpose).collect()
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn conversations_of_a_tenant_are_found_by_their_owners() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        for sql in [NEXT, ITEMS, OLDEST] {
            let plan = schema::plan(&connection, sql);
            assert!(plan.iter().all(|step| step.starts_with("SEARCH")), "{plan:?}");
        }
    }
}
