//! The chain of responses before a continuation.
//!
//! The columns of ids and lengths are read first, which gives its size, and its texts then.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as ValueError, StrDeserializer};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::conversation_context::{self, VisibleItems};
use super::error::corrupt;
use super::keys::{ResponseKey, id_of};
use super::session::{Param, Session};
use super::values::{get, item, text_or_null};
use antwort_protocol::id::{Id, is_conversation_id};
use antwort_protocol::item::Item;
use antwort_protocol::response::ResponseStatus;
use antwort_store::item_index::{self, entries};
use antwort_store::retention::Retention;
use antwort_store::row_policy::{MAX_CHAIN_LENGTH, now};
use antwort_store::size::Size;
use antwort_store::{Lineage, ReadLimit, StoreError};

const CHAIN: &str = "WITH RECURSIVE chain AS (
        SELECT key, id, previous_key, previous_id, finished_at IS NULL AS is_running, status, item_index, 1 AS depth
        FROM responses WHERE key = $1 AND owner = $2 AND (expires_at IS NULL OR expires_at > $3) AND unlisted IS NULL
        UNION ALL
        SELECT s.key, s.id, s.previous_key, s.previous_id, s.finished_at IS NULL, s.status, s.item_index, c.depth + 1
        FROM chain c JOIN responses s ON s.key = c.previous_key AND s.owner = $2
        WHERE c.depth < $4 AND (s.expires_at IS NULL OR s.expires_at > $3))
    SELECT key, id, previous_id, is_running, status, item_index FROM chain ORDER BY depth";
const TURN_INDEXES: &str = "SELECT response, item_index FROM turns
    WHERE owner = $1 AND response = ANY($2) ORDER BY response, turn";
const TEXTS: &str = "SELECT key, items FROM responses WHERE owner = $1 AND key = ANY($2)";
const TURN_TEXTS: &str = "SELECT response, items FROM turns
    WHERE owner = $1 AND response = ANY($2) ORDER BY response, turn";

/// The chain's items as the model saw them, oldest first.
pub(super) async fn lineage(
    session: Session<'_>,
    owner: i64,
    id: &str,
    limit: ReadLimit,
    retention: Retention,
) -> Result<Option<Lineage>, StoreError> {
    let (key, now, most) = (ResponseKey::of(id).uuid, now(), MAX_CHAIN_LENGTH as i32);
    let params: [Param<'_>; 4] =
        [(&key, Type::UUID), (&owner, Type::INT8), (&now, Type::INT8), (&most, Type::INT4)];
    let rows = session.query(CHAIN, &params).await?;
    let (Some(newest), Some(oldest)) = (rows.first(), rows.last()) else { return Ok(None) };
    let mut chain = Chain::read(session, owner, &rows).await?;
    let mut size = Size::new(limit);
    chain.measure(&mut size)?;
    let mut before = text_or_null(oldest, 2)?;
    if let Some(conversation) = before.filter(|id| is_conversation_id(id)) {
        let (place, used) = ((get(oldest, 0)?, owner), retention.oldest_use(now));
        chain.conversation =
            conversation_context::of_response(session, place, conversation, used, &mut size).await?;
        before = before.filter(|_| chain.conversation.is_none());
    }
    size.check()?;
    let root = root(oldest, before, rows.len())?;
    let status = status(get(newest, 4)?)?;
    let (mut items, mut states) = (Vec::new(), HashMap::new());
    if let Some(conversation) = &chain.conversation {
        conversation.read(session, &mut items, &mut states).await?;
    }
    chain.texts(session, owner, &mut items, &mut states).await?;
    Ok(Some(Lineage { items, states, root, status }))
}

/// The first response of the chain.
fn root(oldest: &Row, before: Option<&str>, length: usize) -> Result<Id, StoreError> {
    match before {
        None => id_of(get(oldest, 0)?, get(oldest, 1)?),
        Some(_) if length >= MAX_CHAIN_LENGTH => Err(StoreError::ChainTooLong),
        Some(missing) => Err(StoreError::BrokenChain { missing: Id::from(missing) }),
    }
}

fn status(name: &str) -> Result<ResponseStatus, StoreError> {
    let name: StrDeserializer<'_, ValueError> = name.into_deserializer();
    ResponseStatus::deserialize(name).map_err(corrupt)
}

/// A chain, from its newest response.
struct Chain<'a> {
    links: Vec<Link<'a>>,
    /// What the oldest has read of the conversation that it was made in.
    conversation: Option<VisibleItems>,
}

/// A response of a chain.
struct Link<'a> {
    key: Uuid,
    index: &'a [u8],
    /// The indexes of its turns, if it still runs.
    turns: Vec<Vec<u8>>,
}

impl<'a> Chain<'a> {
    async fn read(session: Session<'_>, owner: i64, rows: &'a [Row]) -> Result<Self, StoreError> {
        let mut links = Vec::with_capacity(rows.len());
        let mut running = Vec::new();
        for row in rows {
            let key = get(row, 0)?;
            links.push(Link { key, index: get(row, 5)?, turns: Vec::new() });
            if get(row, 3)? {
                running.push(key);
            }
        }
        let mut turns = by_response(session, TURN_INDEXES, owner, &running).await?;
        for link in &mut links {
            link.turns = turns.remove(&link.key).unwrap_or_default();
        }
        Ok(Self { links, conversation: None })
    }

    fn measure(&self, size: &mut Size) -> Result<(), StoreError> {
        for link in &self.links {
            for index in [link.index].into_iter().chain(link.turns.iter().map(Vec::as_slice)) {
                for entry in entries(index).map_err(corrupt)? {
                    let Some(seen) = entry.seen() else { continue };
                    let state = entry.state.map_or(0, |(_, span)| span.len);
                    size.add(seen.len.saturating_add(state) as u64, 1)?;
                }
            }
        }
        Ok(())
    }

    /// Adds what the model sees, oldest first.
    async fn texts(
        &self,
        session: Session<'_>,
        owner: i64,
        items: &mut Vec<Item>,
        states: &mut HashMap<usize, Arc<str>>,
    ) -> Result<(), StoreError> {
        let keys: Vec<Uuid> = self.links.iter().map(|link| link.key).collect();
        let rows = session.query(TEXTS, &[(&owner, Type::INT8), (&keys, Type::UUID_ARRAY)]).await?;
        let mut texts: HashMap<Uuid, &[u8]> = HashMap::with_capacity(rows.len());
        for row in &rows {
            texts.insert(get(row, 0)?, get(row, 1)?);
        }
        let running = self.links.iter().filter(|link| !link.turns.is_empty()).map(|link| link.key);
        let turns = by_response(session, TURN_TEXTS, owner, &running.collect::<Vec<_>>()).await?;
        for link in self.links.iter().rev() {
            let own = texts.get(&link.key).copied().unwrap_or_default();
            add_seen(link.index, own, items, states)?;
            let texts = turns.get(&link.key).map(Vec::as_slice).unwrap_or_default();
            for (index, texts) in link.turns.iter().zip(texts) {
                add_seen(index, texts, items, states)?;
            }
        }
        Ok(())
    }
}

/// A column of the turns of running responses, in their order.
async fn by_response(
    session: Session<'_>,
    sql: &'static str,
    owner: i64,
    running: &[Uuid],
) -> Result<HashMap<Uuid, Vec<Vec<u8>>>, StoreError> {
    let mut found: HashMap<Uuid, Vec<Vec<u8>>> = HashMap::new();
    if running.is_empty() {
        return Ok(found);
    }
    for row in &session.query(sql, &[(&owner, Type::INT8), (&running, Type::UUID_ARRAY)]).await? {
        found.entry(get(row, 0)?).or_default().push(get(row, 1)?);
    }
    Ok(found)
}

/// Adds what the model sees of a row's items.
fn add_seen(
    index: &[u8],
    texts: &[u8],
    items: &mut Vec<Item>,
    states: &mut HashMap<usize, Arc<str>>,
) -> Result<(), StoreError> {
    for entry in entries(index).map_err(corrupt)? {
        let Some(seen) = entry.seen() else { continue };
        if let Some((_, span)) = entry.state {
            states.insert(items.len(), item_index::text(texts, span).map_err(corrupt)?.into());
        }
        items.push(item(item_index::text(texts, seen).map_err(corrupt)?)?);
    }
    Ok(())
}
