//! Rows of conversations: found by id, created, changed and deleted.
//!
//! A conversation that is being deleted is marked first, so that no reader sees a part of it; its items are deleted in
//! bounded steps (`conversation_expiry`). Whoever adds items or deletes one holds the lock of the conversation's row.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::conversation_items::{self, NewItems};
use super::session::{Param, Session};
use super::values::{get, number, text};
use antwort_protocol::id::Id;
use antwort_store::conversation_write::ConversationWrite;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{ContextRole, ConversationItem, ConversationRecord, StoreError, StoredConversation};

/// The last use of a conversation that is being deleted.
pub(super) const DELETED: i64 = 0;

/// A conversation, as a read or a write finds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConversationRow {
    pub key: i64,
    pub next: i64,
    pub visible_from: i64,
}

macro_rules! find_sql {
    () => {
        "SELECT key, next_position, visible_from FROM conversations
            WHERE id = $1 AND owner = $2 AND used_at > $3"
    };
}

const FIND: &str = find_sql!();
const LOCK: &str = concat!(find_sql!(), " FOR NO KEY UPDATE");
const READ: &str = "SELECT created_at, metadata FROM conversations
    WHERE id = $1 AND owner = $2 AND used_at > $3";

/// The conversation of this id and owner; `oldest` is the last use of those that have expired.
pub(super) async fn find(
    session: Session<'_>,
    owner: i64,
    id: &str,
    oldest: i64,
) -> Result<Option<ConversationRow>, StoreError> {
    row_of(session, FIND, owner, id, oldest).await
}

async fn row_of(
    session: Session<'_>,
    sql: &'static str,
    owner: i64,
    id: &str,
    oldest: i64,
) -> Result<Option<ConversationRow>, StoreError> {
    let id = id.as_bytes();
    let parameters: [Param<'_>; 3] = [(&id, Type::BYTEA), (&owner, Type::INT8), (&oldest, Type::INT8)];
    let row = session.query_opt(sql, &parameters).await?;
    let read =
        |row: &Row| Ok(ConversationRow { key: get(row, 0)?, next: get(row, 1)?, visible_from: get(row, 2)? });
    row.as_ref().map(read).transpose()
}

/// A conversation without its items.
pub(super) async fn conversation(
    session: Session<'_>,
    owner: i64,
    id: &str,
    oldest: i64,
) -> Result<Option<StoredConversation>, StoreError> {
    let known = id.as_bytes();
    let row = session
        .query_opt(READ, &[(&known, Type::BYTEA), (&owner, Type::INT8), (&oldest, Type::INT8)])
        .await?;
    let read = |row: &Row| {
        let metadata = text(row, 1)?.into();
        Ok(StoredConversation { id: Id::from(id), created_at: get(row, 0)?, metadata })
    };
    row.as_ref().map(read).transpose()
}

/// Applies a write of a client, whose number is `owner`.
pub(super) async fn apply(
    session: Session<'_>,
    policy: &RowPolicy,
    owner: i64,
    write: &ConversationWrite,
) -> Result<WriteOutcome, StoreError> {
    let now = now();
    let (of, id) = match write {
        ConversationWrite::Create(record) => return create(session, owner, record, now).await,
        ConversationWrite::Update { owner, id, .. }
        | ConversationWrite::Delete { owner, id }
        | ConversationWrite::AddItems { owner, id, .. }
        | ConversationWrite::DeleteItem { owner, id, .. } => (owner, id),
    };
    let oldest = policy.conversations.of(&of.tenant).oldest_use(now);
    let Some(row) = row_of(session, LOCK, owner, id, oldest).await? else {
        return Ok(WriteOutcome::Absent);
    };
    match write {
        ConversationWrite::Create(_) => Ok(WriteOutcome::Absent),
        ConversationWrite::Update { metadata, .. } => {
            let metadata = metadata.as_bytes();
            let parameters: [Param<'_>; 3] =
                [(&row.key, Type::INT8), (&metadata, Type::BYTEA), (&now, Type::INT8)];
            session.execute(UPDATE, &parameters).await?;
            Ok(WriteOutcome::Changed)
        }
        ConversationWrite::Delete { .. } => {
            mark_deleted(session, row.key).await?;
            Ok(WriteOutcome::Deleting(row.key))
        }
        ConversationWrite::AddItems { items, .. } => add(session, row, items, now).await,
        ConversationWrite::DeleteItem { item, .. } => delete_item(session, row, item).await,
    }
}

const UPDATE: &str = "UPDATE conversations SET metadata = $2, used_at = $3 WHERE key = $1";
/// Creates it with a place for its items. An id that is taken is that of a write which is repeated, as it was not known
/// whether it had been committed.
const CREATE: &str =
    "INSERT INTO conversations (owner, id, created_at, used_at, next_position, visible_from, metadata)
    VALUES ($1, $2, $3, $4, 0, 0, $5) ON CONFLICT (id) DO NOTHING RETURNING key";
const IS_OWN: &str = "SELECT 1 FROM conversations WHERE id = $1 AND owner = $2";

async fn create(
    session: Session<'_>,
    owner: i64,
    record: &ConversationRecord,
    now: i64,
) -> Result<WriteOutcome, StoreError> {
    if let Some(place) = conversation_items::repeated(session, None, &record.items).await? {
        return Ok(WriteOutcome::Duplicate(place));
    }
    let (id, metadata) = (record.id.as_str().as_bytes(), record.metadata.as_bytes());
    let parameters: [Param<'_>; 5] = [
        (&owner, Type::INT8),
        (&id, Type::BYTEA),
        (&record.created_at, Type::INT8),
        (&now, Type::INT8),
        (&metadata, Type::BYTEA),
    ];
    if let Some(created) = session.query_opt(CREATE, &parameters).await? {
        let row = ConversationRow { key: get(&created, 0)?, next: 0, visible_from: 0 };
        append(session, row, &record.items, now).await?;
        return Ok(WriteOutcome::Changed);
    }
    match session.query_opt(IS_OWN, &[(&id, Type::BYTEA), (&owner, Type::INT8)]).await? {
        Some(_) => Ok(WriteOutcome::Changed),
        None => Err(StoreError::Database(format!("there is a conversation {} already", record.id))),
    }
}

async fn add(
    session: Session<'_>,
    row: ConversationRow,
    items: &[ConversationItem],
    now: i64,
) -> Result<WriteOutcome, StoreError> {
    if let Some(place) = conversation_items::repeated(session, Some(row.key), items).await? {
        return Ok(WriteOutcome::Duplicate(place));
    }
    append(session, row, items, now).await?;
    Ok(WriteOutcome::Changed)
}

const APPEND: &str = "UPDATE conversations
    SET next_position = next_position + $2, visible_from = greatest(coalesce(next_position + $3, visible_from), 0),
        used_at = $4
    WHERE key = $1";

/// Appends items whose ids are free.
async fn append(
    session: Session<'_>,
    row: ConversationRow,
    items: &[ConversationItem],
    now: i64,
) -> Result<(), StoreError> {
    let columns = NewItems::of(items.iter().map(|item| (&item.item, item.role)));
    if !items.is_empty() {
        conversation_items::insert(session, (row.key, row.next), &columns).await?;
    }
    let count = number(items.len() as u64);
    let summary = summary_place(items.iter().map(|item| item.role));
    let parameters: [Param<'_>; 4] =
        [(&row.key, Type::INT8), (&count, Type::INT8), (&summary, Type::INT8), (&now, Type::INT8)];
    session.execute(APPEND, &parameters).await.map(drop)
}

/// Where the items begin that are seen behind the last summary among these, counted from the first of them.
pub(super) fn summary_place(roles: impl Iterator<Item = ContextRole>) -> Option<i64> {
    let mut found = None;
    for (place, role) in (0_i64..).zip(roles) {
        if let ContextRole::Summary { with_trigger } = role {
            found = Some(place - i64::from(with_trigger));
        }
    }
    found
}

const SHOW_FROM: &str = "UPDATE conversations SET visible_from = $2 WHERE key = $1";

async fn delete_item(
    session: Session<'_>,
    row: ConversationRow,
    item: &str,
) -> Result<WriteOutcome, StoreError> {
    let Some(deleted) = conversation_items::delete(session, row.key, item).await? else {
        return Ok(WriteOutcome::Absent);
    };
    if deleted.is_summary {
        // The items before it are seen again, from the summary before it on.
        let from = conversation_items::newest_summary(session, row.key).await?.unwrap_or(0);
        session.execute(SHOW_FROM, &[(&row.key, Type::INT8), (&from, Type::INT8)]).await?;
    }
    Ok(WriteOutcome::Changed)
}

const MARK: &str = "UPDATE conversations SET used_at = 0, metadata = ''::bytea WHERE key = $1";

/// No reader sees the conversation from now on.
pub(super) async fn mark_deleted(session: Session<'_>, key: i64) -> Result<(), StoreError> {
    session.execute(MARK, &[(&key, Type::INT8)]).await.map(drop)
}
