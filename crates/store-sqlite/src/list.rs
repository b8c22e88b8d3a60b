//! Lists with cursors: an owner's responses, and the input items of one.
//!
//! The lengths of texts are known without reading them; only the elements of the page are read.

use std::cmp::Reverse;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, ToSql};

use super::error::{corrupt, database};
use super::keys::KeyRange;
use super::owners;
use super::read::{bytes, live_key, text};
use super::texts::{ItemRow, Texts};
use antwort_protocol::id::Id;
use antwort_protocol::response::ResponseStatus;
use antwort_store::item_index::{Span, entries};
use antwort_store::paging::{Element, PageRange, is_response_id};
use antwort_store::row_policy::now;
use antwort_store::{Direction, Owner, Page, PageRequest, ResponseFilter, StoreError};

macro_rules! columns_sql {
    () => {
        "SELECT id, octet_length(body), key FROM responses"
    };
}
macro_rules! range_sql {
    () => {
        " WHERE owner = ?1 AND key > ?2 AND key < ?3 AND (expires_at IS NULL OR expires_at > ?4) AND unlisted IS NULL"
    };
}

/// Each list has an index that holds its rows in its order, so that a page costs what it has, not what it leaves out. It is
/// named, since SQLite takes that of the owner for as good as the others.
const ALL: InOrder = InOrder {
    ascending: concat!(columns_sql!(), range_sql!(), " ORDER BY key ASC LIMIT ?5"),
    descending: concat!(columns_sql!(), range_sql!(), " ORDER BY key DESC LIMIT ?5"),
};
const OF_STATUS: InOrder = InOrder {
    ascending: concat!(
        columns_sql!(),
        " INDEXED BY responses_by_status",
        range_sql!(),
        " AND status = ?6 ORDER BY key ASC LIMIT ?5"
    ),
    descending: concat!(
        columns_sql!(),
        " INDEXED BY responses_by_status",
        range_sql!(),
        " AND status = ?6 ORDER BY key DESC LIMIT ?5"
    ),
};
/// Of a model alone it is asked once for each status.
const OF_MODEL: InOrder = InOrder {
    ascending: concat!(
        columns_sql!(),
        " INDEXED BY responses_by_model",
        range_sql!(),
        " AND model = ?7 AND status = ?6 ORDER BY key ASC LIMIT ?5"
    ),
    descending: concat!(
        columns_sql!(),
        " INDEXED BY responses_by_model",
        range_sql!(),
        " AND model = ?7 AND status = ?6 ORDER BY key DESC LIMIT ?5"
    ),
};

/// One query, in both orders.
struct InOrder {
    ascending: &'static str,
    descending: &'static str,
}

const RESPONSE: &str = "SELECT body FROM responses WHERE key = ?1";
const INPUT: &str = "SELECT item_index FROM responses WHERE key = ?1";

/// The place of a cursor among the keys: what follows it is above `last`, what precedes it below `first`.
#[derive(Debug, Clone, Copy)]
struct Between {
    first: i64,
    last: i64,
}

/// The owner's responses. They are ordered by key, and so by time.
pub(super) fn responses(
    connection: &Connection,
    owner: &Owner,
    page: &PageRequest,
    filter: &ResponseFilter,
) -> Result<Page, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(database)?;
    let key = owners::find(&snapshot, owner).map_err(database)?;
    let range = PageRange::new(page, |cursor| place(&snapshot, key, cursor))?;
    let Some(owner) = key else { return Ok(Page { data: Vec::new(), has_more: false }) };
    let elements = elements(&snapshot, owner, &range, filter).map_err(database)?;
    let (chosen, has_more) = range.choose(elements.into_iter().map(Ok))?;
    let mut statement = snapshot.prepare_cached(RESPONSE).map_err(database)?;
    let mut read = |element: Element<i64>| {
        let body = statement.query_row([element.key], |row| text(row, 0).map(Arc::from));
        Ok((element.id, body.map_err(database)?))
    };
    Ok(Page { data: chosen.into_iter().map(&mut read).collect::<Result<_, StoreError>>()?, has_more })
}

/// The elements that the page is chosen from, in the order in which they are fetched.
fn elements(
    connection: &Connection,
    owner: i64,
    range: &PageRange<Between>,
    filter: &ResponseFilter,
) -> rusqlite::Result<Vec<Element<i64>>> {
    let (sql, statuses) = match (&filter.model, filter.status) {
        (None, None) => (ALL, &[None][..]),
        (None, status @ Some(_)) => (OF_STATUS, &[status][..]),
        (Some(_), status @ Some(_)) => (OF_MODEL, &[status][..]),
        (Some(_), None) => (OF_MODEL, &ResponseStatus::ALL.map(Some)[..]),
    };
    let mut statement =
        connection.prepare_cached(if range.ascending { sql.ascending } else { sql.descending })?;
    let parameters = statement.parameter_count();
    let above = range.above.map_or(i64::MIN, |place| place.last);
    let below = range.below.map_or(i64::MAX, |place| place.first);
    let fetch = i64::try_from(range.fetch()).unwrap_or(i64::MAX);
    let mut found = Vec::new();
    for status in statuses {
        let status = status.map(ResponseStatus::as_str);
        let all: [&dyn ToSql; 7] = [&owner, &above, &below, &now(), &fetch, &status, &filter.model];
        let rows = statement.query_map(all.get(..parameters).unwrap_or(&all), |row| {
            Ok(Element { id: Id::from(text(row, 0)?), bytes: row.get::<_, u32>(1)?.into(), key: row.get(2)? })
        })?;
        for row in rows {
            found.push(row?);
        }
    }
    match range.ascending {
        true => found.sort_unstable_by_key(|element| element.key),
        false => found.sort_unstable_by_key(|element| Reverse(element.key)),
    }
    found.truncate(range.fetch());
    Ok(found)
}

/// The place of a cursor; `None` if it is none. That of a deleted response is the place of all keys that it may have
/// had: rather one is listed twice than left out.
fn place(connection: &Connection, owner: Option<i64>, cursor: &str) -> Result<Option<Between>, StoreError> {
    let existing = match owner {
        Some(owner) => live_key(connection, owner, cursor)?,
        None => None,
    };
    Ok(match existing {
        Some(key) => Some(Between { first: key, last: key }),
        None if is_response_id(cursor) => {
            let keys = KeyRange::of(cursor);
            Some(Between { first: keys.last.saturating_add(1), last: keys.first.saturating_sub(1) })
        }
        None => None,
    })
}

/// The input items of a response; `None` if there is no such response.
pub(super) fn input_items(
    connection: &Connection,
    owner: &Owner,
    id: &str,
    page: &PageRequest,
) -> Result<Option<Page>, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(database)?;
    let Some(owner) = owners::find(&snapshot, owner).map_err(database)? else {
        return Ok(None);
    };
    let Some(key) = live_key(&snapshot, owner, id)? else {
        return Ok(None);
    };
    let mut statement = snapshot.prepare_cached(INPUT).map_err(database)?;
    let index: Option<Vec<u8>> =
        statement.query_row([key], |row| bytes(row, 0).map(<[u8]>::to_owned)).optional().map_err(database)?;
    let index = index.unwrap_or_default();
    let mut input = entries(&index).map_err(corrupt)?;
    input.retain(|entry| entry.direction == Direction::Input);
    let range = PageRange::new(page, |cursor| Ok(input.iter().position(|entry| entry.id == cursor)))?;
    let first = range.above.map_or(0, |above| above + 1);
    let last = range.below.unwrap_or(input.len()).max(first);
    let elements =
        input.get(first..last).unwrap_or_default().iter().map(|entry| {
            Ok(Element { id: Id::from(entry.id), bytes: entry.wire.len as u64, key: entry.wire })
        });
    let (chosen, has_more) = match range.ascending {
        true => range.choose(elements)?,
        false => range.choose(elements.rev())?,
    };
    let mut texts = Texts::new(&snapshot);
    let mut read = |element: Element<Span>| {
        Ok((element.id, texts.read(ItemRow { key, turn: None }, element.key)?.into()))
    };
    let data = chosen.into_iter().map(&mut read).collect::<Result<_, StoreError>>()?;
    Ok(Some(Page { data, has_more }))
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn a_page_is_found_by_an_index_of_its_filter_without_a_sort() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        let expected = [
            (ALL, "responses_by_owner (owner=? AND key>? AND key<?)"),
            (OF_STATUS, "responses_by_status (owner=? AND status=? AND key>? AND key<?)"),
            (OF_MODEL, "responses_by_model (owner=? AND model=? AND status=? AND key>? AND key<?)"),
        ];
        for (sql, index) in expected {
            for sql in [sql.ascending, sql.descending] {
                assert_eq!(schema::plan(&connection, sql), [format!("SEARCH responses USING INDEX {index}")]);
            }
        }
    }
}
