//! What is read by an item's id: items that a request refers to, and the state of those that it replays.
//!
//! Ids are the client's: each distinct one is looked up once, through an index that leads to its owner's rows only.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::error::database;
use super::lifetime::now;
use super::owners;
use super::read::{item, text};
use crate::protocol::id::Id;
use crate::protocol::item::Item;
use crate::store::{KeptState, Owner, StateKey, StoreError};

/// The newest item of this owner and id.
const FIND: &str = "SELECT i.response, i.position FROM items i CROSS JOIN responses r ON r.key = i.response
    WHERE i.owner = ?1 AND i.item_id = ?2
        AND r.tenant = ?3 AND r.principal = ?4 AND (r.expires_at IS NULL OR r.expires_at > ?5)
    ORDER BY i.response DESC, i.position DESC LIMIT 1";

/// The same among rows of earlier versions, which have no owner until maintenance has filled it in. Of one id this many
/// are looked at, whosever they are.
const FIND_WITHOUT_OWNER: &str = "SELECT i.response, i.position
    FROM (SELECT response, position FROM items WHERE owner IS NULL AND item_id = ?1
        ORDER BY response DESC, position DESC LIMIT 1000) i
    CROSS JOIN responses r ON r.key = i.response
    WHERE r.tenant = ?2 AND r.principal = ?3 AND (r.expires_at IS NULL OR r.expires_at > ?4)
    ORDER BY i.response DESC, i.position DESC LIMIT 1";

const READ: &str = "SELECT coalesce(history, wire) FROM items WHERE response = ?1 AND position = ?2";

/// Items by id, as the model sees them, in the order asked; of several with one id the newest.
pub(super) fn items(
    connection: &Connection,
    owner: &Owner,
    ids: &[Id],
) -> Result<Vec<Option<Item>>, StoreError> {
    let (places, distinct) = distinct(ids);
    let found: Vec<Option<Item>> = {
        let lookup = Lookup { owner, key: owners::key(owner), now: now() };
        distinct.iter().map(|id| lookup.item(connection, id)).collect::<Result<_, _>>()?
    };
    Ok(places.into_iter().map(|place| found.get(place).cloned().flatten()).collect())
}

/// Each key once, and for each of the keys as given its place among them.
fn distinct<K: Eq + std::hash::Hash>(keys: &[K]) -> (Vec<usize>, Vec<&K>) {
    let mut known: HashMap<&K, usize> = HashMap::with_capacity(keys.len());
    let mut distinct = Vec::with_capacity(keys.len());
    let place = |key| {
        *known.entry(key).or_insert_with(|| {
            distinct.push(key);
            distinct.len() - 1
        })
    };
    (keys.iter().map(place).collect(), distinct)
}

/// Who asks, and when.
struct Lookup<'a> {
    owner: &'a Owner,
    key: i64,
    now: i64,
}

impl Lookup<'_> {
    fn item(&self, connection: &Connection, id: &Id) -> Result<Option<Item>, StoreError> {
        let Some((response, position)) = self.place(connection, id).map_err(database)? else {
            return Ok(None);
        };
        let found = connection
            .prepare_cached(READ)
            .map_err(database)?
            .query_row([response, position], |row| {
                // What the model never saw whole cannot be referred to either.
                let json = text(row, 0)?;
                Ok((!json.is_empty()).then(|| item(json)))
            })
            .optional()
            .map_err(database)?;
        found.flatten().transpose()
    }

    fn place(&self, connection: &Connection, id: &Id) -> rusqlite::Result<Option<(i64, i64)>> {
        let (tenant, principal) = (&*self.owner.tenant, &*self.owner.principal);
        let found = connection
            .prepare_cached(FIND)?
            .query_row(params![self.key, id.as_str(), tenant, principal, self.now], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        if found.is_some() {
            return Ok(found);
        }
        connection
            .prepare_cached(FIND_WITHOUT_OWNER)?
            .query_row(params![id.as_str(), tenant, principal, self.now], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()
    }
}

/// Items of one key that are looked at.
const SAME_KEY: i64 = 8;

const STATES: &str = "SELECT i.wire, i.state FROM items i CROSS JOIN responses r ON r.key = i.response
    WHERE i.state_key = ?1 AND i.state IS NOT NULL AND r.tenant = ?2 AND r.principal = ?3
        AND (r.expires_at IS NULL OR r.expires_at > ?4)
    ORDER BY i.response DESC, i.position DESC LIMIT ?5";

/// State that is stored beside items, by its keys, in the order asked.
pub(super) fn states(
    connection: &Connection,
    owner: &Owner,
    keys: &[StateKey],
) -> Result<Vec<Vec<KeptState>>, StoreError> {
    let (places, distinct) = distinct(keys);
    let mut statement = connection.prepare_cached(STATES).map_err(database)?;
    let now = now();
    let mut found: Vec<Vec<KeptState>> = Vec::with_capacity(distinct.len());
    for key in distinct {
        let parameters = params![key.as_str(), &*owner.tenant, &*owner.principal, now, SAME_KEY];
        let mut rows = statement.query(parameters).map_err(database)?;
        let mut kept = Vec::new();
        while let Some(row) = rows.next().map_err(database)? {
            let item = item(text(row, 0).map_err(database)?)?;
            kept.push(KeptState { item, blob: text(row, 1).map_err(database)?.into() });
        }
        found.push(kept);
    }
    Ok(places.into_iter().map(|place| found.get(place).cloned().unwrap_or_default()).collect())
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
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
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

    /// The work of a look-up in steps of SQLite's machine, and what it found.
    fn steps(connection: &mut Connection, owner: &Owner, ids: &[Id]) -> (usize, Vec<bool>) {
        let steps = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&steps);
        let count = move || {
            counter.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.progress_handler(1, Some(count)).unwrap();
        let found = items(connection, owner, ids).unwrap();
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
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        for (sql, step) in [
            (FIND, "SEARCH i USING COVERING INDEX items_by_owner (owner=? AND item_id=?)"),
            (FIND_WITHOUT_OWNER, "SEARCH items USING COVERING INDEX items_by_owner (owner=? AND item_id=?)"),
            (READ, "SEARCH items USING PRIMARY KEY (response=? AND position=?)"),
            (STATES, "SEARCH i USING INDEX items_by_state (state_key=?)"),
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
