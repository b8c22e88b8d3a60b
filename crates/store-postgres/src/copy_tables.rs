//! The statements of a copy: made of what the columns of a table hold, and of their types.

use std::collections::HashMap;

use tokio_postgres::Row;

use super::connection::Connection;
use super::copy_columns::Stored;
use super::error::{corrupt, database};
use super::values::get;
use antwort_store::neutral_row::{NeutralRow, Value};
use antwort_store::row_kinds::{Column, Holds, KINDS, Kind, OwnedBy, check_schema};
use antwort_store::{Owner, StoreError};

/// A table's statements.
pub(super) struct Table {
    pub kind: &'static Kind,
    pub columns: Vec<Stored>,
    /// All rows.
    pub export: String,
    /// The rows of some keys, as `export` has them. The values of the key's columns are its parameters.
    pub find: String,
    /// Its parameters are the values of all columns.
    pub insert: String,
}

impl Table {
    /// The statements of all tables; an error if the schema has something that would not be copied.
    pub(super) async fn all(connection: &Connection) -> Result<Vec<Self>, StoreError> {
        let types = types(connection).await?;
        let found: Vec<_> = types.keys().cloned().collect();
        check_schema(&found, stored_columns)?;
        Ok(KINDS.iter().map(|kind| Self::of(kind, &types)).collect())
    }

    fn of(kind: &'static Kind, types: &Types) -> Self {
        let columns = Stored::all(kind);
        let export = export(kind, types);
        let (find, insert) = (find(&export, kind, &columns, types), insert(kind, &columns, types));
        Self { kind, columns, export, find, insert }
    }

    /// A row as the statements return it.
    pub(super) fn read(&self, row: &Row) -> Result<NeutralRow, StoreError> {
        let text = |column| std::str::from_utf8(get(row, column)?).map_err(corrupt);
        let owner = Owner { tenant: text(0)?.into(), principal: text(1)?.into() };
        let value = |(at, column): (usize, &Column)| {
            let value = match is_number(column) {
                true => get::<Option<i64>>(row, at + 2)?.map(Value::Number),
                false => get::<Option<Vec<u8>>>(row, at + 2)?.map(Value::Bytes),
            };
            Ok(value.unwrap_or(Value::Null))
        };
        let values = self.kind.columns.iter().enumerate().map(value).collect::<Result<_, StoreError>>()?;
        Ok(NeutralRow { owner, values })
    }
}

fn is_number(column: &Column) -> bool {
    matches!(column.holds, Holds::Number | Holds::Position | Holds::Lease)
}

/// The types of columns, by table and name.
type Types = HashMap<(String, String), String>;

const TYPES: &str = "SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('responses'))";

async fn types(connection: &Connection) -> Result<Types, StoreError> {
    let rows = connection.client.query_typed(TYPES, &[]).await.map_err(|error| database(&error))?;
    rows.iter().map(|row| Ok(((get(row, 0)?, get(row, 1)?), get(row, 2)?))).collect()
}

/// The columns that a table's rows are stored in.
fn stored_columns(kind: &Kind) -> Vec<&'static str> {
    let mut stored: Vec<_> = Stored::all(kind).iter().map(|column| column.name).collect();
    if kind.is_numbered {
        stored.push("key");
    }
    stored
}

/// The id of the response with this key, where the key may tell it.
fn id(id: &str, key: &str) -> String {
    format!("coalesce({id}, convert_to('resp_' || replace({key}::text, '-', ''), 'UTF8'))")
}

fn export(kind: &Kind, types: &Types) -> String {
    let mut columns = "o.tenant, o.principal".to_owned();
    for column in kind.columns {
        columns.push_str(", ");
        let name = column.name;
        columns.push_str(&match column.holds {
            Holds::OwnId => id("t.id", "t.key"),
            Holds::Response => id("r.id", "r.key"),
            Holds::ResponseId => id("t.response_id", &format!("t.\"{name}\"")),
            Holds::Conversation => "c.id".to_owned(),
            Holds::Lease => "0::bigint".to_owned(),
            _ => match type_of(kind, name, types) {
                "bigint" | "bytea" => format!("t.\"{name}\""),
                "boolean" => format!("t.\"{name}\"::int::bigint"),
                "text" => format!("convert_to(t.\"{name}\", 'UTF8')"),
                _ => format!("t.\"{name}\"::bigint"),
            },
        });
    }
    let mut tables = format!("{} t", kind.table);
    if kind.has_response() {
        tables.push_str(" JOIN responses r ON r.key = t.response AND r.owner = t.owner");
    }
    tables.push_str(match kind.owned_by() {
        OwnedBy::Itself | OwnedBy::Response => " JOIN owners o ON o.key = t.owner",
        OwnedBy::Conversation => {
            " JOIN conversations c ON c.key = t.conversation JOIN owners o ON o.key = c.owner"
        }
    });
    format!("SELECT {columns} FROM {tables}")
}

fn type_of<'a>(kind: &Kind, column: &str, types: &'a Types) -> &'a str {
    types.get(&(kind.table.to_owned(), column.to_owned())).map_or("", String::as_str)
}

fn find(export: &str, kind: &Kind, columns: &[Stored], types: &Types) -> String {
    let key: Vec<_> = columns.iter().filter(|column| column.in_key).collect();
    let term = |column: &&Stored| format!("t.\"{}\" = {}", column.name, value(kind, column.name, types));
    let terms: Vec<_> = key.iter().map(term).collect();
    format!("{export} JOIN {} ON {}", unnest(key.into_iter()), terms.join(" AND "))
}

fn insert(kind: &Kind, columns: &[Stored], types: &Types) -> String {
    let names: Vec<_> = columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
    let values: Vec<_> = columns.iter().map(|column| value(kind, column.name, types)).collect();
    let (names, values) = (names.join(", "), values.join(", "));
    format!("INSERT INTO {} ({names}) SELECT {values} FROM {}", kind.table, unnest(columns.iter()))
}

/// A value of `n` as the column has it.
fn value(kind: &Kind, name: &str, types: &Types) -> String {
    match type_of(kind, name, types) {
        "bigint" | "bytea" | "uuid" => format!("n.\"{name}\""),
        "boolean" => format!("n.\"{name}\" <> 0"),
        "text" => format!("convert_from(n.\"{name}\", 'UTF8')"),
        other => format!("n.\"{name}\"::{other}"),
    }
}

/// The rows of arrays, which are the parameters: `n`, with these columns.
fn unnest<'a>(columns: impl Iterator<Item = &'a Stored>) -> String {
    let (mut params, mut names) = (Vec::new(), Vec::new());
    for (number, column) in (1..).zip(columns) {
        params.push(format!("${number}"));
        names.push(format!("\"{}\"", column.name));
    }
    format!("unnest({}) AS n ({})", params.join(", "), names.join(", "))
}
