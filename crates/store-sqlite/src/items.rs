//! Reads by item id: items that a request refers to.
//!
//! Ids are the client's: each distinct one is looked up once. One that the gateway made names its response; the others
//! have a table that leads to their owner's responses only.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::error::{corrupt, database};
use super::owners;
use super::read::{self, bytes, item};
use super::texts::{ItemRow, Texts};
use antwort_protocol::id::Id;
use antwort_protocol::item::Item;
use antwort_store::distinct_keys::{DistinctKeys, newest_first};
use antwort_store::item_index::{Span, entries};
use antwort_store::item_names::response_of_item;
use antwort_store::row_policy::now;
use antwort_store::size::Size;
use antwort_store::{Owner, ReadLimit, StoreError};

/// The newest response of this owner with an item of this id, of those whose items do not name it.
const NEWEST: &str = "SELECT i.response FROM item_ids i CROSS JOIN responses r ON r.key = i.response
    WHERE i.owner = ?1 AND i.item_id = ?2 AND (r.expires_at IS NULL OR r.expires_at > ?3) AND r.unlisted IS NULL
    ORDER BY i.response DESC LIMIT 1";
const INDEX: &str =
    "SELECT item_index, finished_at IS NULL FROM responses WHERE key = ?1 AND unlisted IS NULL";
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
    let lookup = Lookup { connection: &snapshot, owner, now: now() };
    let places = lookup.find_all(&requested.distinct)?;
    let mut size = Size::new(limit);
    for (place, (_, times)) in places.iter().zip(&requested.distinct) {
        if let Some(place) = place {
            size.add(place.seen.map_or(0, |seen| seen.len) as u64, *times)?;
        }
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
}

impl Lookup<'_> {
    /// The newest item of each id. The index of a response is read once, in whatever order its ids come.
    fn find_all(&self, ids: &[(&Id, u64)]) -> Result<Vec<Option<Place>>, StoreError> {
        let mut candidates = Vec::with_capacity(ids.len());
        for (place, (id, _)) in ids.iter().enumerate() {
            candidates.extend(self.responses_of(id.as_str())?.map(|response| (response, place)));
        }
        let mut found = vec![None; ids.len()];
        for (response, places) in newest_first(&mut candidates) {
            let items = read_index(self.connection, response)?;
            for (_, place) in places {
                if let (Some(slot @ None), Some((id, _))) = (found.get_mut(*place), ids.get(*place)) {
                    *slot = items.get(id.as_str()).copied();
                }
            }
        }
        Ok(found)
    }

    /// The responses that may have an item of this id: the one that it names, and the newest of the others.
    fn responses_of(&self, id: &str) -> Result<impl Iterator<Item = i64>, StoreError> {
        let named = match response_of_item(id) {
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
        Ok(named.into_iter().chain(newest))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::schema;
    use super::*;
    use antwort_store::item_index::ItemColumns;
    use antwort_store::{Direction, ModelView, StoredItem};

    fn owner(tenant: &str) -> Owner {
        Owner { tenant: tenant.into(), principal: "p".into() }
    }

    fn database_with_items(counts: &[(&str, i64)]) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
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
        let (steps, found) =
            count_steps(connection, |connection| items(connection, owner, ids, ReadLimit::UNLIMITED));
        (steps, found.iter().map(Option::is_some).collect())
    }

    fn count_steps<T>(
        connection: &mut Connection,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> (usize, T) {
        let steps = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&steps);
        let count = move || {
            counter.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.progress_handler(1, Some(count)).unwrap();
        let found = read(connection).unwrap();
        connection.progress_handler(1, None::<fn() -> bool>).unwrap();
        (steps.load(Ordering::Relaxed), found)
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

    /// The index of a response was read anew whenever another one had been looked at in between.
    #[test]
    fn ids_of_two_responses_in_turn_cost_what_they_cost_one_response_after_the_other() {
        let mut connection = database_with_items(&[]);
        let owner_key = owners::key(&connection, &owner("b")).unwrap();
        let (mut ids, count) = ([Vec::new(), Vec::new()], 50);
        for (response, ids) in (1_i64..).zip(&mut ids) {
            let wire = r#"{"type":"message","role":"user","content":""}"#;
            let item = |number| StoredItem {
                id: format!("msg_{response}_{number}").into(),
                direction: Direction::Input,
                wire: wire.into(),
                model_view: ModelView::Same,
                state: None,
            };
            let items: Vec<_> = (0..count).map(item).collect();
            let columns = ItemColumns::of(&items);
            connection
                .execute(
                    "INSERT INTO responses (key, owner, id, status, created_at, model, item_index, items, body)
                     VALUES (?1, ?2, 'resp_' || ?1, 'completed', 0, 'm', ?3, ?4, '{}')",
                    params![response, owner_key, columns.index, columns.texts],
                )
                .unwrap();
            ids.extend(items.iter().map(|item| item.id.clone()));
            for id in ids {
                let row = "INSERT INTO item_ids (owner, item_id, response) VALUES (?1, ?2, ?3)";
                connection.execute(row, params![owner_key, id.as_str(), response]).unwrap();
            }
        }
        let [first, second] = ids;
        let ordered: Vec<Id> = second.iter().chain(&first).cloned().collect();
        let in_turn: Vec<Id> = first.into_iter().zip(second).flat_map(|(a, b)| [a, b]).collect();
        let [ordered, in_turn] = [ordered, in_turn].map(|ids| {
            let mut find = || {
                count_steps(&mut connection, |connection| {
                    let ids: Vec<_> = ids.iter().map(|id| (id, 1)).collect();
                    Lookup { connection, owner: owner_key, now: now() }.find_all(&ids)
                })
            };
            // Statements are compiled for the first.
            find();
            find()
        });
        assert_eq!(ordered.0, in_turn.0);
        assert!(in_turn.1.iter().all(Option::is_some));
    }

    #[test]
    fn items_are_found_by_owner_and_id() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
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
        ] {
            assert_eq!(schema::plan(&connection, sql), steps);
        }
    }
}
