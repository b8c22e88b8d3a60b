//! Reads by item id: items that a request refers to, and the state of items that it replays.
//!
//! Ids are the client's: each distinct one is looked up once. One that the gateway made names its response; the others
//! have a table that leads to their owner's responses only.

use std::collections::HashMap;
use std::hash::Hash;

use rusqlite::{Connection, OptionalExtension, params};

use super::error::{corrupt, database};
use super::item_index::{Span, entries};
use super::read::{self, bytes, item};
use super::retention::now;
use super::size::Size;
use super::texts::{ItemRow, Texts};
use super::{keys, owners};
use crate::protocol::id::Id;
use crate::protocol::item::Item;
use crate::store::{ItemWithState, Owner, ReadLimit, StateKey, StoreError};

/// The newest response of this owner with an item of this id, of those whose items do not name it.
const NEWEST: &str = "SELECT i.response FROM item_ids i CROSS JOIN responses r ON r.key = i.response
    WHERE i.owner = ?1 AND i.item_id = ?2 AND (r.expires_at IS NULL OR r.expires_at > ?3)
    ORDER BY i.response DESC LIMIT 1";
const INDEX: &str = "SELECT item_index, finished_at IS NULL FROM responses WHERE key = ?1";
const TURN_INDEXES: &str = "SELECT turn, item_index FROM turns WHERE response = ?1 ORDER BY turn DESC";

/// Items by id as the model sees them, in the requested order; the newest of several with one id.
pub(super) fn items(
    connection: &Connection,
    owner: &Owner,
    ids: &[Id],
    limit: ReadLimit,
) -> Result<Vec<Option<Item>>, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(database)?;
    let Some(owner) = owners::find(&snapshot, owner).map_err(database)? else {
        return Ok(vec![None; ids.len()]);
    };
    let requested = DistinctKeys::new(ids);
    let mut lookup = Lookup { connection: &snapshot, owner, now: now(), last: None };
    let mut size = Size::new(limit);
    let mut places = Vec::with_capacity(requested.distinct.len());
    for (id, times) in &requested.distinct {
        let place = lookup.find(id.as_str())?;
        if let Some(place) = place {
            size.add(place.seen.map_or(0, |seen| seen.len) as u64, *times)?;
        }
        places.push(place);
    }
    size.check()?;
    let mut texts = Texts::new(&snapshot);
    let read = |place: Option<Place>| match place {
        // An item that was cut off is not seen by the model, and cannot be referred to.
        Some(Place { row, seen: Some(seen) }) => texts.read(row, seen).and_then(|json| item(&json)).map(Some),
        _ => Ok(None),
    };
    let found: Vec<_> = places.into_iter().map(read).collect::<Result<_, _>>()?;
    Ok(requested.expand(&found))
}

/// The requested keys, each to be looked up once.
struct DistinctKeys<'a, K> {
    /// Each distinct key, and how often it was requested.
    distinct: Vec<(&'a K, u64)>,
    /// The index among the distinct keys of each requested key.
    indices: Vec<usize>,
}

impl<'a, K: Eq + Hash> DistinctKeys<'a, K> {
    fn new(keys: &'a [K]) -> Self {
        let mut known: HashMap<&K, usize> = HashMap::with_capacity(keys.len());
        let mut requested =
            Self { distinct: Vec::with_capacity(keys.len()), indices: Vec::with_capacity(keys.len()) };
        for key in keys {
            let index = *known.entry(key).or_insert(requested.distinct.len());
            match requested.distinct.get_mut(index) {
                Some((_, times)) => *times += 1,
                None => requested.distinct.push((key, 1)),
            }
            requested.indices.push(index);
        }
        requested
    }

    /// The results of the distinct keys, for each requested key.
    fn expand<T: Clone + Default>(self, found: &[T]) -> Vec<T> {
        self.indices.into_iter().map(|index| found.get(index).cloned().unwrap_or_default()).collect()
    }
}

/// Where an item is, and what the model sees of it.
#[derive(Debug, Clone, Copy)]
struct Place {
    row: ItemRow,
    seen: Option<Span>,
}

/// The owner, and the time of the request.
struct Lookup<'a> {
    connection: &'a Connection,
    owner: i64,
    now: i64,
    /// The items of the response that was looked at last: ids of one request are often of one.
    last: Option<(i64, HashMap<String, Place>)>,
}

impl Lookup<'_> {
    /// The newest item of this id.
    fn find(&mut self, id: &str) -> Result<Option<Place>, StoreError> {
        let named = match keys::response_of_item(id) {
            Some(response) => read::live_key(self.connection, self.owner, &response)?,
            None => None,
        };
        let newest = self
            .connection
            .prepare_cached(NEWEST)
            .map_err(database)?
            .query_row(params![self.owner, id, self.now], |row| row.get(0))
            .optional()
            .map_err(database)?;
        let mut responses: Vec<i64> = named.into_iter().chain(newest).collect();
        responses.sort_unstable_by(|a, b| b.cmp(a));
        for key in responses {
            if let Some(place) = self.items_of(key)?.get(id) {
                return Ok(Some(*place));
            }
        }
        Ok(None)
    }

    /// The items of a response by their ids; of several with one id the last.
    fn items_of(&mut self, key: i64) -> Result<&HashMap<String, Place>, StoreError> {
        let last = match self.last.take() {
            Some(last) if last.0 == key => last,
            _ => (key, read_index(self.connection, key)?),
        };
        Ok(&self.last.insert(last).1)
    }
}

fn read_index(connection: &Connection, key: i64) -> Result<HashMap<String, Place>, StoreError> {
    let mut items = HashMap::new();
    let mut add = |index: &[u8], row: ItemRow| {
        // From the last to the first.
        for entry in entries(index).map_err(corrupt)?.iter().rev() {
            items.entry(entry.id.to_owned()).or_insert(Place { row, seen: entry.seen() });
        }
        Ok::<_, StoreError>(())
    };
    let mut statement = connection.prepare_cached(INDEX).map_err(database)?;
    let mut rows = statement.query([key]).map_err(database)?;
    let Some(row) = rows.next().map_err(database)? else { return Ok(items) };
    if row.get(1).map_err(database)? {
        let mut statement = connection.prepare_cached(TURN_INDEXES).map_err(database)?;
        let mut turns = statement.query([key]).map_err(database)?;
        while let Some(turn) = turns.next().map_err(database)? {
            let number = turn.get(0).map_err(database)?;
            add(bytes(turn, 1).map_err(database)?, ItemRow { key, turn: Some(number) })?;
        }
    }
    add(bytes(row, 0).map_err(database)?, ItemRow { key, turn: None })?;
    Ok(items)
}

/// How many items of one key are looked at.
const MAX_PER_KEY: usize = 8;

const FIND_STATES: &str =
    "SELECT r.key, r.item_index FROM item_states i CROSS JOIN responses r ON r.key = i.response
    WHERE i.state_key = ?1 AND r.owner = ?2 AND (r.expires_at IS NULL OR r.expires_at > ?3)
    ORDER BY i.response DESC LIMIT ?4";

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
    let (now, mut size) = (now(), Size::new(limit));
    let mut places = Vec::with_capacity(requested.distinct.len());
    for (key, times) in &requested.distinct {
        let of_key = find_states(&snapshot, owner, now, key.as_str())?;
        for (_, wire, state) in &of_key {
            size.add(wire.len.saturating_add(state.len) as u64, *times)?;
        }
        places.push(of_key);
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

/// The newest items with state of this key, newest first.
fn find_states(
    connection: &Connection,
    owner: i64,
    now: i64,
    key: &str,
) -> Result<Vec<StatePlace>, StoreError> {
    let mut statement = connection.prepare_cached(FIND_STATES).map_err(database)?;
    let mut rows = statement.query(params![key, owner, now, MAX_PER_KEY as i64]).map_err(database)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(database)? {
        let place = ItemRow { key: row.get(0).map_err(database)?, turn: None };
        for entry in entries(bytes(row, 1).map_err(database)?).map_err(corrupt)?.iter().rev() {
            if let Some((of_entry, state)) = entry.state
                && of_entry == key
            {
                found.push((place, entry.wire, state));
            }
        }
    }
    found.truncate(MAX_PER_KEY);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::item_index::ItemColumns;
    use super::super::schema;
    use super::*;
    use crate::store::{Direction, ModelView, StoredItem};

    fn owner(tenant: &str) -> Owner {
        Owner { tenant: tenant.into(), principal: "p".into() }
    }

    fn database_with_items(counts: &[(&str, i64)]) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        schema::apply(&connection, 0).unwrap();
        let wire = r#"{"type":"message","id":"msg_1","role":"user","content":""}"#;
        let item = StoredItem {
            id: "msg_1".into(),
            direction: Direction::Input,
            wire: wire.into(),
            model_view: ModelView::Same,
            state: None,
        };
        let columns = ItemColumns::of(&[item]);
        let mut key = 0;
        for (tenant, count) in counts {
            let owner = owners::key(&connection, &owner(tenant)).unwrap();
            for _ in 0..*count {
                key += 1;
                connection
                    .execute(
                        "INSERT INTO responses (key, owner, id, status, created_at, model, item_index, items, body)
                         VALUES (?1, ?2, 'resp_' || ?1, 'completed', 0, 'm', ?3, ?4, '{}')",
                        params![key, owner, columns.index, columns.texts],
                    )
                    .unwrap();
                let row = "INSERT INTO item_ids (owner, item_id, response) VALUES (?1, 'msg_1', ?2)";
                connection.execute(row, params![owner, key]).unwrap();
            }
        }
        connection
    }

    /// The cost of a look-up in steps of SQLite's virtual machine, and what it found.
    fn steps(connection: &mut Connection, owner: &Owner, ids: &[Id]) -> (usize, Vec<bool>) {
        let steps = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&steps);
        let count = move || {
            counter.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.progress_handler(1, Some(count)).unwrap();
        let found = items(connection, owner, ids, ReadLimit::UNLIMITED).unwrap();
        connection.progress_handler(1, None::<fn() -> bool>).unwrap();
        (steps.load(Ordering::Relaxed), found.iter().map(Option::is_some).collect())
    }

    #[test]
    fn looking_items_up_costs_the_same_however_many_others_have_of_the_same_id() {
        let ids = ["msg_1".into(), "msg_2".into()];
        let [alone, among] = [&[("b", 1)][..], &[("a", 5_000), ("b", 1), ("c", 5_000)]].map(|counts| {
            let mut connection = database_with_items(counts);
            steps(&mut connection, &owner("b"), &ids);
            steps(&mut connection, &owner("b"), &ids)
        });
        assert_eq!(alone, among);
        assert_eq!(among.1, [true, false]);
    }

    #[test]
    fn an_id_is_looked_up_once_however_often_it_is_asked_for() {
        let mut connection = database_with_items(&[("b", 1)]);
        steps(&mut connection, &owner("b"), &["msg_1".into()]);
        let once = steps(&mut connection, &owner("b"), &["msg_1".into()]);
        let often = steps(&mut connection, &owner("b"), &vec![Id::from("msg_1"); 1_000]);
        assert_eq!((often.0, often.1.len()), (once.0, 1_000));
        assert!(often.1.iter().all(|found| *found));
    }

    #[test]
    fn items_are_found_by_owner_and_id() {
        let connection = Connection::open_in_memory().unwrap();
        schema::apply(&connection, 0).unwrap();
        for (sql, steps) in [
            (
                NEWEST,
                &[
                    "SEARCH i USING PRIMARY KEY (owner=? AND item_id=?)",
                    "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)",
                ][..],
            ),
            (INDEX, &["SEARCH responses USING INTEGER PRIMARY KEY (rowid=?)"]),
            (TURN_INDEXES, &["SEARCH turns USING PRIMARY KEY (response=?)"]),
            (
                FIND_STATES,
                &["SEARCH i USING PRIMARY KEY (state_key=?)", "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)"],
            ),
        ] {
            assert_eq!(schema::plan(&connection, sql), steps);
        }
    }
}
