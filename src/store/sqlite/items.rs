//! Reads by item id: items that a request refers to, and the state of items that it replays.
//!
//! Ids are the client's: each distinct one is looked up once, through an index that leads to its owner's rows
//! only.

use std::collections::HashMap;
use std::hash::Hash;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::database;
use super::owners;
use super::read::{item, text};
use super::retention::now;
use super::size::Size;
use crate::protocol::id::Id;
use crate::protocol::item::Item;
use crate::store::{ItemWithState, Owner, ReadLimit, StateKey, StoreError};

/// The newest item of this owner and id.
const FIND: &str = "SELECT i.response, i.position FROM items i CROSS JOIN responses r ON r.key = i.response
    WHERE i.owner = ?1 AND i.item_id = ?2
        AND r.tenant = ?3 AND r.principal = ?4 AND (r.expires_at IS NULL OR r.expires_at > ?5)
    ORDER BY i.response DESC, i.position DESC LIMIT 1";

/// The same for rows of earlier versions, which have no owner until maintenance has added it. Looks at this many rows
/// of one id, whosever they are.
const FIND_WITHOUT_OWNER: &str = "SELECT i.response, i.position
    FROM (SELECT response, position FROM items WHERE owner IS NULL AND item_id = ?1
        ORDER BY response DESC, position DESC LIMIT 1000) i
    CROSS JOIN responses r ON r.key = i.response
    WHERE r.tenant = ?2 AND r.principal = ?3 AND (r.expires_at IS NULL OR r.expires_at > ?4)
    ORDER BY i.response DESC, i.position DESC LIMIT 1";

const SIZE: &str = "SELECT coalesce(octet_length(history), octet_length(wire)) FROM items
    WHERE response = ?1 AND position = ?2";
const READ: &str = "SELECT coalesce(history, wire) FROM items WHERE response = ?1 AND position = ?2";

/// The position of an item: its response, and its position in it.
type ItemPosition = (i64, i64);

/// Items by id as the model sees them, in the requested order; the newest of several with one id.
pub(super) fn items(
    connection: &Connection,
    owner: &Owner,
    ids: &[Id],
    limit: ReadLimit,
) -> Result<Vec<Option<Item>>, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(database)?;
    let requested = DistinctKeys::new(ids);
    let lookup = Lookup { owner, key: owners::key(owner), now: now() };
    let mut size = Size::new(limit);
    let mut positions = Vec::with_capacity(requested.distinct.len());
    for (id, times) in &requested.distinct {
        let position = lookup.find_position(&snapshot, id).map_err(database)?;
        if let Some(position) = position {
            let mut statement = snapshot.prepare_cached(SIZE).map_err(database)?;
            size.add(statement.query_row(position, |row| row.get(0)).map_err(database)?, *times)?;
        }
        positions.push(position);
    }
    size.check()?;
    let read =
        |position: Option<ItemPosition>| position.map_or(Ok(None), |position| read(&snapshot, position));
    let found: Vec<_> = positions.into_iter().map(read).collect::<Result<_, _>>()?;
    Ok(requested.expand(&found))
}

fn read(connection: &Connection, position: ItemPosition) -> Result<Option<Item>, StoreError> {
    let found = connection.prepare_cached(READ).map_err(database)?.query_row(position, |row| {
        // The empty string marks an item that was cut off: the model never saw it, and it cannot be referred to.
        let json = text(row, 0)?;
        Ok((!json.is_empty()).then(|| item(json)))
    });
    found.map_err(database)?.transpose()
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

/// The owner, and the time of the request.
struct Lookup<'a> {
    owner: &'a Owner,
    key: i64,
    now: i64,
}

impl Lookup<'_> {
    fn find_position(&self, connection: &Connection, id: &Id) -> rusqlite::Result<Option<ItemPosition>> {
        let (tenant, principal) = (&*self.owner.tenant, &*self.owner.principal);
        let found = connection
            .prepare_cached(FIND)?
            .query_row(params![self.key, id.as_str(), tenant, principal, self.now], read_position)
            .optional()?;
        if found.is_some() {
            return Ok(found);
        }
        connection
            .prepare_cached(FIND_WITHOUT_OWNER)?
            .query_row(params![id.as_str(), tenant, principal, self.now], read_position)
            .optional()
    }
}

fn read_position(row: &Row<'_>) -> rusqlite::Result<ItemPosition> {
    Ok((row.get(0)?, row.get(1)?))
}

/// How many items of one key are looked at.
const MAX_PER_KEY: i64 = 8;

const FIND_STATES: &str = "SELECT i.response, i.position, octet_length(i.wire) + octet_length(i.state)
    FROM items i CROSS JOIN responses r ON r.key = i.response
    WHERE i.state_key = ?1 AND i.state IS NOT NULL AND r.tenant = ?2 AND r.principal = ?3
        AND (r.expires_at IS NULL OR r.expires_at > ?4)
    ORDER BY i.response DESC, i.position DESC LIMIT ?5";

const READ_STATE: &str = "SELECT wire, state FROM items WHERE response = ?1 AND position = ?2";

/// States by key, in the requested order.
pub(super) fn provider_states(
    connection: &Connection,
    owner: &Owner,
    keys: &[StateKey],
    limit: ReadLimit,
) -> Result<Vec<Vec<ItemWithState>>, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(database)?;
    let requested = DistinctKeys::new(keys);
    let mut statement = snapshot.prepare_cached(FIND_STATES).map_err(database)?;
    let (now, mut size) = (now(), Size::new(limit));
    let mut positions: Vec<Vec<ItemPosition>> = Vec::with_capacity(requested.distinct.len());
    for (key, times) in &requested.distinct {
        let parameters = params![key.as_str(), &*owner.tenant, &*owner.principal, now, MAX_PER_KEY];
        let mut rows = statement.query(parameters).map_err(database)?;
        let mut of_key = Vec::new();
        while let Some(row) = rows.next().map_err(database)? {
            size.add(row.get(2).map_err(database)?, *times)?;
            of_key.push(read_position(row).map_err(database)?);
        }
        positions.push(of_key);
    }
    size.check()?;
    let read = |of_key: Vec<ItemPosition>| {
        of_key.into_iter().map(|position| read_state(&snapshot, position)).collect()
    };
    let found: Vec<Vec<ItemWithState>> =
        positions.into_iter().map(read).collect::<Result<_, StoreError>>()?;
    Ok(requested.expand(&found))
}

fn read_state(connection: &Connection, position: ItemPosition) -> Result<ItemWithState, StoreError> {
    let kept = connection.prepare_cached(READ_STATE).map_err(database)?.query_row(position, |row| {
        let blob = text(row, 1)?.into();
        Ok(item(text(row, 0)?).map(|item| ItemWithState { item, blob }))
    });
    kept.map_err(database)?
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::schema;
    use super::*;

    fn owner(tenant: &str) -> Owner {
        Owner { tenant: tenant.into(), principal: "p".into() }
    }

    fn database_with_items(counts: &[(&str, i64)]) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        schema::apply(&connection, 0).unwrap();
        for (response, (tenant, count)) in (1_i64..).zip(counts) {
            connection
                .execute(
                    "INSERT INTO responses (key, tenant, principal, id, status, created_at, instance, model, body)
                     VALUES (?1, ?2, 'p', 'resp_' || ?1, 'completed', 0, 'i', 'm', '{}')",
                    params![response, tenant],
                )
                .unwrap();
            let item = r#"{"type":"message","id":"msg_1","role":"user","content":""}"#;
            for position in 0..*count {
                connection
                    .execute(
                        "INSERT INTO items (response, position, item_id, side, wire, owner)
                         VALUES (?1, ?2, 'msg_1', 0, ?3, ?4)",
                        params![response, position, item, owners::key(&owner(tenant))],
                    )
                    .unwrap();
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
        let once = steps(&mut connection, &owner("b"), &["msg_1".into()]);
        let often = steps(&mut connection, &owner("b"), &vec![Id::from("msg_1"); 1_000]);
        assert_eq!((often.0, often.1.len()), (once.0, 1_000));
        assert!(often.1.iter().all(|found| *found));
    }

    #[test]
    fn items_are_found_by_owner_and_id() {
        let connection = Connection::open_in_memory().unwrap();
        schema::apply(&connection, 0).unwrap();
        for (sql, step) in [
            (FIND, "SEARCH i USING COVERING INDEX items_by_owner (owner=? AND item_id=?)"),
            (FIND_WITHOUT_OWNER, "SEARCH items USING COVERING INDEX items_by_owner (owner=? AND item_id=?)"),
            (SIZE, "SEARCH items USING PRIMARY KEY (response=? AND position=?)"),
            (READ, "SEARCH items USING PRIMARY KEY (response=? AND position=?)"),
            (FIND_STATES, "SEARCH i USING INDEX items_by_state (state_key=?)"),
        ] {
            let plan = schema::plan(&connection, sql);
            assert!(plan.iter().any(|found| found == step), "{plan:#?}");
            let sorts = plan.iter().any(|found| found.contains("TEMP B-TREE"));
            assert!(
                !plan.iter().any(|found| found.starts_with("SCAN items") || found == "SCAN r"),
                "{plan:#?}"
            );
            assert!(!sorts || sql == FIND_WITHOUT_OWNER, "{plan:#?}");
        }
    }
}
