//! The provider state of items that a request replays, by the keys of the states.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::error::corrupt;
use super::items::{named, place};
use super::session::{Param, Session};
use super::texts::{self, ItemRow};
use super::values::{get, indexed, item};
use antwort_store::distinct_keys::{DistinctKeys, newest_first};
use antwort_store::item_index::{Span, entries};
use antwort_store::row_policy::now;
use antwort_store::size::Size;
use antwort_store::{ItemWithState, ReadLimit, StateKey, StoreError};

/// How many items of one key are looked at.
const MAX_PER_KEY: usize = 8;

const CANDIDATES: &str = "SELECT p.place, n.response
    FROM unnest($2::bytea[]) WITH ORDINALITY AS p (key, place) CROSS JOIN LATERAL (
        SELECT i.response FROM item_states i JOIN responses s ON s.key = i.response AND s.owner = i.owner
        WHERE i.owner = $1 AND i.state_key = p.key AND (s.expires_at IS NULL OR s.expires_at > $3)
        ORDER BY i.response DESC LIMIT $4) n";
const INDEXES: &str = "SELECT key, item_index FROM responses WHERE owner = $1 AND key = ANY($2)";

/// An item with state: its row, its text, and its state.
type StatePlace = (ItemRow, Span, Span);

/// States by key, in the requested order.
pub(super) async fn provider_states(
    session: Session<'_>,
    owner: i64,
    keys: &[StateKey],
    limit: ReadLimit,
) -> Result<Vec<Vec<ItemWithState>>, StoreError> {
    let requested = DistinctKeys::new(keys);
    let places = find_all(session, owner, &requested.distinct).await?;
    let mut size = Size::new(limit);
    for (of_key, (_, times)) in places.iter().zip(&requested.distinct) {
        for (_, wire, state) in of_key {
            size.add(wire.len.saturating_add(state.len) as u64, *times)?;
        }
    }
    size.check()?;
    let spans: Vec<_> =
        places.iter().flatten().flat_map(|&(row, wire, state)| [(row, wire), (row, state)]).collect();
    let mut texts = texts::read(session, owner, &spans).await?.into_iter();
    let mut read = || {
        let (wire, state) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
        Ok(ItemWithState { item: item(&wire)?, blob: Arc::from(state) })
    };
    let found = places.iter().map(|of_key| of_key.iter().map(|_| read()).collect());
    let found: Vec<Vec<ItemWithState>> = found.collect::<Result<_, StoreError>>()?;
    Ok(requested.expand(&found))
}

/// The newest items with state of each key, newest first. The index of a response is read once.
async fn find_all(
    session: Session<'_>,
    owner: i64,
    keys: &[(&StateKey, u64)],
) -> Result<Vec<Vec<StatePlace>>, StoreError> {
    let names: Vec<_> = keys.iter().map(|(key, _)| indexed(key.as_str())).collect();
    let names: Vec<&[u8]> = names.iter().map(|name| &**name).collect();
    let params: [Param<'_>; 4] = [
        (&owner, Type::INT8),
        (&names, Type::BYTEA_ARRAY),
        (&now(), Type::INT8),
        (&(MAX_PER_KEY as i64), Type::INT8),
    ];
    let mut found = vec![Vec::new(); keys.len()];
    let ids = keys.iter().map(|(key, _)| StateKey::item_of(key.as_str()));
    let mut candidates = named(session, owner, ids).await?;
    for row in &session.query(CANDIDATES, &params).await? {
        candidates.push((get::<Uuid>(row, 1)?, place(get(row, 0)?)));
    }
    if candidates.is_empty() {
        return Ok(found);
    }
    // Responses that are named may have rows, too.
    candidates.sort_unstable();
    candidates.dedup();
    let responses: Vec<Uuid> = candidates.iter().map(|(key, _)| *key).collect();
    let rows = session.query(INDEXES, &[(&owner, Type::INT8), (&responses, Type::UUID_ARRAY)]).await?;
    let mut indexes: HashMap<Uuid, &[u8]> = HashMap::new();
    for row in &rows {
        indexes.insert(get(row, 0)?, get(row, 1)?);
    }
    for (response, places) in newest_first(&mut candidates) {
        let mut by_key: HashMap<&str, Vec<StatePlace>> = HashMap::new();
        let row = ItemRow { key: response, turn: None };
        let index = indexes.get(&response).copied().unwrap_or_default();
        for entry in entries(index).map_err(corrupt)?.iter().rev() {
            if let Some((key, state)) = entry.state {
                by_key.entry(key).or_default().push((row, entry.wire, state));
            }
        }
        for (_, place) in places {
            if let (Some(of_key), Some((key, _))) = (found.get_mut(*place), keys.get(*place)) {
                let more = by_key.get(key.as_str()).into_iter().flatten();
                of_key.extend(more.take(MAX_PER_KEY.saturating_sub(of_key.len())));
            }
        }
    }
    Ok(found)
}
