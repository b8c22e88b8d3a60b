//! What one store copies to another: the tables whose rows are data, and what their columns hold in every backend.
//!
//! A new column of a table is a line here, and so is a new table. Both backends make their statements of these lines, and
//! a copy refuses a schema that has a table or a column without one.

use super::StoreError;

/// What a column holds, and so how it is stored in either backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// A number, or a truth value.
    Number,
    /// A text or bytes.
    Bytes,
    /// The id of the response that the row is.
    OwnId,
    /// The id of what the response continues.
    PreviousId,
    /// A response that has a row.
    Response,
    /// A response that need not have a row.
    ResponseId,
    /// A conversation.
    Conversation,
    /// The position of an item in its conversation.
    Position,
    /// The id of an item of a conversation.
    ItemId,
    /// Until when a process has a run: no process has one that is copied, so that it is 0 in every copy.
    Lease,
}

/// A column, as every backend has it.
#[derive(Debug)]
pub struct Column {
    /// Its name in the table.
    pub name: &'static str,
    /// What its values mean.
    pub holds: Holds,
    /// Whether it tells the row from the others of its owner, with the others of the key.
    pub in_key: bool,
}

/// How the owner of a row is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnedBy {
    /// The row names it.
    Itself,
    /// It is that of the row's response.
    Response,
    /// It is that of the row's conversation.
    Conversation,
}

/// A table.
#[derive(Debug)]
pub struct Kind {
    /// Its name in the database.
    pub table: &'static str,
    /// Whether the database numbers its rows, in a column `key`.
    pub is_numbered: bool,
    /// The columns that are copied, in the order of the values of a row.
    pub columns: &'static [Column],
}

impl Kind {
    /// How the owner of a row is known, where rows of responses do not name it again.
    pub fn owned_by(&self) -> OwnedBy {
        let has = |holds| self.columns.iter().any(|column| column.in_key && column.holds == holds);
        match (has(Holds::Response), has(Holds::Conversation)) {
            (true, _) => OwnedBy::Response,
            (_, true) => OwnedBy::Conversation,
            _ => OwnedBy::Itself,
        }
    }

    /// Whether a column refers to a row of `responses`.
    pub fn has_response(&self) -> bool {
        self.place_holding(Holds::Response).is_some()
    }

    /// The place of the column that holds this.
    pub fn place_holding(&self, holds: Holds) -> Option<usize> {
        self.columns.iter().position(|column| column.holds == holds)
    }

    /// The places of a response's own id and of the index of its items, which lead to the rows that follow from it.
    pub fn indexed_places(&self) -> Option<(usize, usize)> {
        let index = self.columns.iter().position(|column| column.name == "item_index");
        self.place_holding(Holds::OwnId).zip(index)
    }
}

const fn key(name: &'static str, holds: Holds) -> Column {
    Column { name, holds, in_key: true }
}

const fn number(name: &'static str) -> Column {
    column(name, Holds::Number)
}

const fn bytes(name: &'static str) -> Column {
    column(name, Holds::Bytes)
}

const fn column(name: &'static str, holds: Holds) -> Column {
    Column { name, holds, in_key: false }
}

const fn table(table: &'static str, columns: &'static [Column]) -> Kind {
    Kind { table, is_numbered: false, columns }
}

const fn numbered(table: &'static str, columns: &'static [Column]) -> Kind {
    Kind { table, is_numbered: true, columns }
}

/// The tables that are copied. A row stands behind those that it refers to.
pub const KINDS: &[Kind] = &[
    table(
        "responses",
        &[
            key("id", Holds::OwnId),
            number("expires_at"),
            number("lineage_until"),
            number("created_at"),
            number("finished_at"),
            bytes("status"),
            column("previous_id", Holds::PreviousId),
            bytes("model"),
            bytes("item_index"),
            bytes("items"),
            bytes("body"),
            bytes("trace"),
            number("unlisted"),
            bytes("failed_tenant"),
        ],
    ),
    table(
        "runs",
        &[
            key("response", Holds::Response),
            bytes("instance"),
            number("epoch"),
            column("lease_until", Holds::Lease),
            number("orphan"),
            bytes("state"),
            number("cancel_requested"),
            number("attempt"),
            bytes("job"),
            number("waits_until"),
            bytes("conversation"),
            number("place"),
            bytes("tenant"),
        ],
    ),
    table(
        "turns",
        &[key("response", Holds::Response), key("turn", Holds::Number), bytes("item_index"), bytes("items")],
    ),
    table(
        "tool_calls",
        &[
            key("response", Holds::Response),
            key("turn", Holds::Number),
            key("position", Holds::Number),
            bytes("server_label"),
            bytes("tool"),
            bytes("arguments"),
            number("dispatched_at"),
            number("completed_at"),
            bytes("output"),
            bytes("error"),
        ],
    ),
    table(
        "pending_calls",
        &[
            key("response", Holds::Response),
            key("turn", Holds::Number),
            key("position", Holds::Number),
            bytes("source"),
            number("awaited"),
            number("expires_at"),
            bytes("call_id"),
            bytes("request"),
            bytes("item_id"),
            bytes("tool"),
            bytes("on_complete"),
            bytes("spec"),
            number("completed_at"),
            bytes("output"),
            bytes("error"),
            number("settled_at"),
            bytes("task"),
            number("poll_at"),
        ],
    ),
    table(
        "approvals",
        &[
            key("id", Holds::Bytes),
            column("response", Holds::ResponseId),
            bytes("arguments"),
            bytes("definition"),
            number("expires_at"),
            number("used_at"),
            bytes("used_by"),
        ],
    ),
    numbered(
        "conversations",
        &[
            key("id", Holds::Bytes),
            number("created_at"),
            number("used_at"),
            number("next_position"),
            number("visible_from"),
            bytes("metadata"),
        ],
    ),
    table(
        "conversation_items",
        &[
            key("conversation", Holds::Conversation),
            key("position", Holds::Position),
            column("item_id", Holds::ItemId),
            number("direction"),
            number("context"),
            number("tokens"),
            bytes("state"),
            bytes("model_view"),
            bytes("wire"),
        ],
    ),
    table("response_conversations", &[key("response", Holds::Response), number("first"), number("until")]),
    table(
        "idempotency_keys",
        &[
            key("key", Holds::Bytes),
            bytes("fingerprint"),
            column("response", Holds::Response),
            number("expires_at"),
        ],
    ),
    table("deleted_keys", &[key("key", Holds::Bytes), bytes("fingerprint"), number("expires_at")]),
    table(
        "event_log",
        &[
            key("response", Holds::Response),
            key("first", Holds::Number),
            number("last"),
            number("is_end"),
            bytes("bytes"),
        ],
    ),
    table("event_logs", &[key("response", Holds::Response), number("expires_at"), number("replaced_from")]),
    numbered(
        "webhook_outbox",
        &[
            key("event_id", Holds::Bytes),
            key("webhook", Holds::Bytes),
            bytes("body"),
            number("attempts"),
            number("due_at"),
        ],
    ),
];

/// The tables that are not copied: owners and the ids of items follow from the rows that are, and the others are of no
/// use to another database.
const NOT_COPIED: &[&str] =
    &["owners", "item_ids", "item_states", "probe", "antwort_schema", "conversation_locks", "tenant_walks"];

/// Columns that are not copied: a claim is of a process that has the run.
const NOT_COPIED_COLUMNS: &[(&str, &str)] = &[("runs", "claim")];

/// Refuses a schema with a table or a column that would not be copied, or without one that is. `found` are its tables
/// with their columns, `stored` the columns that a backend stores a table's rows in.
pub fn check_schema(
    found: &[(String, String)],
    stored: impl Fn(&Kind) -> Vec<&'static str>,
) -> Result<(), StoreError> {
    let expected: Vec<(&str, &str)> =
        KINDS.iter().flat_map(|kind| stored(kind).into_iter().map(|name| (kind.table, name))).collect();
    let is_known = |table: &str, column: &str| {
        NOT_COPIED.contains(&table)
            || NOT_COPIED_COLUMNS.contains(&(table, column))
            || expected.contains(&(table, column))
    };
    let unknown = found.iter().find(|(table, column)| !is_known(table, column));
    if let Some((table, column)) = unknown {
        return Err(StoreError::Schema(format!(
            "this antwort does not know how to copy the column {column} of the table {table}: a copy would lose it"
        )));
    }
    let is_found = |table: &str, column: &str| found.iter().any(|(of, name)| of == table && name == column);
    match expected.iter().find(|(table, column)| !is_found(table, column)) {
        Some((table, column)) => Err(StoreError::Schema(format!(
            "the table {table} has no column {column}: the database is damaged"
        ))),
        None => Ok(()),
    }
}
