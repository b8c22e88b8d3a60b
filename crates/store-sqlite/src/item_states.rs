//! The provider state of items that a request replays, by the keys of the states.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::error::{corrupt, database};
use super::owners;
use super::read::{item, live_key};
use super::texts::{ItemRow, Texts};
use antwort_store::distinct_keys::{DistinctKeys, newest_first};
use antwort_store::item_index::{Span, entries};
use antwort_store::item_names::response_of_item;
use antwort_store::row_policy::now;
use antwort_store::size::Size;
use antwort_store::{ItemWithState, Owner, ReadLimit, StateKey, StoreError};

/// How many items of one key are looked at.
const MAX_PER_KEY: usize = 8;

const FIND_STATES: &str = "SELECT r.key FROM item_states i CROSS JOIN responses r ON r.key = i.response
    WHERE i.state_key = ?1 AND r.owner = ?2 AND (r.expires_at IS NULL OR r.expires_at > ?3)
    ORDER BY i.response DESC LIMIT ?4";
const INDEX: &str = "SELECT item_index FROM responses WHERE key = ?1";

/// An item with state: its row, its text, and its state.
type StatePlace = (ItemRow, Span, Span);

/// States by key, in the requested order.
pub(super) fn provider_states(
    connection: &Connection,
    owner: &Owner,
    keys: &[StateKey],
    limit: ReadLimit,
) -> Result<Vec<Vec<ItemWithState>>, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(database)?;
    let Some(owner) = owners::find(&snapshot, owner).map_err(database)? else {
        return Ok(vec![Vec::new(); keys.len()]);
    };
    let requested = DistinctKeys::new(keys);
    let places = find_all(&snapshot, owner, &requested.distinct)?;
    let mut size = Size::new(limit);
    for (of_key, (_, times)) in places.iter().zip(&requested.distinct) {
        for (_, wire, state) in of_key {
            size.add(wire.len.saturating_add(state.len) as u64, *times)?;
        }
    }
    size.check()?;
    let mut texts = Texts::new(&snapshot);
    let mut read = |(row, wire, state): StatePlace| {
        let item = item(&texts.read(row, wire)?)?;
        Ok(ItemWithState { item, blob: texts.read(row, state)?.into() })
    };
    let read_all = |of_key: Vec<StatePlace>| of_key.into_iter().map(&mut read).collect();
    let found: Vec<Vec<ItemWithState>> =
        places.into_iter().map(read_all).collect::<Result<_, StoreError>>()?;
    Ok(requested.expand(&found))
}

/// The newest items with state of each key, newest first. The index of a response is read once.
fn find_all(
    connection: &Connection,
    owner: i64,
    keys: &[(&StateKey, u64)],
) -> Result<Vec<Vec<StatePlace>>, StoreError> {
    let now = now();
    let mut candidates = Vec::new();
    let mut statement = connection.prepare_cached(FIND_STATES).map_err(database)?;
    for (place, (key, _)) in keys.iter().enumerate() {
        if let Some(named) = response_of_item(StateKey::item_of(key.as_str())) {
            candidates.extend(live_key(connection, owner, &named)?.map(|response| (response, place)));
        }
        let parameters = params![key.as_str(), owner, now, MAX_PER_KEY as i64];
        let responses = statement.query_map(parameters, |row| row.get(0)).map_err(database)?;
        for response in responses {
            candidates.push((response.map_err(database)?, place));
        }
    }
    // Responses that are named may have rows, too.
    candidates.sort_unstable();
    candidates.dedup();
    let mut found = vec![Vec::new(); keys.len()];
    for (response, places) in newest_first(&mut candidates) {
        let index: Vec<u8> = connection
            .prepare_cached(INDEX)
            .map_err(database)?
            .query_row([response], |row| row.get(0))
            .map_err(database)?;
        let mut by_key: HashMap<&str, Vec<StatePlace>> = HashMap::new();
        let row = ItemRow { key: response, turn: None };
        for entry in entries(&index).map_err(corrupt)?.iter().rev() {
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

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn states_are_found_by_their_keys() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        let by_key =
            ["SEARCH i USING PRIMARY KEY (state_key=?)", "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)"];
        assert_eq!(schema::plan(&connection, FIND_STATES), by_key);
    }
}
