//! What the model sees of a conversation: the newest summary and all behind it, and what the summary leaves of the items
//! before it.
//!
//! It is measured by the lengths of the columns before a text is read. Items that a summary hides are not looked at.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::conversation_items::{INSTRUCTIONS, USER};
use super::conversations::ConversationRow;
use super::session::{Param, Session};
use super::values::{get, item, text, text_or_null, unsigned};
use super::{conversation_turns, conversations};
use antwort_protocol::item::Item;
use antwort_store::size::Size;
use antwort_store::{ConversationContext, RETAINED_TOKENS, ReadLimit, StoreError};

/// Rows that one query reads the texts of.
const TEXT_ROWS: i64 = 500;
/// Rows that one query measures.
const LENGTH_ROWS: i64 = 2_000;
/// Messages before a summary that one query looks at: more than usually fit beside it.
const RETAINED_ROWS: i64 = 200;

/// The items that the model sees, by their positions.
pub(super) struct VisibleItems {
    conversation: i64,
    /// Messages before the summary.
    retained: Vec<i64>,
    /// From the first to before the last.
    range: (i64, i64),
}

/// The length of what the model sees of an item; null: nothing.
macro_rules! seen_sql {
    () => {
        "CASE WHEN octet_length(model_view) = 0 THEN NULL
            ELSE coalesce(octet_length(model_view), octet_length(wire))::bigint + coalesce(octet_length(state), 0) END"
    };
}

const RETAINED: &str = concat!(
    "SELECT position, coalesce(tokens, 0), ",
    seen_sql!(),
    " FROM conversation_items WHERE conversation = $1 AND context = $2 AND position < $3
    ORDER BY position DESC LIMIT $4"
);
const LENGTHS: &str = concat!(
    "SELECT position, ",
    seen_sql!(),
    " FROM conversation_items WHERE conversation = $1 AND position >= $2 AND position < $3
    ORDER BY position LIMIT $4"
);
const TEXTS: &str = "SELECT position, coalesce(model_view, wire), state FROM conversation_items
    WHERE conversation = $1 AND position >= $2 AND position < $3 ORDER BY position LIMIT $4";
const RETAINED_TEXTS: &str = "SELECT position, coalesce(model_view, wire), state FROM conversation_items
    WHERE conversation = $1 AND position = ANY($2) ORDER BY position";

/// What the model sees of a conversation now.
pub(crate) async fn context(
    session: Session<'_>,
    row: ConversationRow,
    limit: ReadLimit,
) -> Result<ConversationContext, StoreError> {
    let mut size = Size::new(limit);
    let visible = VisibleItems::measure(session, row.key, (row.visible_from, row.next), &mut size).await?;
    size.check()?;
    let (mut items, mut states) = (Vec::new(), HashMap::new());
    visible.read(session, &mut items, &mut states).await?;
    Ok(ConversationContext { items, states, first: unsigned(row.visible_from), until: unsigned(row.next) })
}

/// What is left of what a response has read of its conversation; `None` if the conversation is gone.
pub(super) async fn of_response(
    session: Session<'_>,
    (response, owner): (Uuid, i64),
    conversation: &str,
    oldest: i64,
    size: &mut Size,
) -> Result<Option<VisibleItems>, StoreError> {
    let Some(row) = conversations::find(session, owner, conversation, oldest).await? else {
        return Ok(None);
    };
    match conversation_turns::read_by(session, (response, owner)).await? {
        Some(read) => VisibleItems::measure(session, row.key, read, size).await.map(Some),
        None => Ok(None),
    }
}

impl VisibleItems {
    async fn measure(
        session: Session<'_>,
        conversation: i64,
        range: (i64, i64),
        size: &mut Size,
    ) -> Result<Self, StoreError> {
        let mut visible = Self { conversation, retained: Vec::new(), range };
        if range.0 > 0 {
            visible.measure_retained(session, INSTRUCTIONS, size).await?;
            visible.measure_retained(session, USER, size).await?;
            visible.retained.sort_unstable();
        }
        let mut from = range.0;
        loop {
            let rows = visible.rows(session, LENGTHS, from, LENGTH_ROWS).await?;
            for row in &rows {
                add_length(row, 1, size)?;
            }
            match rows.last() {
                Some(last) if rows.len() as i64 == LENGTH_ROWS => from = get::<i64>(last, 0)? + 1,
                _ => return Ok(visible),
            }
        }
    }

    /// The messages of one kind that are shown beside the summary.
    async fn measure_retained(
        &mut self,
        session: Session<'_>,
        context: i16,
        size: &mut Size,
    ) -> Result<(), StoreError> {
        let (mut left, mut before) = (RETAINED_TOKENS, self.range.0);
        loop {
            let parameters: [Param<'_>; 4] = [
                (&self.conversation, Type::INT8),
                (&context, Type::INT2),
                (&before, Type::INT8),
                (&RETAINED_ROWS, Type::INT8),
            ];
            let rows = session.query(RETAINED, &parameters).await?;
            for row in &rows {
                // Older ones are dropped, too, even if they are small: there must be no gaps.
                let Some(rest) = left.checked_sub(unsigned(get(row, 1)?)) else { return Ok(()) };
                left = rest;
                add_length(row, 2, size)?;
                before = get(row, 0)?;
                self.retained.push(before);
            }
            if (rows.len() as i64) < RETAINED_ROWS {
                return Ok(());
            }
        }
    }

    async fn rows(
        &self,
        session: Session<'_>,
        sql: &'static str,
        from: i64,
        limit: i64,
    ) -> Result<Vec<Row>, StoreError> {
        let parameters: [Param<'_>; 4] = [
            (&self.conversation, Type::INT8),
            (&from, Type::INT8),
            (&self.range.1, Type::INT8),
            (&limit, Type::INT8),
        ];
        session.query(sql, &parameters).await
    }

    /// Adds the items as the model sees them, and their states by place.
    pub(super) async fn read(
        &self,
        session: Session<'_>,
        items: &mut Vec<Item>,
        states: &mut HashMap<usize, Arc<str>>,
    ) -> Result<(), StoreError> {
        if !self.retained.is_empty() {
            let parameters: [Param<'_>; 2] =
                [(&self.conversation, Type::INT8), (&self.retained, Type::INT8_ARRAY)];
            add_items(&session.query(RETAINED_TEXTS, &parameters).await?, items, states)?;
        }
        let mut from = self.range.0;
        loop {
            let rows = self.rows(session, TEXTS, from, TEXT_ROWS).await?;
            add_items(&rows, items, states)?;
            match rows.last() {
                Some(last) if rows.len() as i64 == TEXT_ROWS => from = get::<i64>(last, 0)? + 1,
                _ => return Ok(()),
            }
        }
    }
}

fn add_items(
    rows: &[Row],
    items: &mut Vec<Item>,
    states: &mut HashMap<usize, Arc<str>>,
) -> Result<(), StoreError> {
    for row in rows {
        let seen = text(row, 1)?;
        if seen.is_empty() {
            continue;
        }
        if let Some(state) = text_or_null(row, 2)? {
            states.insert(items.len(), state.into());
        }
        items.push(item(seen)?);
    }
    Ok(())
}

/// Measures an item by the length in this column; one that the model does not see has none.
fn add_length(row: &Row, index: usize, size: &mut Size) -> Result<(), StoreError> {
    match get::<Option<i64>>(row, index)? {
        Some(length) => size.add(unsigned(length), 1),
        None => Ok(()),
    }
}
