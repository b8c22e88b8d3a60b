//! The items of a row: their texts one after another in one column, and an index of their ids and lengths in another,
//! so that sizes are measured and single items found without reading any text.
//!
//! An entry of the index is a byte of flags, the id, the length of the item as clients see it, and, if it has them, the
//! length of what the model sees instead, and the key and the length of its state. Numbers are LEB128, texts have their
//! length before them.

use std::sync::Arc;

use crate::{Direction, ModelView, StateKey, StoredItem, StoredState};
use antwort_protocol::id::Id;

const OUTPUT: u8 = 1;
const OVERRIDE: u8 = 1 << 1;
const HIDDEN: u8 = 1 << 2;
const STATE: u8 = 1 << 3;

/// The two columns.
#[derive(Debug, Default)]
pub struct ItemColumns {
    /// The entries of the items, in order: ids and lengths.
    pub index: Vec<u8>,
    /// The texts that the entries measure, in UTF-8, without separators.
    pub texts: Vec<u8>,
}

impl ItemColumns {
    /// The columns of these items, in this order.
    pub fn of(items: &[StoredItem]) -> Self {
        let mut columns = Self::default();
        for item in items {
            columns.push(item);
        }
        columns
    }

    pub(super) fn push(&mut self, item: &StoredItem) {
        let (view, other) = match &item.model_view {
            ModelView::Same => (0, None),
            ModelView::Override(text) => (OVERRIDE, Some(&**text)),
            ModelView::Hidden => (HIDDEN, None),
        };
        let side = if item.direction == Direction::Output { OUTPUT } else { 0 };
        let state = if item.state.is_some() { STATE } else { 0 };
        self.index.push(side | view | state);
        self.add_to_index(item.id.as_str());
        self.add_text(&item.wire);
        if let Some(text) = other {
            self.add_text(text);
        }
        if let Some(state) = &item.state {
            self.add_to_index(state.key.as_str());
            self.add_text(&state.blob);
        }
    }

    fn add_to_index(&mut self, text: &str) {
        push_number(&mut self.index, text.len());
        self.index.extend_from_slice(text.as_bytes());
    }

    fn add_text(&mut self, text: &str) {
        push_number(&mut self.index, text.len());
        self.texts.extend_from_slice(text.as_bytes());
    }
}

/// Where a text is among the texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// The offset of its first byte.
    pub start: usize,
    /// Its length in bytes.
    pub len: usize,
}

/// What the model sees of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Same,
    Override(Span),
    Hidden,
}

/// An item, before any of its texts is read.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The id of the item; unique only in its response.
    pub id: &'a str,
    /// Whether it came from the client or from the model.
    pub direction: Direction,
    /// The place of the item as clients see it.
    pub wire: Span,
    view: View,
    /// The key and the place of its state.
    pub state: Option<(&'a str, Span)>,
}

impl Entry<'_> {
    /// The text that the model sees; `None`: nothing.
    pub fn seen(&self) -> Option<Span> {
        match self.view {
            View::Same => Some(self.wire),
            View::Override(span) => Some(span),
            View::Hidden => None,
        }
    }

    /// The whole item.
    pub(super) fn item(&self, texts: &[u8]) -> Result<StoredItem, Damaged> {
        let model_view = match self.view {
            View::Same => ModelView::Same,
            View::Override(span) => ModelView::Override(text(texts, span)?.into()),
            View::Hidden => ModelView::Hidden,
        };
        let state = match self.state {
            Some((key, span)) => {
                let blob: Arc<str> = text(texts, span)?.into();
                Some(StoredState { key: StateKey::stored(key.to_owned()), blob })
            }
            None => None,
        };
        let wire = text(texts, self.wire)?.into();
        Ok(StoredItem { id: Id::from(self.id), direction: self.direction, wire, model_view, state })
    }
}

/// The entries of an index, in order.
pub fn entries(index: &[u8]) -> Result<Vec<Entry<'_>>, Damaged> {
    let mut reader = Reader { rest: index, offset: 0 };
    let mut entries = Vec::new();
    while let Some((flags, rest)) = reader.rest.split_first() {
        reader.rest = rest;
        let id = reader.text()?;
        let wire = reader.span()?;
        let view = match flags & (OVERRIDE | HIDDEN) {
            0 => View::Same,
            OVERRIDE => View::Override(reader.span()?),
            HIDDEN => View::Hidden,
            _ => return Err(Damaged),
        };
        let state = if flags & STATE == 0 { None } else { Some((reader.text()?, reader.span()?)) };
        let direction = if flags & OUTPUT == 0 { Direction::Input } else { Direction::Output };
        entries.push(Entry { id, direction, wire, view, state });
    }
    Ok(entries)
}

/// All items of a row.
pub fn items(index: &[u8], texts: &[u8]) -> Result<Vec<StoredItem>, Damaged> {
    entries(index)?.iter().map(|entry| entry.item(texts)).collect()
}

/// One of the texts.
pub fn text(texts: &[u8], span: Span) -> Result<&str, Damaged> {
    let end = span.start.checked_add(span.len).ok_or(Damaged)?;
    texts.get(span.start..end).and_then(|bytes| std::str::from_utf8(bytes).ok()).ok_or(Damaged)
}

/// The columns do not fit together, or are of a later version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the items of a response are damaged")]
pub struct Damaged;

fn push_number(bytes: &mut Vec<u8>, number: usize) {
    let mut rest = number;
    while rest >= 0x80 {
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

struct Reader<'a> {
    rest: &'a [u8],
    /// Where the next text begins among the texts.
    offset: usize,
}

impl<'a> Reader<'a> {
    fn number(&mut self) -> Result<usize, Damaged> {
        let (mut number, mut shift) = (0_usize, 0_u32);
        loop {
            let (byte, rest) = self.rest.split_first().ok_or(Damaged)?;
            self.rest = rest;
            number |= usize::from(byte & 0x7f).checked_shl(shift).ok_or(Damaged)?;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    fn text(&mut self) -> Result<&'a str, Damaged> {
        let len = self.number()?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Damaged)?;
        self.rest = rest;
        std::str::from_utf8(bytes).map_err(|_| Damaged)
    }

    fn span(&mut self) -> Result<Span, Damaged> {
        let (start, len) = (self.offset, self.number()?);
        self.offset = start.checked_add(len).ok_or(Damaged)?;
        Ok(Span { start, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(id: &str, direction: Direction, wire: &str, model_view: ModelView) -> StoredItem {
        StoredItem { id: id.into(), direction, wire: wire.into(), model_view, state: None }
    }

    fn some() -> Vec<StoredItem> {
        let long = "ü".repeat(10_000);
        let mut all = vec![
            item("msg_1", Direction::Input, "{}", ModelView::Same),
            item("", Direction::Output, "", ModelView::Hidden),
            item(&"x".repeat(300), Direction::Output, &long, ModelView::Override("other".into())),
            item("fc_1", Direction::Output, "last", ModelView::Same),
        ];
        for (number, item) in all.iter_mut().enumerate().skip(2) {
            let key = StateKey::stored(format!("t\u{1f}p\u{1f}{number}"));
            item.state = Some(StoredState { key, blob: format!("sealed {number}").into() });
        }
        all
    }

    #[test]
    fn items_are_read_as_they_were_written() {
        let columns = ItemColumns::of(&some());
        let read = items(&columns.index, &columns.texts).unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", some()));
        let seen: Vec<_> =
            entries(&columns.index).unwrap().iter().map(|entry| entry.seen().map(|at| at.len)).collect();
        assert_eq!(seen, [Some(2), None, Some(5), Some(4)]);
    }

    #[test]
    fn a_damaged_index_is_an_error_and_no_panic() {
        let columns = ItemColumns::of(&some());
        for cut in 1..columns.index.len() {
            // Where an entry ends, fewer items are left.
            let _ = items(&columns.index[..cut], &columns.texts);
        }
        for place in 0..columns.index.len() {
            let mut index = columns.index.clone();
            index[place] = 0xff;
            let _ = items(&index, &columns.texts);
        }
        assert_eq!(items(&columns.index, &columns.texts[1..]).unwrap_err(), Damaged);
        assert_eq!(entries(&[HIDDEN | OVERRIDE, 0, 0]).unwrap_err(), Damaged);
    }
}
