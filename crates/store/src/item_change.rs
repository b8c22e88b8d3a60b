//! Replaces an item in the columns of a response that has ended.

use super::async_calls::ItemChange;
use super::item_index::{self, ItemColumns};
use crate::Direction;

/// The columns with the item replaced.
pub struct ChangedRow {
    /// The columns of its items.
    pub columns: ItemColumns,
    /// The response object, in which the new item is repeated.
    pub body: String,
}

/// The columns of a response with this item in place of the one of its id; `None` if there is none, or they are damaged.
pub fn apply(index: &[u8], texts: &[u8], body: &str, change: &ItemChange) -> Option<ChangedRow> {
    let mut items = item_index::items(index, texts).ok()?;
    let item = items.iter_mut().find(|item| item.direction == Direction::Output && item.id == change.id)?;
    // The response object repeats the item as it is, and its id makes it unlike any other.
    let body = body.replacen(&*item.wire, &change.wire, 1);
    (item.wire, item.model_view) = (change.wire.clone(), change.model_view.clone());
    Some(ChangedRow { columns: ItemColumns::of(&items), body })
}
