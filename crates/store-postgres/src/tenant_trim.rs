//! Deletes what a tenant has used longest ago, when it has more than it may have.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::conversation_expiry::{delete_parts, is_locked};
use super::session::{Param, Session};
use super::values::{get, unsigned};
use super::{conversations, removal};
use antwort_store::StoreError;

/// Bytes that a row takes beside its texts, about.
pub(super) const ROW_OVERHEAD: u64 = 100;

/// Candidates of one step. A step deletes responses, or a part of one conversation.
const CANDIDATES: i64 = 500;

/// The responses that have ended and are oldest, of all owners of a tenant: their times in Unix milliseconds.
const RESPONSES: &str = "SELECT s.key, s.owner, s.created_at * 1000,
        octet_length(s.item_index)::bigint + octet_length(s.items) + octet_length(s.body)
    FROM owners o CROSS JOIN LATERAL (
        SELECT * FROM responses r WHERE r.owner = o.key
            AND NOT EXISTS (SELECT 1 FROM runs n WHERE n.response = r.key AND n.owner = r.owner)
        ORDER BY r.key LIMIT $2) s
    WHERE o.tenant = $1 ORDER BY s.created_at, s.key LIMIT $2";
/// Deletes are of rows that no other process changes.
const LOCK: &str = "SELECT s.key, s.owner FROM responses s
    JOIN unnest($1::uuid[], $2::bigint[]) AS g (key, owner) ON g.key = s.key AND g.owner = s.owner
    WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.response = s.key AND r.owner = s.owner)
    ORDER BY s.key, s.owner FOR UPDATE OF s SKIP LOCKED";
/// The conversation that was used longest ago, of those in which no run goes on.
const CONVERSATION: &str = concat!(
    "SELECT c.key, c.used_at FROM owners o JOIN conversations c ON c.owner = o.key WHERE o.tenant = $1 AND NOT ",
    is_locked!(),
    " ORDER BY c.used_at, c.key LIMIT 1 FOR UPDATE OF c SKIP LOCKED"
);
const ITEMS: &str = "SELECT count(*), sum(octet_length(wire)::bigint + coalesce(octet_length(model_view), 0)
        + coalesce(octet_length(state), 0))::bigint
    FROM conversation_items WHERE conversation = $1";

/// What a step has deleted.
#[derive(Debug, Default)]
pub(super) struct Trimmed {
    pub rows: usize,
    pub bytes: u64,
}

/// Deletes the oldest responses, or a part of the conversation that was used longest ago if that is older, of up to so many
/// bytes and a row more. Nothing is deleted if there is nothing that has ended.
pub(super) async fn trim(session: Session<'_>, tenant: &[u8], excess: u64) -> Result<Trimmed, StoreError> {
    let row = session.query_opt(CONVERSATION, &[(&tenant, Type::BYTEA)]).await?;
    let conversation = match &row {
        Some(row) => Some((get::<i64>(row, 0)?, get::<i64>(row, 1)?)),
        None => None,
    };
    let found = session.query(RESPONSES, &[(&tenant, Type::BYTEA), (&CANDIDATES, Type::INT8)]).await?;
    let (mut oldest, mut bytes) = (Vec::new(), 0_u64);
    for row in &found {
        let time: i64 = get(row, 2)?;
        if bytes >= excess || conversation.is_some_and(|(_, used_at)| used_at <= time) {
            break;
        }
        oldest.push((get::<Uuid>(row, 0)?, get::<i64>(row, 1)?));
        bytes = bytes.saturating_add(unsigned(get(row, 3)?)).saturating_add(ROW_OVERHEAD);
    }
    match (oldest.is_empty(), conversation) {
        (false, _) => {
            let rows = delete(session, &oldest).await?;
            Ok(Trimmed { rows, bytes })
        }
        (true, Some((key, _))) => delete_conversation(session, key).await,
        (true, None) => Ok(Trimmed::default()),
    }
}

async fn delete(session: Session<'_>, oldest: &[(Uuid, i64)]) -> Result<usize, StoreError> {
    let (keys, owners): (Vec<Uuid>, Vec<i64>) = oldest.iter().copied().unzip();
    let parameters: [Param<'_>; 2] = [(&keys, Type::UUID_ARRAY), (&owners, Type::INT8_ARRAY)];
    let locked = session.query(LOCK, &parameters).await?;
    let places = locked.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?)));
    let places = places.collect::<Result<Vec<_>, StoreError>>()?;
    removal::remove_all(session, &places).await?;
    Ok(places.len())
}

/// Deletes a part of a conversation, which is marked and goes on with the next step.
async fn delete_conversation(session: Session<'_>, key: i64) -> Result<Trimmed, StoreError> {
    let before = measure(session, key).await?;
    conversations::mark_deleted(session, key).await?;
    delete_parts(session, &[key]).await?;
    let after = measure(session, key).await?;
    let rows = usize::try_from(before.0.saturating_sub(after.0)).unwrap_or(0) + 1;
    Ok(Trimmed { rows, bytes: before.1.saturating_sub(after.1) })
}

/// The items of a conversation, and their bytes.
async fn measure(session: Session<'_>, key: i64) -> Result<(u64, u64), StoreError> {
    let Some(row) = session.query_opt(ITEMS, &[(&key, Type::INT8)]).await? else { return Ok((0, 0)) };
    let count = unsigned(get(&row, 0)?);
    let bytes = get::<Option<i64>>(&row, 1)?.map_or(0, unsigned);
    Ok((count, bytes.saturating_add(ROW_OVERHEAD * count)))
}
