//! Lists with cursors: an owner's responses, and the input items of one.
//!
//! The elements of a page are chosen by their lengths, which SQLite knows without reading them; only those of the
//! page are read.

use std::sync::Arc;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, params};

use super::INPUT;
use super::error::database;
use super::owners;
use super::read::text;
use super::retention::now;
use crate::protocol::id::Id;
use crate::store::{MAX_PAGE_BYTES, Owner, Page, PageRequest, StoreError};

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
    let range = Range::new(page, |cursor| {
        // The id of a deleted response is still a place in the list: clients delete while they page.
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
    let parameters = params![&*owner.tenant, &*owner.principal, above, below, now(), range.fetch()];
    let (chosen, has_more) = range.choose(statement, parameters)?;
    let mut statement = snapshot.prepare_cached(RESPONSE).map_err(database)?;
    read(chosen, has_more, |key| statement.query_row([key], |row| text(row, 0).map(Arc::from)))
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
    let range = Range::new(page, |cursor| position(&snapshot, owner, key, cursor))?;
    let sql = match range.ascending {
        true => concat!(items_sql!(), " ORDER BY position ASC LIMIT ?5"),
        false => concat!(items_sql!(), " ORDER BY position DESC LIMIT ?5"),
    };
    let statement = snapshot.prepare_cached(sql).map_err(database)?;
    let (above, below) = (range.above.unwrap_or(-1), range.below.unwrap_or(i64::MAX));
    let (chosen, has_more) = range.choose(statement, params![key, INPUT, above, below, range.fetch()])?;
    let mut statement = snapshot.prepare_cached(ITEM).map_err(database)?;
    let item = |position| statement.query_row([key, position], |row| text(row, 0).map(Arc::from));
    read(chosen, has_more, item).map(Some)
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

/// An element of the page.
struct Chosen {
    id: Id,
    /// The key by which its text is read.
    key: i64,
}

/// Reads the chosen elements.
fn read(
    chosen: Vec<Chosen>,
    has_more: bool,
    mut text: impl FnMut(i64) -> rusqlite::Result<Arc<str>>,
) -> Result<Page, StoreError> {
    let data = chosen.into_iter().map(|element| Ok((element.id, text(element.key)?)));
    Ok(Page { data: data.collect::<rusqlite::Result<_>>().map_err(database)?, has_more })
}

/// The part of a list that a page is cut from, in terms of the sort key.
struct Range<K> {
    above: Option<K>,
    below: Option<K>,
    /// The order in which rows are fetched. A page before a cursor is fetched backwards from the cursor.
    ascending: bool,
    backwards: bool,
    limit: usize,
    max_bytes: u64,
}

impl<K> Range<K> {
    /// `find` returns the place of a cursor, `None` if the list has no such element.
    fn new(
        page: &PageRequest,
        find: impl Fn(&str) -> Result<Option<K>, StoreError>,
    ) -> Result<Self, StoreError> {
        let place = |cursor: &Option<String>, param| match cursor {
            None => Ok(None),
            Some(cursor) => match find(cursor)? {
                None => Err(StoreError::UnknownCursor { param, cursor: cursor.clone() }),
                found => Ok(found),
            },
        };
        let (after, before) = (place(&page.after, "after")?, place(&page.before, "before")?);
        let backwards = after.is_none() && before.is_some();
        let (above, below) = if page.ascending { (after, before) } else { (before, after) };
        let limit = page.limit.clamp(1, 100);
        let ascending = page.ascending != backwards;
        Ok(Self { above, below, ascending, backwards, limit, max_bytes: page.max_bytes })
    }

    /// How many rows to fetch: one more than the page holds shows whether there are more.
    fn fetch(&self) -> i64 {
        i64::try_from(self.limit).unwrap_or(100) + 1
    }

    /// Chooses the elements of the page from rows of id, length and key; also returns whether there are more.
    fn choose(
        &self,
        mut statement: CachedStatement<'_>,
        parameters: impl Params,
    ) -> Result<(Vec<Chosen>, bool), StoreError> {
        let mut rows = statement.query(parameters).map_err(database)?;
        let (mut chosen, mut bytes, mut has_more) = (Vec::new(), 0_u64, false);
        while let Some(row) = rows.next().map_err(database)? {
            let with = bytes.saturating_add(u64::from(row.get::<_, u32>(1).map_err(database)?));
            if chosen.len() == self.limit || (with > MAX_PAGE_BYTES && !chosen.is_empty()) {
                has_more = true;
                break;
            }
            bytes = with;
            let id = Id::from(text(row, 0).map_err(database)?);
            chosen.push(Chosen { id, key: row.get(2).map_err(database)? });
        }
        if bytes > self.max_bytes {
            return Err(StoreError::TooLarge { bytes });
        }
        if self.backwards {
            chosen.reverse();
        }
        Ok((chosen, has_more))
    }
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

/// Whether a text is an id as we mint them for responses.
fn is_response_id(text: &str) -> bool {
    text.strip_prefix("resp_")
        .is_some_and(|hex| hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}
