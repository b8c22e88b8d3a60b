//! The items of conversations. Their keys are made of the conversation's and their position, so that a turn reads one
//! range of rows.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::database;
use super::read::text;
use antwort_protocol::id::Id;
use antwort_store::paging::{Element, PageRange};
use antwort_store::renamed_item::renamed;
use antwort_store::{
    ContextRole, ConversationItem, Direction, ModelView, Page, PageRequest, StoreError, StoredItem,
};

/// Bits of a key that are a position.
const POSITION_BITS: u32 = 31;

/// The column `context`.
pub(super) const USER: i64 = 1;
pub(super) const INSTRUCTIONS: i64 = 2;
pub(super) const SUMMARY: i64 = 3;

/// The key of an item.
pub(super) fn key(conversation: i64, position: i64) -> i64 {
    (conversation << POSITION_BITS) | position.clamp(0, (1 << POSITION_BITS) - 1)
}

/// The position of an item.
pub(super) fn position(key: i64) -> i64 {
    key & ((1 << POSITION_BITS) - 1)
}

/// The key behind the last item of a conversation.
pub(super) fn end(conversation: i64) -> i64 {
    (conversation + 1) << POSITION_BITS
}

/// Inserts an item at a free position. If the conversation has its id, it gets another.
pub(super) fn insert(
    connection: &Connection,
    (conversation, position): (i64, i64),
    item: &StoredItem,
    role: ContextRole,
) -> rusqlite::Result<()> {
    if try_insert(connection, (conversation, position), item, role)? {
        return Ok(());
    }
    try_insert(connection, (conversation, position), &renamed(item), role).map(drop)
}

/// Returns whether the id was free.
fn try_insert(
    connection: &Connection,
    (conversation, position): (i64, i64),
    item: &StoredItem,
    role: ContextRole,
) -> rusqlite::Result<bool> {
    let (context, tokens) = match role {
        ContextRole::Plain => (None, None),
        ContextRole::User { tokens } => (Some(USER), Some(i64::try_from(tokens).unwrap_or(i64::MAX))),
        ContextRole::Instructions => (Some(INSTRUCTIONS), None),
        ContextRole::Summary { .. } => (Some(SUMMARY), None),
    };
    let view = match &item.model_view {
        ModelView::Same => None,
        ModelView::Override(text) => Some(&**text),
        ModelView::Hidden => Some(""),
    };
    let inserted = connection.prepare_cached(INSERT)?.execute(params![
        key(conversation, position),
        conversation,
        item.id.as_str(),
        item.direction == Direction::Output,
        context,
        tokens,
        item.state.as_ref().map(|state| &*state.blob),
        view,
        &*item.wire,
    ])?;
    Ok(inserted > 0)
}

const INSERT: &str = "INSERT INTO conversation_items
        (key, conversation, item_id, direction, context, tokens, state, model_view, wire)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (conversation, item_id) DO NOTHING";

/// Moves the items from a position to before another by this distance, to where there are none.
pub(super) fn shift(
    connection: &Connection,
    conversation: i64,
    (first, until): (i64, i64),
    distance: i64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE conversation_items SET key = key + ?3 WHERE key >= ?1 AND key < ?2")?
        .execute([key(conversation, first), key(conversation, until), distance])?;
    Ok(())
}

const BY_ID: &str = "SELECT key FROM conversation_items WHERE conversation = ?1 AND item_id = ?2";

/// The key of the item of this id.
fn find(connection: &Connection, conversation: i64, id: &str) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached(BY_ID)?.query_row(params![conversation, id], |row| row.get(0)).optional()
}

/// The place of the first item whose id an item before it or the conversation has.
pub(super) fn repeated(
    connection: &Connection,
    conversation: Option<i64>,
    items: &[ConversationItem],
) -> rusqlite::Result<Option<usize>> {
    let mut seen = HashSet::with_capacity(items.len());
    for (place, ConversationItem { item, .. }) in items.iter().enumerate() {
        let is_there = match conversation {
            Some(conversation) => find(connection, conversation, item.id.as_str())?.is_some(),
            None => false,
        };
        if is_there || !seen.insert(item.id.as_str()) {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// A deleted item.
pub(super) struct DeletedItem {
    pub is_summary: bool,
}

/// Deletes the item of this id; `None` if there is none.
pub(super) fn delete(
    connection: &Connection,
    conversation: i64,
    id: &str,
) -> rusqlite::Result<Option<DeletedItem>> {
    let Some(key) = find(connection, conversation, id)? else { return Ok(None) };
    let read = |row: &Row<'_>| Ok(DeletedItem { is_summary: row.get::<_, Option<i64>>(0)? == Some(SUMMARY) });
    connection
        .prepare_cached("DELETE FROM conversation_items WHERE key = ?1 RETURNING context")?
        .query_row([key], read)
        .optional()
}

const NEWEST_SUMMARY: &str = "SELECT key FROM conversation_items WHERE conversation = ?1 AND context = 3
    ORDER BY key DESC LIMIT 1";

/// The position of the newest summary.
pub(super) fn newest_summary(connection: &Connection, conversation: i64) -> rusqlite::Result<Option<i64>> {
    let mut statement = connection.prepare_cached(NEWEST_SUMMARY)?;
    statement.query_row([conversation], |row| row.get(0).map(position)).optional()
}

const WIRE: &str = "SELECT octet_length(wire), CASE WHEN octet_length(wire) <= ?3 THEN wire END
    FROM conversation_items WHERE conversation = ?1 AND item_id = ?2";

/// An item as clients see it. Its length, which is known without reading it, is checked first.
pub(super) fn item(
    connection: &Connection,
    conversation: i64,
    id: &str,
    max_bytes: u64,
) -> Result<Option<Arc<str>>, StoreError> {
    let max = i64::try_from(max_bytes).unwrap_or(i64::MAX);
    let read = |row: &Row<'_>| {
        let bytes = u64::from(row.get::<_, u32>(0)?);
        Ok(if bytes > max_bytes { Err(StoreError::TooLarge { bytes }) } else { Ok(text(row, 1)?.into()) })
    };
    let mut statement = connection.prepare_cached(WIRE).map_err(database)?;
    statement.query_row(params![conversation, id, max], read).optional().map_err(database)?.transpose()
}

// One query, in both orders.
macro_rules! items_sql {
    () => {
        "SELECT item_id, octet_length(wire), key FROM conversation_items WHERE key > ?1 AND key < ?2"
    };
}

const ASCENDING: &str = concat!(items_sql!(), " ORDER BY key ASC LIMIT ?3");
const DESCENDING: &str = concat!(items_sql!(), " ORDER BY key DESC LIMIT ?3");
const PAGED: &str = "SELECT wire FROM conversation_items WHERE key = ?1";

/// A page of the items.
pub(crate) fn list(
    connection: &Connection,
    conversation: i64,
    page: &PageRequest,
) -> Result<Page, StoreError> {
    let range = PageRange::new(page, |cursor| find(connection, conversation, cursor).map_err(database))?;
    let sql = if range.ascending { ASCENDING } else { DESCENDING };
    let mut statement = connection.prepare_cached(sql).map_err(database)?;
    let above = range.above.unwrap_or(key(conversation, 0) - 1);
    let below = range.below.unwrap_or(end(conversation));
    let fetch = i64::try_from(range.fetch()).unwrap_or(i64::MAX);
    let element = |row: &Row<'_>| {
        Ok(Element { id: Id::from(text(row, 0)?), bytes: row.get::<_, u32>(1)?.into(), key: row.get(2)? })
    };
    let rows = statement.query_map([above, below, fetch], element).map_err(database)?;
    let (chosen, has_more) = range.choose(rows.map(|row| row.map_err(database)))?;
    let mut statement = connection.prepare_cached(PAGED).map_err(database)?;
    let mut read = |element: Element<i64>| {
        let wire = statement.query_row([element.key], |row| text(row, 0).map(Arc::from));
        Ok((element.id, wire.map_err(database)?))
    };
    Ok(Page { data: chosen.into_iter().map(&mut read).collect::<Result<_, StoreError>>()?, has_more })
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn items_are_found_by_their_ids_and_pages_by_their_keys() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        let by_id =
            "SEARCH conversation_items USING INDEX conversation_items_by_id (conversation=? AND item_id=?)";
        let covered = by_id.replace("INDEX", "COVERING INDEX");
        let by_keys = "SEARCH conversation_items USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)";
        for (sql, step) in [
            (BY_ID, &*covered),
            (WIRE, by_id),
            (ASCENDING, by_keys),
            (DESCENDING, by_keys),
            (PAGED, "SEARCH conversation_items USING INTEGER PRIMARY KEY (rowid=?)"),
            (
                NEWEST_SUMMARY,
                "SEARCH conversation_items USING COVERING INDEX conversation_items_by_context (conversation=? AND context=?)",
            ),
        ] {
            assert_eq!(schema::plan(&connection, sql), [step]);
        }
    }
}
