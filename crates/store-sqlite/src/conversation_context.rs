//! What the model sees of a conversation: the newest summary and all behind it, and what the summary leaves of the items
//! before it.
//!
//! It is measured by the lengths of the columns before a text is read. Items that a summary hides are not looked at.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::conversation_items::{self, INSTRUCTIONS, USER};
use super::conversations;
use super::error::database;
use super::owners;
use super::read::{item, text};
use antwort_protocol::item::Item;
use antwort_store::size::Size;
use antwort_store::{ConversationContext, Owner, RETAINED_TOKENS, ReadLimit, StoreError};

/// The items that the model sees, by their keys.
pub(super) struct VisibleItems {
    /// Messages before the summary.
    retained: Vec<i64>,
    /// From the first to before the last.
    range: (i64, i64),
}

const RETAINED: &str = "SELECT key, tokens, octet_length(wire), octet_length(model_view), octet_length(state)
    FROM conversation_items WHERE conversation = ?1 AND context = ?2 AND key < ?3 ORDER BY key DESC";
const LENGTHS: &str = "SELECT octet_length(wire), octet_length(model_view), octet_length(state)
    FROM conversation_items WHERE key >= ?1 AND key < ?2";
const TEXTS: &str = "SELECT CASE WHEN model_view IS NULL THEN wire ELSE model_view END, state
    FROM conversation_items WHERE key >= ?1 AND key < ?2 ORDER BY key";
const READ_BY: &str = "SELECT first, until FROM response_conversations WHERE response = ?1";

/// What the model sees of a conversation now.
pub(super) fn context(
    connection: &Connection,
    owner: &Owner,
    id: &str,
    oldest: i64,
    limit: ReadLimit,
) -> Result<Option<ConversationContext>, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(database)?;
    let Some(owner) = owners::find(&snapshot, owner).map_err(database)? else { return Ok(None) };
    let Some(row) = conversations::find(&snapshot, owner, id, oldest).map_err(database)? else {
        return Ok(None);
    };
    let mut size = Size::new(limit);
    let visible = VisibleItems::measure(&snapshot, row.key, (row.visible_from, row.next), &mut size)?;
    size.check()?;
    let (mut items, mut states) = (Vec::new(), HashMap::new());
    visible.read(&snapshot, &mut items, &mut states)?;
    let place = |position: i64| u64::try_from(position).unwrap_or(0);
    Ok(Some(ConversationContext { items, states, first: place(row.visible_from), until: place(row.next) }))
}

/// What is left of what a response has read of its conversation; `None` if the conversation is gone.
pub(super) fn of_response(
    connection: &Connection,
    (owner, response): (i64, i64),
    conversation: &str,
    oldest: i64,
    size: &mut Size,
) -> Result<Option<VisibleItems>, StoreError> {
    let Some(row) = conversations::find(connection, owner, conversation, oldest).map_err(database)? else {
        return Ok(None);
    };
    let mut statement = connection.prepare_cached(READ_BY).map_err(database)?;
    let read =
        statement.query_row([response], |row| Ok((row.get(0)?, row.get(1)?))).optional().map_err(database)?;
    match read {
        Some(read) => VisibleItems::measure(connection, row.key, read, size).map(Some),
        None => Ok(None),
    }
}

impl VisibleItems {
    fn measure(
        connection: &Connection,
        conversation: i64,
        (first, until): (i64, i64),
        size: &mut Size,
    ) -> Result<Self, StoreError> {
        let range =
            (conversation_items::key(conversation, first), conversation_items::key(conversation, until));
        let mut visible = Self { retained: Vec::new(), range };
        if first > 0 {
            visible.measure_retained(connection, conversation, INSTRUCTIONS, size)?;
            visible.measure_retained(connection, conversation, USER, size)?;
            visible.retained.sort_unstable();
        }
        let mut statement = connection.prepare_cached(LENGTHS).map_err(database)?;
        let mut rows = statement.query([range.0, range.1]).map_err(database)?;
        while let Some(row) = rows.next().map_err(database)? {
            add_length(row, 0, size)?;
        }
        Ok(visible)
    }

    /// The messages of one kind that are shown beside the summary.
    fn measure_retained(
        &mut self,
        connection: &Connection,
        conversation: i64,
        context: i64,
        size: &mut Size,
    ) -> Result<(), StoreError> {
        let mut statement = connection.prepare_cached(RETAINED).map_err(database)?;
        let mut rows = statement.query(params![conversation, context, self.range.0]).map_err(database)?;
        let mut left = RETAINED_TOKENS;
        while let Some(row) = rows.next().map_err(database)? {
            let tokens: Option<i64> = row.get(1).map_err(database)?;
            let tokens = tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or(0);
            // Older ones are dropped, too, even if they are small: there must be no gaps.
            let Some(rest) = left.checked_sub(tokens) else { break };
            left = rest;
            add_length(row, 2, size)?;
            self.retained.push(row.get(0).map_err(database)?);
        }
        Ok(())
    }

    /// Adds the items as the model sees them, and their states by place.
    pub(super) fn read(
        &self,
        connection: &Connection,
        items: &mut Vec<Item>,
        states: &mut HashMap<usize, Arc<str>>,
    ) -> Result<(), StoreError> {
        let mut statement = connection.prepare_cached(TEXTS).map_err(database)?;
        let single = self.retained.iter().map(|key| (*key, key + 1));
        for (from, to) in single.chain([self.range]) {
            let mut rows = statement.query([from, to]).map_err(database)?;
            while let Some(row) = rows.next().map_err(database)? {
                let seen = text(row, 0).map_err(database)?;
                if seen.is_empty() {
                    continue;
                }
                if let Some(state) = row.get::<_, Option<String>>(1).map_err(database)? {
                    states.insert(items.len(), state.into());
                }
                items.push(item(seen)?);
            }
        }
        Ok(())
    }
}

/// Measures an item by the lengths of its texts, which begin at this column.
fn add_length(row: &Row<'_>, column: usize, size: &mut Size) -> Result<(), StoreError> {
    let length = |column| row.get::<_, Option<u32>>(column).map_err(database);
    let (wire, view, state) = (length(column)?, length(column + 1)?, length(column + 2)?);
    match view {
        // Hidden.
        Some(0) => Ok(()),
        view => size.add(u64::from(view.or(wire).unwrap_or(0)) + u64::from(state.unwrap_or(0)), 1),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::schema;
    use super::*;

    #[test]
    fn a_turn_reads_a_range_of_keys_and_messages_before_a_summary_by_an_index() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        let range = "SEARCH conversation_items USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)";
        for (sql, step) in [
            (LENGTHS, range),
            (TEXTS, range),
            (
                RETAINED,
                "SEARCH conversation_items USING INDEX conversation_items_by_context (conversation=? AND context=? AND rowid<?)",
            ),
            (READ_BY, "SEARCH response_conversations USING INTEGER PRIMARY KEY (rowid=?)"),
        ] {
            assert_eq!(schema::plan(&connection, sql), [step]);
        }
        assert_eq!(conversation_items::position(conversation_items::key(7, 12)), 12);
    }

    /// The steps of SQLite's virtual machine that a turn's load takes.
    fn steps_to_load(hidden: i64) -> usize {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        let owner = Owner { tenant: "t".into(), principal: "p".into() };
        let key = owners::key(&connection, &owner).unwrap();
        connection
            .execute(
                "INSERT INTO conversations VALUES (1, ?1, 'conv_1', 0, 1, ?2 + 10, ?2, '{}')",
                [key, hidden],
            )
            .unwrap();
        connection
            .execute(
                "WITH RECURSIVE n(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM n WHERE x < ?1 + 9)
                 INSERT INTO conversation_items SELECT (1 << 31) + x, 1, x, 1, NULL, NULL, NULL, NULL,
                    '{\"type\":\"message\",\"id\":\"m\",\"role\":\"assistant\",\"content\":\"\"}' FROM n",
                [hidden],
            )
            .unwrap();
        connection
            .execute("UPDATE conversation_items SET context = 1, tokens = 16000 WHERE key % 2 = 0", [])
            .unwrap();
        let mut load = || {
            let steps = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&steps);
            let count = move || {
                counter.fetch_add(1, Ordering::Relaxed);
                false
            };
            connection.progress_handler(1, Some(count)).unwrap();
            let found = context(&connection, &owner, "conv_1", 0, ReadLimit::UNLIMITED).unwrap().unwrap();
            assert_eq!(found.items.len(), 14, "four messages fit beside the summary");
            steps.load(Ordering::Relaxed)
        };
        // Statements are compiled for the first.
        load();
        load()
    }

    #[test]
    fn a_turn_costs_the_same_however_many_items_a_summary_hides() {
        assert_eq!(steps_to_load(20), steps_to_load(10_000));
    }
}
