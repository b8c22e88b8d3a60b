//! Single texts of rows that may be large: the others of the row are not read.

use rusqlite::{Connection, MAIN_DB, OptionalExtension, blob::Blob};

use super::error::{corrupt, database};
use super::read::bytes;
use antwort_store::StoreError;
use antwort_store::item_index::{self, Damaged, Span};

/// The row that texts of items are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ItemRow {
    pub key: i64,
    /// The turn, if the response still runs and the items are not in its own row.
    pub turn: Option<i64>,
}

/// Reads texts; those of one row together are cheaper.
pub(super) struct Texts<'a> {
    connection: &'a Connection,
    open: Option<(i64, Blob<'a>)>,
}

impl<'a> Texts<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection, open: None }
    }

    pub(super) fn read(&mut self, row: ItemRow, span: Span) -> Result<String, StoreError> {
        match row.turn {
            None => self.of_response(row.key, span),
            Some(turn) => self.of_turn(row.key, turn, span),
        }
    }

    fn of_response(&mut self, key: i64, span: Span) -> Result<String, StoreError> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != key) {
            // Closed before the next is opened.
            self.open = None;
            let blob = self.connection.blob_open(MAIN_DB, "responses", "items", key, true);
            self.open = Some((key, blob.map_err(database)?));
        }
        let blob = self.open.as_ref().map(|(_, blob)| blob).ok_or_else(|| corrupt(Damaged))?;
        if span.start.checked_add(span.len).is_none_or(|end| end > blob.len()) {
            return Err(corrupt(Damaged));
        }
        let mut text = vec![0; span.len];
        blob.read_at_exact(&mut text, span.start).map_err(database)?;
        String::from_utf8(text).map_err(corrupt)
    }

    fn of_turn(&self, key: i64, turn: i64, span: Span) -> Result<String, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT items FROM turns WHERE response = ?1 AND turn = ?2")
            .map_err(database)?;
        let text = statement
            .query_row([key, turn], |row| Ok(item_index::text(bytes(row, 0)?, span).map(str::to_owned)))
            .optional()
            .map_err(database)?;
        text.ok_or_else(|| corrupt(Damaged))?.map_err(corrupt)
    }
}
