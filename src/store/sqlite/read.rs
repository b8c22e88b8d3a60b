//! Reads by response id: the response, and the chain before it.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as ValueError, StrDeserializer};

use super::error::{corrupt, database};
use super::retention::now;
use super::size::Size;
use crate::protocol::id::Id;
use crate::protocol::item::Item;
use crate::protocol::response::ResponseStatus;
use crate::store::{Lineage, Owner, ReadLimit, StoreError};

/// Responses in one chain. Far more than any model's context holds; bounds the work of one query.
const MAX_CHAIN_LENGTH: i64 = 10_000;

/// The response object as it was sent. Its length, which SQLite knows without reading it, is checked first.
pub(super) fn response(
    connection: &Connection,
    owner: &Owner,
    id: &str,
    max_bytes: u64,
) -> Result<Option<Arc<str>>, StoreError> {
    let mut statement = connection
        .prepare_cached(
            "SELECT octet_length(body), CASE WHEN octet_length(body) <= ?5 THEN body END FROM responses
                WHERE tenant = ?1 AND principal = ?2 AND id = ?3 AND (expires_at IS NULL OR expires_at > ?4)",
        )
        .map_err(database)?;
    let max = i64::try_from(max_bytes).unwrap_or(i64::MAX);
    let parameters = params![&*owner.tenant, &*owner.principal, id, now(), max];
    let read = |row: &Row<'_>| {
        let bytes: u32 = row.get(0)?;
        let bytes = u64::from(bytes);
        Ok(if bytes > max_bytes { Err(StoreError::TooLarge { bytes }) } else { Ok(text(row, 1)?.into()) })
    };
    statement.query_row(parameters, read).optional().map_err(database)?.transpose()
}

/// The responses of a chain; `depth` counts from the newest. The cross join makes SQLite go from the chain to the
/// rows, each by its full key.
macro_rules! chain_sql {
    () => {
        "WITH RECURSIVE chain (depth, key, previous_id, status, id) AS (
            SELECT 0, key, previous_id, status, id FROM responses
            WHERE tenant = ?1 AND principal = ?2 AND id = ?3 AND (expires_at IS NULL OR expires_at > ?4)
            UNION ALL
            SELECT chain.depth + 1, r.key, r.previous_id, r.status, r.id FROM chain CROSS JOIN responses r
                ON r.tenant = ?1 AND r.principal = ?2 AND r.id = chain.previous_id
            WHERE (r.expires_at IS NULL OR r.expires_at > ?4) AND chain.depth + 1 < ?5
        )"
    };
}

/// The lengths of what [`LINEAGE`] reads.
const LINEAGE_SIZES: &str = concat!(
    chain_sql!(),
    " SELECT coalesce(octet_length(i.history), octet_length(i.wire)) + coalesce(octet_length(i.state), 0)
    FROM chain CROSS JOIN items i ON i.response = chain.key AND coalesce(octet_length(i.history), 1) > 0"
);

/// Sorted by the caller: SQLite's sorter would copy every item's text.
const LINEAGE: &str = concat!(
    chain_sql!(),
    " SELECT chain.depth, chain.previous_id, chain.status, i.position, coalesce(i.history, i.wire), chain.id, i.state
    FROM chain LEFT JOIN items i ON i.response = chain.key AND (i.history IS NULL OR i.history <> '')"
);

/// The chain's items as the model saw them, oldest first.
pub(super) fn lineage(
    connection: &Connection,
    owner: &Owner,
    id: &str,
    limit: ReadLimit,
) -> Result<Option<Lineage>, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(database)?;
    let now = now();
    let parameters = params![&*owner.tenant, &*owner.principal, id, now, MAX_CHAIN_LENGTH];
    let mut size = Size::new(limit);
    let mut statement = snapshot.prepare_cached(LINEAGE_SIZES).map_err(database)?;
    let mut rows = statement.query(parameters).map_err(database)?;
    while let Some(row) = rows.next().map_err(database)? {
        size.add(row.get(0).map_err(database)?, 1)?;
    }
    size.check()?;
    let mut statement = snapshot.prepare_cached(LINEAGE).map_err(database)?;
    let mut rows = statement.query(parameters).map_err(database)?;
    let mut chain = Chain::default();
    while let Some(row) = rows.next().map_err(database)? {
        chain.add(row)?;
    }
    chain.finish()
}

/// A chain, collected from rows in any order.
#[derive(Default)]
struct Chain {
    status: Option<ResponseStatus>,
    /// The oldest response so far.
    oldest: Option<Oldest>,
    items: Vec<(i64, i64, Item, Option<Arc<str>>)>,
}

struct Oldest {
    depth: i64,
    id: Id,
    previous: Option<Id>,
}

impl Chain {
    fn add(&mut self, row: &Row<'_>) -> Result<(), StoreError> {
        let depth: i64 = row.get(0).map_err(database)?;
        if depth == 0 && self.status.is_none() {
            self.status = Some(status(text(row, 2).map_err(database)?)?);
        }
        if self.oldest.as_ref().is_none_or(|oldest| oldest.depth < depth) {
            let previous = row.get_ref(1).map_err(database)?.as_str_or_null().map_err(corrupt)?;
            let previous = previous.map(Id::from);
            self.oldest = Some(Oldest { depth, id: Id::from(text(row, 5).map_err(database)?), previous });
        }
        let Some(position) = row.get(3).map_err(database)? else {
            return Ok(());
        };
        let state = row.get_ref(6).map_err(database)?.as_str_or_null().map_err(corrupt)?.map(Arc::from);
        self.items.push((depth, position, item(text(row, 4).map_err(database)?)?, state));
        Ok(())
    }

    fn finish(mut self) -> Result<Option<Lineage>, StoreError> {
        let Some(status) = self.status else {
            return Ok(None);
        };
        match self.oldest {
            None => Ok(None),
            Some(Oldest { depth, previous: Some(_), .. }) if depth + 1 >= MAX_CHAIN_LENGTH => {
                Err(StoreError::ChainTooLong)
            }
            Some(Oldest { previous: Some(missing), .. }) => Err(StoreError::BrokenChain { missing }),
            Some(Oldest { id: root, previous: None, .. }) => {
                self.items.sort_unstable_by_key(|(depth, position, ..)| (-depth, *position));
                let mut states = HashMap::new();
                let item = |(place, (_, _, item, state)): (usize, (_, _, Item, Option<Arc<str>>))| {
                    states.extend(state.map(|state| (place, state)));
                    item
                };
                let items = self.items.into_iter().enumerate().map(item).collect();
                Ok(Some(Lineage { items, states, root, status }))
            }
        }
    }
}

/// A text column.
pub(super) fn text<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<&'a str> {
    let value = row.get_ref(column)?;
    value.as_str().map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, value.data_type(), Box::new(error))
    })
}

/// A stored item.
pub(super) fn item(json: &str) -> Result<Item, StoreError> {
    serde_json::from_str(json).map_err(corrupt)
}

fn status(name: &str) -> Result<ResponseStatus, StoreError> {
    let name: StrDeserializer<'_, ValueError> = name.into_deserializer();
    ResponseStatus::deserialize(name).map_err(corrupt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::retention::EXTEND;
    use crate::store::sqlite::schema;

    #[test]
    fn a_chain_that_is_cut_is_too_long_only_at_the_limit() {
        let cut_at = |depth: i64| {
            let previous = Some(Id::from("resp_before"));
            let oldest = Some(Oldest { depth, id: Id::from("resp_oldest"), previous });
            Chain { status: Some(ResponseStatus::Completed), oldest, items: Vec::new() }.finish()
        };
        assert!(matches!(cut_at(MAX_CHAIN_LENGTH - 1), Err(StoreError::ChainTooLong)));
        assert!(matches!(cut_at(MAX_CHAIN_LENGTH - 2), Err(StoreError::BrokenChain { .. })));
        assert!(matches!(cut_at(0), Err(StoreError::BrokenChain { .. })));
    }

    /// Without statistics SQLite may join the chain the other way round and scan all rows of an owner.
    #[test]
    fn rows_are_found_by_full_keys() {
        let connection = Connection::open_in_memory().unwrap();
        schema::apply(&connection, 0).unwrap();
        for sql in [LINEAGE, LINEAGE_SIZES, EXTEND] {
            let plan = schema::plan(&connection, sql);
            for step in plan.iter().filter(|step| step.contains("responses_by_id")) {
                assert!(step.contains("(tenant=? AND principal=? AND id=?)"), "{plan:#?}");
            }
            assert!(
                !plan.iter().any(|step| step.starts_with("SCAN") && !step.contains("chain")),
                "{plan:#?}"
            );
        }
    }
}
