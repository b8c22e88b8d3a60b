//! The items of conversations, by their positions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::session::{Param, Session};
use super::values::{get, number, text, text_or_null};
use antwort_protocol::id::Id;
use antwort_store::paging::{Element, PageRange};
use antwort_store::renamed_item::renamed;
use antwort_store::{
    ContextRole, ConversationItem, Direction, ModelView, Page, PageRequest, StoreError, StoredItem,
};
use antwort_util::digest::sha256;

/// The column `context`.
pub(super) const USER: i16 = 1;
pub(super) const INSTRUCTIONS: i16 = 2;
pub(super) const SUMMARY: i16 = 3;

/// The column `item_key`.
pub(super) fn key_of(id: &str) -> Uuid {
    let hash = sha256(id.as_bytes());
    Uuid::from_bytes(hash.first_chunk().copied().unwrap_or_default())
}

/// The columns of items that are inserted together.
#[derive(Default)]
pub(super) struct NewItems<'a> {
    pub keys: Vec<Uuid>,
    pub ids: Vec<&'a [u8]>,
    pub(crate) directions: Vec<i16>,
    pub contexts: Vec<Option<i16>>,
    pub tokens: Vec<Option<i64>>,
    pub states: Vec<Option<&'a [u8]>>,
    pub views: Vec<Option<&'a [u8]>>,
    pub(crate) wires: Vec<&'a [u8]>,
}

impl<'a> NewItems<'a> {
    pub(super) fn of(items: impl Iterator<Item = (&'a StoredItem, ContextRole)>) -> Self {
        let mut columns = Self::default();
        for (item, role) in items {
            columns.push(item, role);
        }
        columns
    }

    pub(super) fn push(&mut self, item: &'a StoredItem, role: ContextRole) {
        let (context, tokens) = match role {
            ContextRole::Plain => (None, None),
            ContextRole::User { tokens } => (Some(USER), Some(number(tokens))),
            ContextRole::Instructions => (Some(INSTRUCTIONS), None),
            ContextRole::Summary { .. } => (Some(SUMMARY), None),
        };
        self.keys.push(key_of(item.id.as_str()));
        self.ids.push(item.id.as_str().as_bytes());
        self.directions.push(i16::from(item.direction == Direction::Output));
        self.contexts.push(context);
        self.tokens.push(tokens);
        self.states.push(item.state.as_ref().map(|state| state.blob.as_bytes()));
        self.views.push(match &item.model_view {
            ModelView::Same => None,
            ModelView::Override(text) => Some(text.as_bytes()),
            ModelView::Hidden => Some(&[]),
        });
        self.wires.push(item.wire.as_bytes());
    }
}

/// Items of a new conversation, or an item that has got another id.
const INSERT: &str = "INSERT INTO conversation_items
        (conversation, position, item_key, item_id, direction, context, tokens, state, model_view, wire)
    SELECT $1, $2 + n.place - 1, n.item_key, n.item_id, n.direction, n.context, n.tokens, n.state, n.model_view, n.wire
    FROM unnest($3::uuid[], $4::bytea[], $5::smallint[], $6::smallint[], $7::bigint[], $8::bytea[], $9::bytea[], $10::bytea[])
        WITH ORDINALITY AS n (item_key, item_id, direction, context, tokens, state, model_view, wire, place)";

/// Inserts items at free positions from this one on. Their ids are free.
pub(super) async fn insert(
    session: Session<'_>,
    (conversation, first): (i64, i64),
    items: &NewItems<'_>,
) -> Result<(), StoreError> {
    let parameters: &[Param<'_>] = &[
        (&conversation, Type::INT8),
        (&first, Type::INT8),
        (&items.keys, Type::UUID_ARRAY),
        (&items.ids, Type::BYTEA_ARRAY),
        (&items.directions, Type::INT2_ARRAY),
        (&items.contexts, Type::INT2_ARRAY),
        (&items.tokens, Type::INT8_ARRAY),
        (&items.states, Type::BYTEA_ARRAY),
        (&items.views, Type::BYTEA_ARRAY),
        (&items.wires, Type::BYTEA_ARRAY),
    ];
    session.execute(INSERT, parameters).await.map(drop)
}

/// Inserts an item of a turn whose id is taken, under another.
pub(super) async fn insert_renamed(
    session: Session<'_>,
    (conversation, position): (i64, i64),
    item: &StoredItem,
    role: ContextRole,
) -> Result<(), StoreError> {
    let item = renamed(item);
    let mut columns = NewItems::default();
    columns.push(&item, role);
    insert(session, (conversation, position), &columns).await
}

const SHIFT: &str = "UPDATE conversation_items SET position = position + $4
    WHERE conversation = $1 AND position >= $2 AND position < $3";

/// Moves the items from a position to before another by this distance, to where there are none.
pub(super) async fn shift(
    session: Session<'_>,
    conversation: i64,
    (first, until): (i64, i64),
    distance: i64,
) -> Result<(), StoreError> {
    session
        .execute(
            SHIFT,
            &[
                (&conversation, Type::INT8),
                (&first, Type::INT8),
                (&until, Type::INT8),
                (&distance, Type::INT8),
            ],
        )
        .await
        .map(drop)
}

const TAKEN: &str = "SELECT item_key FROM conversation_items WHERE conversation = $1 AND item_key = ANY($2)";

/// The place of the first item whose id an item before it or the conversation has.
pub(super) async fn repeated(
    session: Session<'_>,
    conversation: Option<i64>,
    items: &[ConversationItem],
) -> Result<Option<usize>, StoreError> {
    let keys: Vec<Uuid> = items.iter().map(|item| key_of(item.item.id.as_str())).collect();
    let mut seen = HashSet::with_capacity(keys.len());
    if let Some(conversation) = conversation.filter(|_| !keys.is_empty()) {
        let taken = session.query(TAKEN, &[(&conversation, Type::INT8), (&keys, Type::UUID_ARRAY)]).await?;
        for row in &taken {
            seen.insert(get::<Uuid>(row, 0)?);
        }
    }
    Ok(keys.into_iter().position(|key| !seen.insert(key)))
}

const DELETE: &str =
    "DELETE FROM conversation_items WHERE conversation = $1 AND item_key = $2 RETURNING context";

/// A deleted item.
pub(super) struct DeletedItem {
    pub is_summary: bool,
}

/// Deletes the item of this id; `None` if there is none.
pub(super) async fn delete(
    session: Session<'_>,
    conversation: i64,
    id: &str,
) -> Result<Option<DeletedItem>, StoreError> {
    let row = session.query_opt(DELETE, &[(&conversation, Type::INT8), (&key_of(id), Type::UUID)]).await?;
    let read = |row| Ok(DeletedItem { is_summary: get::<Option<i16>>(row, 0)? == Some(SUMMARY) });
    row.as_ref().map(read).transpose()
}

const NEWEST_SUMMARY: &str = "SELECT position FROM conversation_items WHERE conversation = $1 AND context = 3
    ORDER BY position DESC LIMIT 1";

/// The position of the newest summary.
pub(super) async fn newest_summary(
    session: Session<'_>,
    conversation: i64,
) -> Result<Option<i64>, StoreError> {
    let row = session.query_opt(NEWEST_SUMMARY, &[(&conversation, Type::INT8)]).await?;
    row.as_ref().map(|row| get(row, 0)).transpose()
}

const WIRE: &str = "SELECT octet_length(wire), CASE WHEN octet_length(wire) <= $3 THEN wire END
    FROM conversation_items WHERE conversation = $1 AND item_key = $2";

/// An item as clients see it. Its length, which is known without reading it, is checked first.
pub(super) async fn item(
    session: Session<'_>,
    conversation: i64,
    id: &str,
    max_bytes: u64,
) -> Result<Option<Arc<str>>, StoreError> {
    let (key, max) = (key_of(id), number(max_bytes));
    let row = session
        .query_opt(WIRE, &[(&conversation, Type::INT8), (&key, Type::UUID), (&max, Type::INT8)])
        .await?;
    let Some(row) = row else { return Ok(None) };
    match text_or_null(&row, 1)? {
        Some(wire) => Ok(Some(wire.into())),
        None => Err(StoreError::TooLarge { bytes: get::<i32>(&row, 0)?.unsigned_abs().into() }),
    }
}

// One query, in both orders.
macro_rules! items_sql {
    () => {
        "SELECT item_id, octet_length(wire), position FROM conversation_items
            WHERE conversation = $1 AND position > $2 AND position < $3"
    };
}

const ASCENDING: &str = concat!(items_sql!(), " ORDER BY position ASC LIMIT $4");
const DESCENDING: &str = concat!(items_sql!(), " ORDER BY position DESC LIMIT $4");
const PLACES: &str =
    "SELECT item_key, position FROM conversation_items WHERE conversation = $1 AND item_key = ANY($2)";
const PAGED: &str =
    "SELECT position, wire FROM conversation_items WHERE conversation = $1 AND position = ANY($2)";

/// A page of the items.
pub(super) async fn list(
    session: Session<'_>,
    conversation: i64,
    page: &PageRequest,
) -> Result<Page, StoreError> {
    let range = range(session, conversation, page).await?;
    let sql = if range.ascending { ASCENDING } else { DESCENDING };
    let (above, below) = (range.above.unwrap_or(-1), range.below.unwrap_or(i64::MAX));
    let fetch = number(range.fetch() as u64);
    let rows = session
        .query(
            sql,
            &[(&conversation, Type::INT8), (&above, Type::INT8), (&below, Type::INT8), (&fetch, Type::INT8)],
        )
        .await?;
    let elements = rows.iter().map(|row| {
        let bytes = get::<i32>(row, 1)?.unsigned_abs().into();
        Ok(Element { id: Id::from(text(row, 0)?), bytes, key: get::<i64>(row, 2)? })
    });
    let (chosen, has_more) = range.choose(elements)?;
    let positions: Vec<i64> = chosen.iter().map(|element| element.key).collect();
    let rows = session.query(PAGED, &[(&conversation, Type::INT8), (&positions, Type::INT8_ARRAY)]).await?;
    let wires = rows
        .iter()
        .map(|row| Ok((get::<i64>(row, 0)?, text(row, 1)?)))
        .collect::<Result<HashMap<_, _>, StoreError>>()?;
    // One that was deleted in between is left out.
    let read = |element: Element<i64>| Some((element.id, Arc::from(*wires.get(&element.key)?)));
    Ok(Page { data: chosen.into_iter().filter_map(read).collect(), has_more })
}

/// The positions that a page is cut from.
async fn range(
    session: Session<'_>,
    conversation: i64,
    page: &PageRequest,
) -> Result<PageRange<i64>, StoreError> {
    let cursors: Vec<Uuid> = [&page.after, &page.before].into_iter().flatten().map(|id| key_of(id)).collect();
    let mut places = Vec::with_capacity(cursors.len());
    if !cursors.is_empty() {
        let rows =
            session.query(PLACES, &[(&conversation, Type::INT8), (&cursors, Type::UUID_ARRAY)]).await?;
        for row in &rows {
            places.push((get::<Uuid>(row, 0)?, get::<i64>(row, 1)?));
        }
    }
    PageRange::new(page, |cursor| {
        let key = key_of(cursor);
        Ok(places.iter().find(|(found, _)| *found == key).map(|(_, position)| *position))
    })
}
