//! Reads by item id: items that a request refers to.
//!
//! Ids are the client's: each distinct one is looked up once. One that the gateway made names its response; the others
//! have a table that leads to their owner's responses only.

use std::collections::HashMap;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::error::corrupt;
use super::keys::ResponseKey;
use super::read;
use super::session::{Param, Session};
use super::texts::{self, ItemRow};
use super::values::{get, indexed, item};
use antwort_protocol::id::Id;
use antwort_protocol::item::Item;
use antwort_store::distinct_keys::{DistinctKeys, newest_first};
use antwort_store::item_index::{Span, entries};
use antwort_store::item_names::response_of_item;
use antwort_store::row_policy::now;
use antwort_store::size::Size;
use antwort_store::{ReadLimit, StoreError};

/// Where an item is, and what the model sees of it.
#[derive(Debug, Clone, Copy)]
struct Place {
    row: ItemRow,
    seen: Option<Span>,
}

/// Items by id as the model sees them, in the requested order; the newest of several with one id.
pub(super) async fn items(
    session: Session<'_>,
    owner: i64,
    ids: &[Id],
    limit: ReadLimit,
) -> Result<Vec<Option<Item>>, StoreError> {
    let requested = DistinctKeys::new(ids);
    let places = find_all(session, owner, &requested.distinct).await?;
    let mut size = Size::new(limit);
    for (place, (_, times)) in places.iter().zip(&requested.distinct) {
        if let Some(place) = place {
            size.add(place.seen.map_or(0, |seen| seen.len) as u64, *times)?;
        }
    }
    size.check()?;
    // An item that was cut off is not seen by the model, and cannot be referred to.
    let seen = |place: &Option<Place>| place.and_then(|Place { row, seen }| Some((row, seen?)));
    let spans: Vec<_> = places.iter().filter_map(seen).collect();
    let mut read = texts::read(session, owner, &spans).await?.into_iter();
    let mut found = Vec::with_capacity(places.len());
    for place in &places {
        let text = seen(place).and_then(|_| read.next());
        found.push(text.map(|json| item(&json)).transpose()?);
    }
    Ok(requested.expand(&found))
}

/// The newest item of each id. The index of a response is read once, in whatever order its ids come.
async fn find_all(
    session: Session<'_>,
    owner: i64,
    ids: &[(&Id, u64)],
) -> Result<Vec<Option<Place>>, StoreError> {
    let mut candidates = named(session, owner, ids.iter().map(|(id, _)| id.as_str())).await?;
    candidates.extend(newest(session, owner, ids).await?);
    let keys: Vec<Uuid> = candidates.iter().map(|(key, _)| *key).collect();
    let indexes = indexes(session, owner, &keys).await?;
    let mut found = vec![None; ids.len()];
    for (response, places) in newest_first(&mut candidates) {
        let Some(items) = indexes.get(&response) else { continue };
        for (_, place) in places {
            if let (Some(slot @ None), Some((id, _))) = (found.get_mut(*place), ids.get(*place)) {
                *slot = items.get(id.as_str()).copied();
            }
        }
    }
    Ok(found)
}

/// The responses that ids name, each with the place of the id.
pub(super) async fn named(
    session: Session<'_>,
    owner: i64,
    ids: impl Iterator<Item = &str>,
) -> Result<Vec<(Uuid, usize)>, StoreError> {
    let named = ids.enumerate().filter_map(|(place, id)| {
        let response = response_of_item(id)?;
        Some((ResponseKey::of(&response).uuid, place))
    });
    let mut named: Vec<(Uuid, usize)> = named.collect();
    if named.is_empty() {
        return Ok(named);
    }
    let keys: Vec<Uuid> = named.iter().map(|(key, _)| *key).collect();
    let live = read::live(session, owner, &keys).await?;
    named.retain(|(key, _)| live.contains(key));
    Ok(named)
}

const NEWEST: &str = "SELECT p.place, n.response
    FROM unnest($2::bytea[]) WITH ORDINALITY AS p (id, place) CROSS JOIN LATERAL (
        SELECT i.response FROM item_ids i JOIN responses s ON s.key = i.response AND s.owner = i.owner
        WHERE i.owner = $1 AND i.item_id = p.id AND (s.expires_at IS NULL OR s.expires_at > $3)
            AND s.unlisted IS NULL
        ORDER BY i.response DESC LIMIT 1) n";

/// The newest response with an item of each id, of those whose items do not name it.
async fn newest(
    session: Session<'_>,
    owner: i64,
    ids: &[(&Id, u64)],
) -> Result<Vec<(Uuid, usize)>, StoreError> {
    let names: Vec<_> = ids.iter().map(|(id, _)| indexed(id.as_str())).collect();
    let names: Vec<&[u8]> = names.iter().map(|name| &**name).collect();
    let params: [Param<'_>; 3] = [(&owner, Type::INT8), (&names, Type::BYTEA_ARRAY), (&now(), Type::INT8)];
    let rows = session.query(NEWEST, &params).await?;
    rows.iter().map(|row| Ok((get(row, 1)?, place(get(row, 0)?)))).collect()
}

/// A place of a list, as an ordinality counts it.
pub(super) fn place(ordinality: i64) -> usize {
    usize::try_from(ordinality).unwrap_or_default().saturating_sub(1)
}

const INDEXES: &str =
    "SELECT key, item_index, finished_at IS NULL FROM responses WHERE owner = $1 AND key = ANY($2)
        AND unlisted IS NULL";
const TURN_INDEXES: &str = "SELECT response, turn, item_index FROM turns
    WHERE owner = $1 AND response = ANY($2) ORDER BY turn DESC";

type Places = HashMap<String, Place>;

/// The items of responses; of several with one id the last.
async fn indexes(
    session: Session<'_>,
    owner: i64,
    keys: &[Uuid],
) -> Result<HashMap<Uuid, Places>, StoreError> {
    let mut indexes: HashMap<Uuid, Places> = HashMap::new();
    if keys.is_empty() {
        return Ok(indexes);
    }
    let rows = session.query(INDEXES, &[(&owner, Type::INT8), (&keys, Type::UUID_ARRAY)]).await?;
    let mut running: Vec<Uuid> = Vec::new();
    for row in &rows {
        if get(row, 2)? {
            running.push(get(row, 0)?);
        }
    }
    if !running.is_empty() {
        let params: [Param<'_>; 2] = [(&owner, Type::INT8), (&running, Type::UUID_ARRAY)];
        for row in &session.query(TURN_INDEXES, &params).await? {
            let place = ItemRow { key: get(row, 0)?, turn: Some(get(row, 1)?) };
            add(indexes.entry(place.key).or_default(), get(row, 2)?, place)?;
        }
    }
    for row in &rows {
        let place = ItemRow { key: get(row, 0)?, turn: None };
        add(indexes.entry(place.key).or_default(), get(row, 1)?, place)?;
    }
    Ok(indexes)
}

fn add(items: &mut Places, index: &[u8], row: ItemRow) -> Result<(), StoreError> {
    // From the last to the first.
    for entry in entries(index).map_err(corrupt)?.iter().rev() {
        items.entry(entry.id.to_owned()).or_insert(Place { row, seen: entry.seen() });
    }
    Ok(())
}
