//! What a response does to the conversation that it was made in: the write that ends it appends its items and releases the
//! conversation, and beside its row stands what it has read.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::conversation_items::{self, NewItems};
use super::conversation_locks::HeldLocks;
use super::conversations::summary_place;
use super::session::{Param, Session};
use super::values::{get, number};
use antwort_store::conversation_turn::is_appended;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{ContextRole, ConversationTurn, ResponseRecord, StoreError, StoredItem};

/// Takes places behind all items, which holds the row against other replicas, and inserts the items whose ids are free.
/// One that has expired since the run began is used now.
const APPEND: &str = "WITH place AS (
        UPDATE conversations SET next_position = next_position + $3, used_at = $5,
            visible_from = greatest(coalesce(next_position + $4, visible_from), 0)
        WHERE id = $1 AND owner = $2 AND used_at > 0 RETURNING key, next_position - $3 AS first),
    inserted AS (
        INSERT INTO conversation_items
            (conversation, position, item_key, item_id, direction, context, tokens, state, model_view, wire)
        SELECT p.key, p.first + n.place - 1, n.item_key, n.item_id, n.direction, n.context, n.tokens, n.state,
            n.model_view, n.wire
        FROM place p CROSS JOIN unnest($6::uuid[], $7::bytea[], $8::smallint[], $9::smallint[], $10::bigint[],
            $11::bytea[], $12::bytea[], $13::bytea[]) WITH ORDINALITY
            AS n (item_key, item_id, direction, context, tokens, state, model_view, wire, place)
        ON CONFLICT (conversation, item_key) DO NOTHING RETURNING position)
    SELECT p.key, p.first, ARRAY(SELECT i.position FROM inserted i) FROM place p";

/// Releases the conversation of a response that ends, whatever its status: with the same commit it is free for the next
/// run, which its client may send to another replica as soon as it knows of the end. A run that has lost its conversation
/// must not append what it has made without knowledge of the turns since: it does not end so.
pub(super) async fn release(
    session: Session<'_>,
    policy: &RowPolicy,
    locks: &HeldLocks,
    owner: i64,
    record: &ResponseRecord,
) -> Result<(), StoreError> {
    let Some(turn) = &record.conversation else { return Ok(()) };
    let is_held = locks.release(session, &policy.instance, owner, turn.id.as_str()).await?;
    match is_held || !is_appended(record.status) {
        true => Ok(()),
        false => Err(StoreError::ConversationLost),
    }
}

/// Appends the items of a response that has ended to its conversation, if that was not deleted meanwhile.
pub(super) async fn append_turn(
    session: Session<'_>,
    owner: i64,
    record: &ResponseRecord,
) -> Result<(), StoreError> {
    match &record.conversation {
        Some(turn) if is_appended(record.status) => {
            append(session, owner, turn.id.as_str().as_bytes(), turn, &record.items).await
        }
        _ => Ok(()),
    }
}

async fn append(
    session: Session<'_>,
    owner: i64,
    id: &[u8],
    turn: &ConversationTurn,
    items: &[StoredItem],
) -> Result<(), StoreError> {
    let roles = || turn.roles.iter().copied().chain(std::iter::repeat(ContextRole::Plain)).take(items.len());
    let columns = NewItems::of(items.iter().zip(roles()));
    let (count, summary, now) = (number(items.len() as u64), summary_place(roles()), now());
    let parameters: [Param<'_>; 13] = [
        (&id, Type::BYTEA),
        (&owner, Type::INT8),
        (&count, Type::INT8),
        (&summary, Type::INT8),
        (&now, Type::INT8),
        (&columns.keys, Type::UUID_ARRAY),
        (&columns.ids, Type::BYTEA_ARRAY),
        (&columns.directions, Type::INT2_ARRAY),
        (&columns.contexts, Type::INT2_ARRAY),
        (&columns.tokens, Type::INT8_ARRAY),
        (&columns.states, Type::BYTEA_ARRAY),
        (&columns.views, Type::BYTEA_ARRAY),
        (&columns.wires, Type::BYTEA_ARRAY),
    ];
    let Some(row) = session.query_opt(APPEND, &parameters).await? else { return Ok(()) };
    let (key, first): (i64, i64) = (get(&row, 0)?, get(&row, 1)?);
    let inserted: Vec<i64> = get(&row, 2)?;
    if inserted.len() < items.len() {
        for ((item, role), position) in items.iter().zip(roles()).zip(first..) {
            if !inserted.contains(&position) {
                conversation_items::insert_renamed(session, (key, position), item, role).await?;
            }
        }
    }
    let read_until = number(turn.until);
    if summary.is_some() && read_until < first {
        return move_behind(session, key, (read_until, first), first.saturating_add(count)).await;
    }
    Ok(())
}

const SET_NEXT: &str = "UPDATE conversations SET next_position = $2 WHERE key = $1";

/// Moves items behind all others: they were added while a run went on whose summary was not made of them, and would
/// be hidden by it.
async fn move_behind(
    session: Session<'_>,
    key: i64,
    (first, until): (i64, i64),
    next: i64,
) -> Result<(), StoreError> {
    conversation_items::shift(session, key, (first, until), next - first).await?;
    let next = next + until - first;
    session.execute(SET_NEXT, &[(&key, Type::INT8), (&next, Type::INT8)]).await.map(drop)
}

const NOTE: &str =
    "INSERT INTO response_conversations (response, owner, first, until) VALUES ($1, $2, $3, $4)
    ON CONFLICT (response, owner) DO UPDATE SET first = excluded.first, until = excluded.until";

/// Writes what a response has read of its conversation.
pub(super) async fn note_context(
    session: Session<'_>,
    (response, owner): (Uuid, i64),
    record: &ResponseRecord,
) -> Result<(), StoreError> {
    let Some(turn) = &record.conversation else { return Ok(()) };
    let (first, until) = (number(turn.first), number(turn.until));
    let parameters: [Param<'_>; 4] =
        [(&response, Type::UUID), (&owner, Type::INT8), (&first, Type::INT8), (&until, Type::INT8)];
    session.execute(NOTE, &parameters).await.map(drop)
}

const READ_BY: &str = "SELECT first, until FROM response_conversations WHERE response = $1 AND owner = $2";

/// The positions that a response has read of its conversation: the first, and the one behind the last.
pub(super) async fn read_by(
    session: Session<'_>,
    (response, owner): (Uuid, i64),
) -> Result<Option<(i64, i64)>, StoreError> {
    let row = session.query_opt(READ_BY, &[(&response, Type::UUID), (&owner, Type::INT8)]).await?;
    row.as_ref().map(|row: &Row| Ok((get(row, 0)?, get(row, 1)?))).transpose()
}
