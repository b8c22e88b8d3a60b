//! The columns that the rows of a copy are stored in, and their values: an array for each column, so that a statement
//! takes many rows.

use std::collections::HashMap;

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::conversation_items;
use super::error::corrupt;
use super::keys::ResponseKey;
use antwort_protocol::id::is_conversation_id;
use antwort_store::neutral_row::NeutralRow;
use antwort_store::row_kinds::{Holds, Kind, OwnedBy};
use antwort_store::{Owner, StoreError};

/// A column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored {
    pub name: &'static str,
    part: Part,
    /// Whether it tells its row from the others, with the others of the key.
    pub in_key: bool,
}

/// What of a row a column holds. The number is that of the column of its kind.
#[derive(Debug, Clone, Copy)]
enum Part {
    Owner,
    Number(usize),
    Bytes(usize),
    /// The key of the response of this id.
    Response(usize),
    /// Its id, if the key does not tell it.
    ResponseId(usize),
    /// The key of the response that this one continues.
    Previous(usize),
    Conversation(usize),
    /// The key of an item in its conversation.
    Item(usize),
}

impl Part {
    /// The type of an array of its values.
    fn array_type(self) -> Type {
        match self {
            Self::Owner | Self::Number(_) | Self::Conversation(_) => Type::INT8_ARRAY,
            Self::Bytes(_) | Self::ResponseId(_) => Type::BYTEA_ARRAY,
            Self::Response(_) | Self::Previous(_) | Self::Item(_) => Type::UUID_ARRAY,
        }
    }
}

impl Stored {
    /// The columns of a kind of rows, but for the numbers that the database gives them.
    pub(super) fn all(kind: &Kind) -> Vec<Self> {
        let mut all = Vec::new();
        let mut add = |name, part, in_key| all.push(Self { name, part, in_key });
        if kind.owned_by() != OwnedBy::Conversation {
            add("owner", Part::Owner, true);
        }
        for (at, column) in kind.columns.iter().enumerate() {
            match column.holds {
                Holds::Number | Holds::Position | Holds::Lease => {
                    add(column.name, Part::Number(at), column.in_key);
                }
                Holds::Bytes => add(column.name, Part::Bytes(at), column.in_key),
                Holds::OwnId => {
                    add("key", Part::Response(at), true);
                    add(column.name, Part::ResponseId(at), false);
                }
                Holds::PreviousId => {
                    add(column.name, Part::Bytes(at), false);
                    add("previous_key", Part::Previous(at), false);
                }
                Holds::Response => add(column.name, Part::Response(at), column.in_key),
                Holds::ResponseId => {
                    add(column.name, Part::Response(at), column.in_key);
                    add("response_id", Part::ResponseId(at), false);
                }
                Holds::Conversation => add(column.name, Part::Conversation(at), true),
                Holds::ItemId => {
                    add(column.name, Part::Bytes(at), false);
                    add("item_key", Part::Item(at), false);
                }
            }
        }
        all
    }

    /// Its type as an array of `unnest`.
    pub(super) fn array_type(&self) -> Type {
        self.part.array_type()
    }
}

/// The numbers of what rows belong to.
#[derive(Default)]
pub(super) struct Numbers {
    pub owners: HashMap<Owner, i64>,
    /// By id.
    pub conversations: HashMap<Vec<u8>, i64>,
}

/// The values of a column.
pub(super) enum Values<'a> {
    Numbers(Vec<Option<i64>>),
    Bytes(Vec<Option<&'a [u8]>>),
    Uuids(Vec<Option<Uuid>>),
}

impl<'a> Values<'a> {
    /// Those of these rows.
    pub(super) fn of(column: &Stored, rows: &'a [NeutralRow], numbers: &Numbers) -> Result<Self, StoreError> {
        let all = rows.iter();
        Ok(match column.part {
            Part::Owner => Self::Numbers(all.map(|row| numbers.owners.get(&row.owner).copied()).collect()),
            Part::Number(at) => Self::Numbers(collect(all, |row| row.value(at)?.number())?),
            Part::Conversation(at) => Self::Numbers(collect(all, |row| {
                let known = numbers.conversations.get(row.text(at)?.as_bytes());
                known
                    .copied()
                    .map(Some)
                    .ok_or_else(|| corrupt("an item of a conversation that does not exist"))
            })?),
            Part::Bytes(at) => Self::Bytes(collect(all, |row| row.value(at)?.bytes())?),
            Part::ResponseId(at) => Self::Bytes(collect(all, |row| Ok(ResponseKey::of(row.text(at)?).id))?),
            Part::Response(at) => {
                Self::Uuids(collect(all, |row| Ok(Some(ResponseKey::of(row.text(at)?).uuid)))?)
            }
            Part::Previous(at) => Self::Uuids(collect(all, |row| {
                let previous = row.value(at)?.text()?.filter(|id| !is_conversation_id(id));
                Ok(previous.map(|id| ResponseKey::of(id).uuid))
            })?),
            Part::Item(at) => {
                Self::Uuids(collect(all, |row| Ok(Some(conversation_items::key_of(row.text(at)?))))?)
            }
        })
    }

    /// The parameter of a statement.
    pub(super) fn param(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Numbers(values) => values,
            Self::Bytes(values) => values,
            Self::Uuids(values) => values,
        }
    }
}

fn collect<'a, T>(
    rows: impl Iterator<Item = &'a NeutralRow>,
    value: impl Fn(&'a NeutralRow) -> Result<Option<T>, StoreError>,
) -> Result<Vec<Option<T>>, StoreError> {
    rows.map(value).collect()
}
