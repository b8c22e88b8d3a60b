//! Lists with cursors: an owner's responses, and the input items of one.
//!
//! SQLite knows the lengths of texts without reading them; only the elements of the page are read.

use std::sync::Arc;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row, params};

use super::INPUT;
use super::error::database;
use super::owners;
use super::read::text;
use super::retention::now;
use crate::protocol::id::Id;
use crate::store::paging::{Element, PageRange, is_response_id};
use crate::store::{Owner, Page, PageRequest, StoreError};

// Two queries, each in both orders.
macro_rules! responses_sql {
    () => {
        "SELECT id, octet_length(body), key FROM responses WHERE tenant = ?1 AND principal = ?2
            AND id > ?3 AND id < ?4 AND (expires_at IS NULL OR expires_at > ?5)"
    };
}

macro_rules! items_sql {
    () => {
        "SELECT item_id, octet_length(wire), position FROM items
            WHERE response = ?1 AND side = ?2 AND position > ?3 AND position < ?4"
    };
}

const RESPONSE: &str = "SELECT body FROM responses WHERE key = ?1";
const ITEM: &str = "SELECT wire FROM items WHERE response = ?1 AND position = ?2";
const FIND_POSITION: &str =
    "SELECT position FROM items WHERE owner IS ?1 AND item_id = ?2 AND response = ?3 AND side = ?4 LIMIT 1";

/// The owner's responses. They are ordered by id, and so by time.
pub(super) fn responses(
    connection: &Connection,
    owner: &Owner,
    page: &PageRequest,
) -> Result<Page, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(database)?;
    let range = PageRange::new(page, |cursor| {
        let known = is_response_id(cursor) || exists(&snapshot, owner, cursor)?.is_some();
        Ok(known.then(|| cursor.to_owned()))
    })?;
    let sql = match range.ascending {
        true => concat!(responses_sql!(), " ORDER BY id ASC LIMIT ?6"),
        false => concat!(responses_sql!(), " ORDER BY id DESC LIMIT ?6"),
    };
    let statement = snapshot.prepare_cached(sql).map_err(database)?;
    let (lowest, highest) = (String::new(), char::MAX.to_string());
    let (above, below) = (range.above.as_ref().unwrap_or(&lowest), range.below.as_ref().unwrap_or(&highest));
    let parameters = params![&*owner.tenant, &*owner.principal, above, below, now(), fetch(&range)];
    let chosen = choose(&range, statement, parameters)?;
    let mut statement = snapshot.prepare_cached(RESPONSE).map_err(database)?;
    read(chosen, |key| statement.query_row([key], |row| text(row, 0).map(Arc::from)))
}

/// The input items of a response; `None` if there is no such response.
pub(super) fn input_items(
    connection: &Connection,
    owner: &Owner,
    id: &str,
    page: &PageRequest,
) -> Result<Option<Page>, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(database)?;
    let Some(key) = exists(&snapshot, owner, id)? else {
        return Ok(None);
    };
    let range = PageRange::new(page, |cursor| position(&snapshot, owner, key, cursor))?;
    let sql = match range.ascending {
        true => concat!(items_sql!(), " ORDER BY position ASC LIMIT ?5"),
        false => concat!(items_sql!(), " ORDER BY position DESC LIMIT ?5"),
    };
    let statement = snapshot.prepare_cached(sql).map_err(database)?;
    let (above, below) = (range.above.unwrap_or(-1), range.below.unwrap_or(i64::MAX));
    let chosen = choose(&range, statement, params![key, INPUT, above, below, fetch(&range)])?;
    let mut statement = snapshot.prepare_cached(ITEM).map_err(database)?;
    let item = |position| statement.query_row([key, position], |row| text(row, 0).map(Arc::from));
    read(chosen, item).map(Some)
}

/// The position of an input item in its response.
fn position(
    connection: &Connection,
    owner: &Owner,
    response: i64,
    item: &str,
) -> Result<Option<i64>, StoreError> {
    let mut statement = connection.prepare_cached(FIND_POSITION).map_err(database)?;
    // Rows of earlier versions may have no owner yet.
    for owner in [Some(owners::key(owner)), None] {
        let found = statement.query_row(params![owner, item, response, INPUT], |row| row.get(0)).optional();
        if let Some(position) = found.map_err(database)? {
            return Ok(Some(position));
        }
    }
    Ok(None)
}

/// Reads the chosen elements.
fn read(
    (chosen, has_more): (Vec<Element<i64>>, bool),
    mut text: impl FnMut(i64) -> rusqlite::Result<Arc<str>>,
) -> Result<Page, StoreError> {
    let data = chosen.into_iter().map(|element| Ok((element.id, text(element.key)?)));
    Ok(Page { data: data.collect::<rusqlite::Result<_>>().map_err(database)?, has_more })
}

/// Chooses the elements of a page from rows of id, length and key.
fn choose<K>(
    range: &PageRange<K>,
    mut statement: CachedStatement<'_>,
    parameters: impl Params,
) -> Result<(Vec<Element<i64>>, bool), StoreError> {
    let element = |row: &Row<'_>| {
        Ok(Element { id: Id::from(text(row, 0)?), bytes: row.get::<_, u32>(1)?.into(), key: row.get(2)? })
    };
    let rows = statement.query_map(parameters, element).map_err(database)?;
    range.choose(rows.map(|row| row.map_err(database)))
}

/// The number of rows that a page fetches, as a parameter.
fn fetch<K>(range: &PageRange<K>) -> i64 {
    i64::try_from(range.fetch()).unwrap_or(i64::MAX)
}

/// The key of a response that exists and has not expired.
fn exists(connection: &Connection, owner: &Owner, id: &str) -> Result<Option<i64>, StoreError> {
    connection
        .prepare_cached(
            "SELECT key FROM responses WHERE tenant = ?1 AND principal = ?2 AND id = ?3
                AND (expires_at IS NULL OR expires_at > ?4)",
        )
        .map_err(database)?
        .query_row(params![&*owner.tenant, &*owner.principal, id, now()], |row| row.get(0))
        .optional()
        .map_err(database)
}
