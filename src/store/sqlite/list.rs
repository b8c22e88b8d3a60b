//! Lists with cursors: an owner's responses, and the input items of one.

use std::sync::Arc;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, params};

use super::INPUT;
use super::error::database;
use super::lifetime::now;
use super::owners;
use super::read::text;
use crate::protocol::id::Id;
use crate::store::{Owner, Page, PageRequest, StoreError};

// Two queries that are each wanted in both orders.
macro_rules! responses_sql {
    () => {
        "SELECT id, body FROM responses WHERE tenant = ?1 AND principal = ?2 AND id > ?3 AND id < ?4
            AND (expires_at IS NULL OR expires_at > ?5)"
    };
}

macro_rules! items_sql {
    () => {
        "SELECT item_id, wire FROM items WHERE response = ?1 AND side = ?2 AND position > ?3 AND position < ?4"
    };
}

const PLACE: &str =
    "SELECT position FROM items WHERE owner IS ?1 AND item_id = ?2 AND response = ?3 AND side = ?4 LIMIT 1";

/// The owner's responses. Their ids are their order, which is that of time.
pub(super) fn responses(
    connection: &Connection,
    owner: &Owner,
    page: &PageRequest,
) -> Result<Page, StoreError> {
    let range = Range::new(page, |cursor| {
        // The id of a deleted response is still a place in the list: whoever deletes while paging goes on.
        let known = is_response_id(cursor) || exists(connection, owner, cursor)?.is_some();
        Ok(known.then(|| cursor.to_owned()))
    })?;
    let sql = match range.ascending {
        true => concat!(responses_sql!(), " ORDER BY id ASC LIMIT ?6"),
        false => concat!(responses_sql!(), " ORDER BY id DESC LIMIT ?6"),
    };
    let statement = connection.prepare_cached(sql).map_err(database)?;
    let (lowest, highest) = (String::new(), char::MAX.to_string());
    let (above, below) = (range.above.as_ref().unwrap_or(&lowest), range.below.as_ref().unwrap_or(&highest));
    let parameters = params![&*owner.tenant, &*owner.principal, above, below, now(), range.fetch()];
    range.page(statement, parameters)
}

/// What the client sent for a response; `None`: no such response.
pub(super) fn input_items(
    connection: &Connection,
    owner: &Owner,
    id: &str,
    page: &PageRequest,
) -> Result<Option<Page>, StoreError> {
    let Some(key) = exists(connection, owner, id)? else {
        return Ok(None);
    };
    let range = Range::new(page, |cursor| {
        // Rows of earlier versions may have no owner yet.
        for owner in [Some(owners::key(owner)), None] {
            let position = connection
                .prepare_cached(PLACE)
                .map_err(database)?
                .query_row(params![owner, cursor, key, INPUT], |row| row.get(0))
                .optional()
                .map_err(database)?;
            if position.is_some() {
                return Ok(position);
            }
        }
        Ok(None)
    })?;
    let sql = match range.ascending {
        true => concat!(items_sql!(), " ORDER BY position ASC LIMIT ?5"),
        false => concat!(items_sql!(), " ORDER BY position DESC LIMIT ?5"),
    };
    let statement = connection.prepare_cached(sql).map_err(database)?;
    let (above, below) = (range.above.unwrap_or(-1), range.below.unwrap_or(i64::MAX));
    range.page(statement, params![key, INPUT, above, below, range.fetch()]).map(Some)
}

/// The part of a list that a page is cut from, in terms of what the list is sorted by.
struct Range<K> {
    above: Option<K>,
    below: Option<K>,
    /// The order in which rows are fetched. A page before a cursor is fetched from the cursor backwards.
    ascending: bool,
    backwards: bool,
    limit: usize,
}

impl<K> Range<K> {
    /// `find` gives the place of a cursor, `None` if the list has no such element.
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
        Ok(Self { above, below, ascending: page.ascending != backwards, backwards, limit })
    }

    /// How many rows to fetch: one more than the page has shows whether there are more.
    fn fetch(&self) -> i64 {
        i64::try_from(self.limit).unwrap_or(100) + 1
    }

    fn page(&self, mut statement: CachedStatement<'_>, parameters: impl Params) -> Result<Page, StoreError> {
        let element = |row: &rusqlite::Row<'_>| Ok((Id::from(text(row, 0)?), Arc::from(text(row, 1)?)));
        let rows = statement.query_map(parameters, element).map_err(database)?;
        let mut data: Vec<(Id, Arc<str>)> = rows.collect::<Result<_, _>>().map_err(database)?;
        let has_more = data.len() > self.limit;
        data.truncate(self.limit);
        if self.backwards {
            data.reverse();
        }
        Ok(Page { data, has_more })
    }
}

/// The key of a response that is there and has not expired.
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
