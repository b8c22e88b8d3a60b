//! The ancestors that a response keeps alive.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::keys::ResponseKey;
use super::session::{Param, Session};
use super::values::{get, text_or_null};
use antwort_protocol::id::{Id, is_conversation_id};
use antwort_store::StoreError;
use antwort_store::retention::Retention;
use antwort_store::row_policy::MAX_CHAIN_LENGTH;

const KNOWN: &str = "SELECT lineage_until FROM responses WHERE key = $1 AND owner = $2";

/// Extends the life of a response's ancestors, and returns until when they all live.
pub(super) async fn extend_lineage(
    session: Session<'_>,
    (retention, conversations): (Retention, Retention),
    owner: i64,
    previous: Option<&Id>,
    now: i64,
) -> Result<Option<i64>, StoreError> {
    let Some(expiry) = retention.expiry(now) else {
        return Ok(None);
    };
    let Some(previous) = previous else {
        return Ok(Some(expiry));
    };
    let key = ResponseKey::of(previous.as_str()).uuid;
    let known = session.query_opt(KNOWN, &[(&key, Type::UUID), (&owner, Type::INT8)]).await?;
    let known = known.map(|row| get::<Option<i64>>(&row, 0)).transpose()?.flatten();
    if let Some(until) = retention.inherited(known, expiry) {
        return Ok(Some(until));
    }
    extend(session, conversations, owner, previous, (now, expiry)).await?;
    Ok(Some(expiry))
}

/// The chain from its newest response on. An expired ancestor stays expired and ends the walk: the chain is broken
/// there.
const CHAIN: &str = "WITH RECURSIVE chain (key, previous_key, previous_id, depth) AS (
        SELECT key, previous_key, previous_id, 1 FROM responses
        WHERE key = $1 AND owner = $2 AND (expires_at IS NULL OR expires_at > $3)
        UNION ALL
        SELECT s.key, s.previous_key, s.previous_id, c.depth + 1
        FROM chain c JOIN responses s ON s.key = c.previous_key AND s.owner = $2
        WHERE c.depth < $4 AND (s.expires_at IS NULL OR s.expires_at > $3))
    SELECT key, previous_id FROM chain ORDER BY depth";

/// Of several continuations at once each does its own, in the same order; what another has locked, that one extends.
const UPDATE: &str = "UPDATE responses SET expires_at = $3, lineage_until = $3 WHERE owner = $2 AND key IN (
        SELECT key FROM responses WHERE owner = $2 AND key = ANY($1) AND expires_at < $3 AND finished_at IS NOT NULL
        ORDER BY key FOR UPDATE SKIP LOCKED)";

async fn extend(
    session: Session<'_>,
    conversations: Retention,
    owner: i64,
    newest: &Id,
    (now, expiry): (i64, i64),
) -> Result<(), StoreError> {
    let (key, most) = (ResponseKey::of(newest.as_str()).uuid, MAX_CHAIN_LENGTH as i32);
    let params: [Param<'_>; 4] =
        [(&key, Type::UUID), (&owner, Type::INT8), (&now, Type::INT8), (&most, Type::INT4)];
    let rows = session.query(CHAIN, &params).await?;
    let before = rows.last().map(|row| text_or_null(row, 1)).transpose()?.flatten();
    if let Some(conversation) = before.filter(|id| is_conversation_id(id)) {
        use_conversation(session, owner, conversation, now, conversations).await?;
    }
    let chain: Vec<Uuid> = rows.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
    let params: [Param<'_>; 3] = [(&chain, Type::UUID_ARRAY), (&owner, Type::INT8), (&expiry, Type::INT8)];
    session.execute(UPDATE, &params).await.map(drop)
}

const USE: &str = "UPDATE conversations SET used_at = $3 WHERE id = $1 AND owner = $2 AND used_at > $4";

/// A chain that began in a conversation keeps that alive, too.
async fn use_conversation(
    session: Session<'_>,
    owner: i64,
    id: &str,
    now: i64,
    conversations: Retention,
) -> Result<(), StoreError> {
    let (id, oldest) = (id.as_bytes(), conversations.oldest_use(now));
    let params: [Param<'_>; 4] =
        [(&id, Type::BYTEA), (&owner, Type::INT8), (&now, Type::INT8), (&oldest, Type::INT8)];
    session.execute(USE, &params).await.map(drop)
}
