//! Rows of conversations: found by id, created, changed and deleted.
//!
//! A conversation that is being deleted is marked first, so that no reader sees a part of it; its items are deleted in
//! bounded steps (`conversation_expiry`).

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::conversation_items;
use super::error::database;
use super::owners;
use super::read::text;
use antwort_protocol::id::Id;
use antwort_store::conversation_turn::is_appended;
use antwort_store::conversation_write::ConversationWrite;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::{self, RowPolicy};
use antwort_store::{
    ContextRole, ConversationItem, ConversationRecord, Owner, ResponseRecord, StoreError, StoredConversation,
    StoredItem,
};

/// The last use of a conversation that is being deleted.
pub(super) const DELETED: i64 = 0;

/// A conversation, as a write finds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConversationRow {
    pub key: i64,
    pub next: i64,
    pub visible_from: i64,
}

const FIND: &str = "SELECT key, next_position, visible_from FROM conversations
    WHERE id = ?1 AND owner = ?2 AND used_at > ?3";
const READ: &str = "SELECT created_at, metadata FROM conversations
    WHERE id = ?1 AND owner = ?2 AND used_at > ?3";

/// The conversation of this id and owner; `oldest` is the last use of those that have expired.
pub(super) fn find(
    connection: &Connection,
    owner: i64,
    id: &str,
    oldest: i64,
) -> rusqlite::Result<Option<ConversationRow>> {
    let read = |row: &Row<'_>| {
        Ok(ConversationRow { key: row.get(0)?, next: row.get(1)?, visible_from: row.get(2)? })
    };
    connection.prepare_cached(FIND)?.query_row(params![id, owner, oldest], read).optional()
}

/// The same, of an owner that may have stored nothing.
pub(super) fn find_of(
    connection: &Connection,
    owner: &Owner,
    id: &str,
    oldest: i64,
) -> Result<Option<ConversationRow>, StoreError> {
    match owners::find(connection, owner).map_err(database)? {
        Some(owner) => find(connection, owner, id, oldest).map_err(database),
        None => Ok(None),
    }
}

/// A conversation without its items.
pub(super) fn conversation(
    connection: &Connection,
    owner: &Owner,
    id: &str,
    oldest: i64,
) -> Result<Option<StoredConversation>, StoreError> {
    let Some(owner) = owners::find(connection, owner).map_err(database)? else { return Ok(None) };
    let read = |row: &Row<'_>| {
        Ok(StoredConversation { id: Id::from(id), created_at: row.get(0)?, metadata: text(row, 1)?.into() })
    };
    let mut statement = connection.prepare_cached(READ).map_err(database)?;
    statement.query_row(params![id, owner, oldest], read).optional().map_err(database)
}

/// Applies a write of a client.
pub(super) fn apply(
    connection: &Connection,
    policy: &RowPolicy,
    write: &ConversationWrite,
) -> rusqlite::Result<WriteOutcome> {
    let now = row_policy::now();
    let found = |owner: &Owner, id: &str| match owners::find(connection, owner)? {
        Some(key) => find(connection, key, id, policy.conversations.of(&owner.tenant).oldest_use(now)),
        None => Ok(None),
    };
    match write {
        ConversationWrite::Create(record) => create(connection, record, now),
        ConversationWrite::Update { owner, id, metadata } => {
            let Some(row) = found(owner, id)? else { return Ok(WriteOutcome::Absent) };
            connection
                .prepare_cached("UPDATE conversations SET metadata = ?2, used_at = ?3 WHERE key = ?1")?
                .execute(params![row.key, &**metadata, now])?;
            Ok(WriteOutcome::Changed)
        }
        ConversationWrite::Delete { owner, id } => {
            let Some(row) = found(owner, id)? else { return Ok(WriteOutcome::Absent) };
            mark_deleted(connection, row.key)?;
            Ok(WriteOutcome::Deleting(row.key))
        }
        ConversationWrite::AddItems { owner, id, items } => {
            let Some(row) = found(owner, id)? else { return Ok(WriteOutcome::Absent) };
            add(connection, row, items, now)
        }
        ConversationWrite::DeleteItem { owner, id, item } => {
            let Some(row) = found(owner, id)? else { return Ok(WriteOutcome::Absent) };
            delete_item(connection, row, item)
        }
    }
}

fn create(connection: &Connection, record: &ConversationRecord, now: i64) -> rusqlite::Result<WriteOutcome> {
    if let Some(place) = conversation_items::repeated(connection, None, &record.items)? {
        return Ok(WriteOutcome::Duplicate(place));
    }
    let owner = owners::key(connection, &record.owner)?;
    connection
        .prepare_cached(
            "INSERT INTO conversations (owner, id, created_at, used_at, next_position, visible_from, metadata)
             VALUES (?1, ?2, ?3, ?4, 0, 0, ?5)",
        )?
        .execute(params![owner, record.id.as_str(), record.created_at, now, &*record.metadata])?;
    let row = ConversationRow { key: connection.last_insert_rowid(), next: 0, visible_from: 0 };
    add(connection, row, &record.items, now)
}

fn add(
    connection: &Connection,
    row: ConversationRow,
    items: &[ConversationItem],
    now: i64,
) -> rusqlite::Result<WriteOutcome> {
    if let Some(place) = conversation_items::repeated(connection, Some(row.key), items)? {
        return Ok(WriteOutcome::Duplicate(place));
    }
    append(connection, row, items.iter().map(|item| (&item.item, item.role)), now)?;
    Ok(WriteOutcome::Changed)
}

/// Appends the items of a response that has ended to its conversation, if that was not deleted meanwhile.
pub(super) fn append_turn(
    connection: &Connection,
    owner: i64,
    record: &ResponseRecord,
) -> rusqlite::Result<()> {
    let Some(turn) = record.conversation.as_ref().filter(|_| is_appended(record.status)) else {
        return Ok(());
    };
    // One that has expired since is used now.
    let Some(row) = find(connection, owner, turn.id.as_str(), DELETED)? else { return Ok(()) };
    let roles = turn.roles.iter().copied().chain(std::iter::repeat(ContextRole::Plain));
    append(connection, row, record.items.iter().zip(roles), row_policy::now())?;
    let is_summary = |role: &ContextRole| matches!(role, ContextRole::Summary { .. });
    let added = (number(turn.until), row.next);
    if added.0 < added.1 && turn.roles.iter().any(is_summary) {
        move_behind(connection, row.key, added)?;
    }
    Ok(())
}

/// Moves items behind all others: they were added while a run went on whose summary was not made of them, and would
/// be hidden by it.
fn move_behind(connection: &Connection, key: i64, (first, until): (i64, i64)) -> rusqlite::Result<()> {
    let next: i64 = connection
        .prepare_cached("SELECT next_position FROM conversations WHERE key = ?1")?
        .query_row([key], |row| row.get(0))?;
    conversation_items::shift(connection, key, (first, until), next - first)?;
    connection
        .prepare_cached("UPDATE conversations SET next_position = ?2 WHERE key = ?1")?
        .execute([key, next + until - first])?;
    Ok(())
}

fn append<'a>(
    connection: &Connection,
    row: ConversationRow,
    items: impl Iterator<Item = (&'a StoredItem, ContextRole)>,
    now: i64,
) -> rusqlite::Result<()> {
    let ConversationRow { key, mut next, mut visible_from } = row;
    for (item, role) in items {
        conversation_items::insert(connection, (key, next), item, role)?;
        if let ContextRole::Summary { with_trigger } = role {
            visible_from = next - i64::from(with_trigger);
        }
        next += 1;
    }
    connection
        .prepare_cached(
            "UPDATE conversations SET next_position = ?2, visible_from = ?3, used_at = ?4 WHERE key = ?1",
        )?
        .execute(params![key, next, visible_from.max(0), now])?;
    Ok(())
}

fn delete_item(connection: &Connection, row: ConversationRow, item: &str) -> rusqlite::Result<WriteOutcome> {
    let Some(deleted) = conversation_items::delete(connection, row.key, item)? else {
        return Ok(WriteOutcome::Absent);
    };
    if deleted.is_summary {
        // The items before it are seen again, from the summary before it on.
        let from = conversation_items::newest_summary(connection, row.key)?.unwrap_or(0);
        connection
            .prepare_cached("UPDATE conversations SET visible_from = ?2 WHERE key = ?1")?
            .execute([row.key, from])?;
    }
    Ok(WriteOutcome::Changed)
}

/// No reader sees the conversation from now on.
pub(super) fn mark_deleted(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE conversations SET used_at = 0, metadata = '' WHERE key = ?1")?
        .execute([key])?;
    Ok(())
}

/// Writes what a response has read of its conversation.
pub(super) fn note_context(
    connection: &Connection,
    response: i64,
    record: &ResponseRecord,
) -> rusqlite::Result<()> {
    let Some(turn) = &record.conversation else { return Ok(()) };
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO response_conversations (response, first, until) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![response, number(turn.first), number(turn.until)])?;
    Ok(())
}

/// Forgets what a deleted response has read.
pub(super) fn forget_context(connection: &Connection, response: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM response_conversations WHERE response = ?1")?
        .execute([response])?;
    Ok(())
}

fn number(position: u64) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}
