//! Rows as every backend has them, and what tells whether two databases have the same ones.

use std::collections::HashMap;
use std::fmt;

use super::row_kinds::Kind;
use super::{Owner, StoreError};
use antwort_util::digest::{FieldHasher, hex_encode};

/// A value of a column. A response or a conversation is its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The column is empty.
    Null,
    /// An integer, or 0 or 1 as a truth value.
    Number(i64),
    /// Bytes, or a text in UTF-8.
    Bytes(Vec<u8>),
}

impl Value {
    /// The number; `None` if it is null.
    pub fn number(&self) -> Result<Option<i64>, StoreError> {
        match self {
            Self::Null => Ok(None),
            Self::Number(number) => Ok(Some(*number)),
            Self::Bytes(_) => Err(StoreError::Corrupt("a text where a number belongs".to_owned())),
        }
    }

    /// The bytes; `None` if it is null.
    pub fn bytes(&self) -> Result<Option<&[u8]>, StoreError> {
        match self {
            Self::Null => Ok(None),
            Self::Bytes(bytes) => Ok(Some(bytes)),
            Self::Number(_) => Err(StoreError::Corrupt("a number where a text belongs".to_owned())),
        }
    }

    /// The text; `None` if it is null.
    pub fn text(&self) -> Result<Option<&str>, StoreError> {
        let text = self.bytes()?.map(std::str::from_utf8).transpose();
        text.map_err(|error| StoreError::Corrupt(error.to_string()))
    }

    fn size(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Null | Self::Number(_) => 8,
        }
    }

    fn add_to(&self, hasher: FieldHasher) -> FieldHasher {
        match self {
            Self::Null => hasher.field("-"),
            Self::Number(number) => hasher.field("#").field(number.to_be_bytes()),
            Self::Bytes(bytes) => hasher.field("+").field(bytes),
        }
    }
}

/// A row: its owner, and the values of the columns of its kind, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeutralRow {
    /// Whose it is, even where the table has no column for it.
    pub owner: Owner,
    /// One value for each of [`Kind::columns`].
    pub values: Vec<Value>,
}

impl NeutralRow {
    /// The value of this column.
    pub fn value(&self, column: usize) -> Result<&Value, StoreError> {
        self.values.get(column).ok_or_else(|| StoreError::Corrupt("a row without all its columns".to_owned()))
    }

    /// The text of a column that has one.
    pub fn text(&self, column: usize) -> Result<&str, StoreError> {
        let text = self.value(column)?.text()?;
        text.ok_or_else(|| StoreError::Corrupt("nothing where a text belongs".to_owned()))
    }

    /// The approximate number of bytes that it takes in memory.
    pub(super) fn size(&self) -> usize {
        64 + self.values.iter().map(|value| value.size() + 32).sum::<usize>()
    }

    /// The SHA-256 of all of it.
    pub fn digest(&self) -> [u8; 32] {
        let hasher = FieldHasher::new().field(&*self.owner.tenant).field(&*self.owner.principal);
        self.values.iter().fold(hasher, |hasher, value| value.add_to(hasher)).finish()
    }

    /// The SHA-256 of what tells it from all others of its kind.
    pub fn key(&self, kind: &Kind) -> [u8; 32] {
        let hasher = FieldHasher::new().field(&*self.owner.tenant).field(&*self.owner.principal);
        let values = self.values.iter().zip(kind.columns).filter(|(_, column)| column.in_key);
        values.fold(hasher, |hasher, (value, _)| value.add_to(hasher)).finish()
    }

    /// The same for people.
    fn name(&self, kind: &Kind) -> String {
        let mut name = format!("tenant {}, owner {}", self.owner.tenant, self.owner.principal);
        for (value, column) in self.values.iter().zip(kind.columns).filter(|(_, column)| column.in_key) {
            let shown = match value {
                Value::Null => "none".to_owned(),
                Value::Number(number) => number.to_string(),
                Value::Bytes(bytes) => String::from_utf8_lossy(bytes).escape_debug().to_string(),
            };
            name.push_str(&format!(", {} {shown}", column.name));
        }
        name
    }
}

/// The digests of rows by their keys.
pub type Known = HashMap<[u8; 32], [u8; 32]>;

/// The rows that a database does not have yet. Of a row that it has with other content, the name is the error.
pub fn missing(kind: &Kind, rows: Vec<NeutralRow>, known: &Known) -> Result<Vec<NeutralRow>, String> {
    let mut missing = Vec::with_capacity(rows.len());
    for row in rows {
        match known.get(&row.key(kind)) {
            None => missing.push(row),
            Some(digest) if *digest == row.digest() => {}
            Some(_) => return Err(row.name(kind)),
        }
    }
    Ok(missing)
}

/// How many rows there are, and the sum of their SHA-256 in four parts: the same in whatever order they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowsDigest {
    /// The number of rows.
    pub rows: u64,
    sum: [u64; 4],
}

impl RowsDigest {
    /// Counts a row, and adds its digest to the sum.
    pub fn add(&mut self, row: &NeutralRow) {
        self.rows += 1;
        let digest = row.digest();
        let (parts, _) = digest.as_chunks();
        for (sum, part) in self.sum.iter_mut().zip(parts) {
            *sum = sum.wrapping_add(u64::from_be_bytes(*part));
        }
    }
}

impl fmt::Display for RowsDigest {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&hex_encode(&self.sum.map(u64::to_be_bytes).concat()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::row_kinds::KINDS;
    use super::*;

    fn row(id: &str, body: Value) -> NeutralRow {
        let owner = Owner { tenant: "t".into(), principal: "p".into() };
        NeutralRow { owner, values: vec![Value::Bytes(id.into()), body] }
    }

    fn digest(rows: &[NeutralRow]) -> RowsDigest {
        let mut digest = RowsDigest::default();
        rows.iter().for_each(|row| digest.add(row));
        digest
    }

    #[test]
    fn the_digest_of_rows_is_that_of_their_content_in_any_order() {
        let (a, b) = (row("a", Value::Null), row("b", Value::Number(1)));
        assert_eq!(digest(&[a.clone(), b.clone()]), digest(&[b.clone(), a.clone()]));
        for other in [row("b", Value::Number(2)), row("b", Value::Null), row("b", Value::Bytes(vec![1]))] {
            assert_ne!(digest(&[a.clone(), b.clone()]).to_string(), digest(&[a.clone(), other]).to_string());
        }
        assert_ne!(digest(&[a.clone(), a.clone()]), digest(&[a]), "two of a kind do not cancel out");
    }

    #[test]
    fn a_row_that_is_there_with_other_content_is_named() {
        let kind = KINDS.first().unwrap();
        let known = Known::from([(row("a", Value::Null).key(kind), row("a", Value::Null).digest())]);
        let rows = vec![row("a", Value::Null), row("b", Value::Null)];
        assert_eq!(missing(kind, rows, &known).unwrap(), [row("b", Value::Null)]);
        let refused = missing(kind, vec![row("a", Value::Number(1))], &known).unwrap_err();
        assert_eq!(refused, "tenant t, owner p, id a");
    }
}
