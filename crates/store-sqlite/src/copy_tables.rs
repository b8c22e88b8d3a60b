//! The statements of a copy: made of what the columns of a table hold, and of their types.

use std::collections::HashMap;

use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};
use rusqlite::{Connection, Row};

use super::conversation_items::position;
use super::error::{corrupt, database};
use super::keys::KeyRange;
use super::{conversation_items, item_ids, owners, rows};
use antwort_store::neutral_row::{NeutralRow, Value};
use antwort_store::row_kinds::{Column, Holds, KINDS, Kind, OwnedBy, check_schema};
use antwort_store::{Owner, StoreError};

/// A table's statements.
pub(super) struct Table {
    pub kind: &'static Kind,
    /// All rows, in the order of their keys.
    pub export: String,
    /// The row of a key, as `export` has it.
    find: String,
    insert: String,
    /// Whether each column of the kind is a text.
    is_text: Vec<bool>,
}

impl Table {
    /// The statements of all tables; an error if the schema has something that would not be copied.
    pub(super) fn all(connection: &Connection) -> Result<Vec<Self>, StoreError> {
        let types = types(connection).map_err(database)?;
        let found: Vec<_> = types.keys().cloned().collect();
        check_schema(&found, stored_columns)?;
        let is_text = |kind: &Kind, column: &Column| {
            let place = (kind.table.to_owned(), column.name.to_owned());
            types.get(&place).is_some_and(|of| of == "TEXT")
        };
        let table = |kind: &'static Kind| Self {
            kind,
            export: export(kind),
            find: find(kind),
            insert: insert(kind),
            is_text: kind.columns.iter().map(|column| is_text(kind, column)).collect(),
        };
        Ok(KINDS.iter().map(table).collect())
    }

    /// A row as the statements return it.
    pub(super) fn read(&self, row: &Row<'_>) -> Result<NeutralRow, StoreError> {
        let text = |column| row.get::<_, String>(column).map_err(database);
        let owner = Owner { tenant: text(0)?.into(), principal: text(1)?.into() };
        let value = |column: usize| {
            Ok(match row.get_ref(column + 2).map_err(database)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => Value::Number(number),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
                ValueRef::Real(_) => return Err(corrupt("a fraction")),
            })
        };
        let values = (0..self.kind.columns.len()).map(value).collect::<Result<_, StoreError>>()?;
        Ok(NeutralRow { owner, values })
    }

    /// The row that has the key of this one.
    pub(super) fn find(
        &self,
        connection: &Connection,
        row: &NeutralRow,
    ) -> Result<Option<NeutralRow>, StoreError> {
        let Some(place) = Place::of(connection, self.kind, row)? else { return Ok(None) };
        let mut params = Vec::new();
        if self.kind.owned_by() == OwnedBy::Itself {
            params.push(number(place.owner));
        }
        for (index, column) in self.kind.columns.iter().enumerate().filter(|(_, column)| column.in_key) {
            match column.holds {
                Holds::OwnId => {
                    let KeyRange { first, last } = KeyRange::of(row.text(index)?);
                    params.extend([number(first), number(last), self.bind(row, index)?]);
                }
                Holds::Response => params.push(optional(place.response)),
                Holds::Conversation => params.push(optional(place.conversation)),
                Holds::Position => params.push(number(place.position_key(row, index)?)),
                _ => params.push(self.bind(row, index)?),
            }
        }
        let mut statement = connection.prepare_cached(&self.find).map_err(database)?;
        let mut found = statement.query(rusqlite::params_from_iter(params)).map_err(database)?;
        found.next().map_err(database)?.map(|row| self.read(row)).transpose()
    }

    /// Inserts a row that is not there, with what leads to it.
    pub(super) fn insert(&self, connection: &Connection, row: &NeutralRow) -> Result<(), StoreError> {
        let place = Place::of(connection, self.kind, row)?
            .ok_or_else(|| corrupt("a row of a response or a conversation that does not exist"))?;
        let mut params = Vec::new();
        if self.kind.owned_by() == OwnedBy::Itself {
            params.push(number(place.owner));
        }
        let mut own_key = None;
        for (index, column) in self.kind.columns.iter().enumerate() {
            match column.holds {
                Holds::OwnId => {
                    let key = free_key(connection, place.owner, row.text(index)?)?;
                    own_key = Some(key);
                    params.extend([number(key), self.bind(row, index)?]);
                }
                Holds::Response => params.push(optional(place.response)),
                Holds::Conversation => params.push(optional(place.conversation)),
                Holds::Position => params.push(number(place.position_key(row, index)?)),
                _ => params.push(self.bind(row, index)?),
            }
        }
        let mut statement = connection.prepare_cached(&self.insert).map_err(database)?;
        statement.execute(rusqlite::params_from_iter(params)).map_err(database)?;
        if let Some((key, (id, index))) = own_key.zip(self.kind.indexed_places()) {
            let index = row.value(index)?.bytes()?.unwrap_or_default();
            item_ids::replace(connection, (place.owner, key), row.text(id)?, &[], index).map_err(database)?;
        }
        Ok(())
    }

    /// The value of a column, as it is stored.
    fn bind<'a>(&self, row: &'a NeutralRow, index: usize) -> Result<ToSqlOutput<'a>, StoreError> {
        Ok(match row.value(index)? {
            Value::Null => ToSqlOutput::Owned(SqlValue::Null),
            Value::Number(value) => number(*value),
            Value::Bytes(bytes) if self.is_text.get(index) == Some(&true) => {
                ToSqlOutput::Borrowed(ValueRef::Text(bytes))
            }
            Value::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}

/// The keys of what a row belongs to.
struct Place {
    owner: i64,
    response: Option<i64>,
    conversation: Option<i64>,
}

impl Place {
    /// `None` if what the row belongs to does not exist.
    fn of(connection: &Connection, kind: &Kind, row: &NeutralRow) -> Result<Option<Self>, StoreError> {
        let owner = owners::key(connection, &row.owner).map_err(database)?;
        let mut place = Self { owner, response: None, conversation: None };
        for (index, column) in kind.columns.iter().enumerate() {
            match column.holds {
                Holds::Response => {
                    let slots = rows::slots(connection, owner, row.text(index)?).map_err(database)?;
                    let Some(response) = slots.row else { return Ok(None) };
                    place.response = Some(response.key);
                }
                Holds::Conversation => {
                    let sql = "SELECT key FROM conversations WHERE id = ?1 AND owner = ?2";
                    let mut statement = connection.prepare_cached(sql).map_err(database)?;
                    let mut found =
                        statement.query(rusqlite::params![row.text(index)?, owner]).map_err(database)?;
                    let Some(found) = found.next().map_err(database)? else { return Ok(None) };
                    place.conversation = Some(found.get(0).map_err(database)?);
                }
                _ => {}
            }
        }
        Ok(Some(place))
    }

    /// The key of an item of a conversation.
    fn position_key(&self, row: &NeutralRow, index: usize) -> Result<i64, StoreError> {
        let at = row.value(index)?.number()?.zip(self.conversation);
        let (position, conversation) = at.ok_or_else(|| corrupt("an item without a position"))?;
        Ok(conversation_items::key(conversation, position))
    }
}

fn free_key(connection: &Connection, owner: i64, id: &str) -> Result<i64, StoreError> {
    let slots = rows::slots(connection, owner, id).map_err(database)?;
    slots.free.ok_or_else(|| StoreError::Database(format!("all keys that the id {id} may have are taken")))
}

fn number(value: i64) -> ToSqlOutput<'static> {
    ToSqlOutput::Owned(SqlValue::Integer(value))
}

fn optional(value: Option<i64>) -> ToSqlOutput<'static> {
    value.map_or(ToSqlOutput::Owned(SqlValue::Null), number)
}

/// The types of the columns of all tables.
fn types(connection: &Connection) -> rusqlite::Result<HashMap<(String, String), String>> {
    let sql = "SELECT t.name, c.name, c.type FROM sqlite_schema t JOIN pragma_table_info(t.name) c
        WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
    rows.collect()
}

/// The columns that a table's rows are stored in.
fn stored_columns(kind: &Kind) -> Vec<&'static str> {
    let mut stored = inserted_columns(kind);
    if kind.is_numbered {
        stored.push("key");
    }
    stored
}

/// The columns of an insertion, in the order of its values.
fn inserted_columns(kind: &Kind) -> Vec<&'static str> {
    let mut inserted = Vec::new();
    if kind.owned_by() == OwnedBy::Itself {
        inserted.push("owner");
    }
    for column in kind.columns {
        match column.holds {
            Holds::OwnId => inserted.extend(["key", column.name]),
            Holds::Position => inserted.push("key"),
            _ => inserted.push(column.name),
        }
    }
    inserted
}

fn export(kind: &Kind) -> String {
    let mut columns = "o.tenant, o.principal".to_owned();
    for column in kind.columns {
        columns.push_str(", ");
        columns.push_str(&match column.holds {
            Holds::Response => "r.id".to_owned(),
            Holds::Conversation => "c.id".to_owned(),
            Holds::Position => format!("t.key & {}", position(-1)),
            Holds::Lease => "0".to_owned(),
            _ => format!("t.\"{}\"", column.name),
        });
    }
    // The table is the outermost loop of the join, and so read in the order of its keys.
    let mut tables = format!("{} t", kind.table);
    if kind.has_response() {
        tables.push_str(" CROSS JOIN responses r ON r.key = t.response");
    }
    tables.push_str(match kind.owned_by() {
        OwnedBy::Itself => " CROSS JOIN owners o ON o.key = t.owner",
        OwnedBy::Response => " CROSS JOIN owners o ON o.key = r.owner",
        OwnedBy::Conversation => {
            " CROSS JOIN conversations c ON c.key = t.conversation CROSS JOIN owners o ON o.key = c.owner"
        }
    });
    format!("SELECT {columns} FROM {tables}")
}

fn find(kind: &Kind) -> String {
    let mut terms = Vec::new();
    if kind.owned_by() == OwnedBy::Itself {
        terms.push("t.owner = ?".to_owned());
    }
    for column in kind.columns.iter().filter(|column| column.in_key) {
        terms.push(match column.holds {
            Holds::OwnId => format!("t.key BETWEEN ? AND ? AND t.\"{}\" = ?", column.name),
            Holds::Position => "t.key = ?".to_owned(),
            _ => format!("t.\"{}\" = ?", column.name),
        });
    }
    format!("{} WHERE {}", export(kind), terms.join(" AND "))
}

fn insert(kind: &Kind) -> String {
    let columns: Vec<_> = inserted_columns(kind).iter().map(|name| format!("\"{name}\"")).collect();
    let values = vec!["?"; columns.len()].join(", ");
    format!("INSERT INTO {} ({}) VALUES ({values})", kind.table, columns.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn every_column_of_the_schema_is_copied_or_named_as_not_copied() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        Table::all(&connection).unwrap();
        connection.execute_batch("ALTER TABLE runs ADD COLUMN novel TEXT").unwrap();
        let refused = Table::all(&connection).err().unwrap().to_string();
        assert!(refused.contains("column novel of the table runs"), "{refused}");
    }

    #[test]
    fn a_row_is_found_by_an_index() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        for table in Table::all(&connection).unwrap() {
            let plan = schema::plan(&connection, &table.find);
            assert!(plan.iter().all(|step| !step.starts_with("SCAN")), "{}: {plan:?}", table.kind.table);
        }
    }
}
