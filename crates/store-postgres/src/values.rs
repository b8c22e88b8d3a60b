//! Values of columns. What does not fit its column's type is an error, and no panic.

use std::borrow::Cow;

use aws_lc_rs::digest::{SHA256, digest};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::error::corrupt;
use antwort_protocol::item::Item;
use antwort_store::StoreError;

/// Bytes of a text that an index holds as it is.
const MAX_INDEXED: usize = 256;

/// A column of a row.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(corrupt)
}

/// A text that is stored as bytes.
pub(super) fn text(row: &Row, column: usize) -> Result<&str, StoreError> {
    std::str::from_utf8(get(row, column)?).map_err(corrupt)
}

/// The same, which may be null.
pub(super) fn text_or_null(row: &Row, column: usize) -> Result<Option<&str>, StoreError> {
    get::<Option<&[u8]>>(row, column)?.map(std::str::from_utf8).transpose().map_err(corrupt)
}

/// A length or a limit that a column holds.
pub(super) fn number(of: u64) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}

/// What stands for a text in an index, which takes no long ones.
pub(super) fn indexed(text: &str) -> Cow<'_, [u8]> {
    if text.len() <= MAX_INDEXED {
        return Cow::Borrowed(text.as_bytes());
    }
    Cow::Owned([b"\0sha256:", digest(&SHA256, text.as_bytes()).as_ref()].concat())
}

/// A stored item.
pub(super) fn item(json: &str) -> Result<Item, StoreError> {
    serde_json::from_str(json).map_err(corrupt)
}

/// A SHA-256.
pub(super) fn hash(row: &Row, column: usize) -> Result<[u8; 32], StoreError> {
    let bytes: &[u8] = get(row, column)?;
    bytes.try_into().map_err(corrupt)
}

/// A number that is never below zero.
pub(super) fn unsigned(of: i64) -> u64 {
    u64::try_from(of).unwrap_or(0)
}

/// A number as a column of four bytes holds it.
pub(super) fn small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
