//! Reads of a response by its id, and what reads share.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::corrupt;
use super::error::database;
use super::keys::KeyRange;
use antwort_protocol::id::Id;
use antwort_protocol::item::Item;
use antwort_store::row_policy::now;
use antwort_store::{Owner, StoreError};

/// The response object as it was sent. Its length, which SQLite knows without reading it, is checked first.
pub(super) fn response(
    connection: &Connection,
    owner: &Owner,
    id: &str,
    max_bytes: u64,
) -> Result<Option<Arc<str>>, StoreError> {
    let mut statement = connection.prepare_cached(RESPONSE).map_err(database)?;
    let max = i64::try_from(max_bytes).unwrap_or(i64::MAX);
    let KeyRange { first, last } = KeyRange::of(id);
    let parameters = params![&*owner.tenant, &*owner.principal, first, last, id, now(), max];
    let read = |row: &Row<'_>| {
        let bytes: u32 = row.get(0)?;
        let bytes = u64::from(bytes);
        Ok(if bytes > max_bytes { Err(StoreError::TooLarge { bytes }) } else { Ok(text(row, 1)?.into()) })
    };
    statement.query_row(parameters, read).optional().map_err(database)?.transpose()
}

const RESPONSE: &str =
    "SELECT octet_length(body), CASE WHEN octet_length(body) <= ?7 THEN body END FROM responses
    WHERE key BETWEEN ?3 AND ?4 AND id = ?5
        AND +owner = (SELECT key FROM owners WHERE tenant = ?1 AND principal = ?2)
        AND (expires_at IS NULL OR expires_at > ?6)";

/// The accounts of the runs of responses.
pub(super) fn traces(
    connection: &Connection,
    owner: &Owner,
    ids: &[Id],
) -> Result<Vec<Option<Arc<str>>>, StoreError> {
    let mut statement = connection.prepare_cached(TRACE).map_err(database)?;
    let read = |row: &Row<'_>| row.get::<_, Option<String>>(0);
    let mut traces = Vec::with_capacity(ids.len());
    for id in ids {
        let KeyRange { first, last } = KeyRange::of(id.as_str());
        let parameters = params![&*owner.tenant, &*owner.principal, first, last, id.as_str(), now()];
        let found = statement.query_row(parameters, read).optional().map_err(database)?;
        traces.push(found.flatten().map(Arc::from));
    }
    Ok(traces)
}

const TRACE: &str = "SELECT trace FROM responses
    WHERE key BETWEEN ?3 AND ?4 AND id = ?5
        AND +owner = (SELECT key FROM owners WHERE tenant = ?1 AND principal = ?2)
        AND (expires_at IS NULL OR expires_at > ?6)";

/// The key of a response of this owner that has not expired.
pub(super) fn live_key(connection: &Connection, owner: i64, id: &str) -> Result<Option<i64>, StoreError> {
    find_live(connection, owner, id).map_err(database)
}

/// The same, for writes.
pub(super) fn find_live(connection: &Connection, owner: i64, id: &str) -> rusqlite::Result<Option<i64>> {
    let KeyRange { first, last } = KeyRange::of(id);
    connection
        .prepare_cached(LIVE_KEY)?
        .query_row(params![first, last, id, owner, now()], |row| row.get(0))
        .optional()
}

// The plus keeps SQLite from the index of owners, which would be one look-up more.
const LIVE_KEY: &str = "SELECT key FROM responses WHERE key BETWEEN ?1 AND ?2 AND id = ?3 AND +owner = ?4
    AND (expires_at IS NULL OR expires_at > ?5)";

/// A text column.
pub(super) fn text<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<&'a str> {
    let value = row.get_ref(column)?;
    value.as_str().map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, value.data_type(), Box::new(error))
    })
}

/// A column of bytes.
pub(super) fn bytes<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<&'a [u8]> {
    let value = row.get_ref(column)?;
    value.as_blob().map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, value.data_type(), Box::new(error))
    })
}

/// A stored item.
pub(super) fn item(json: &str) -> Result<Item, StoreError> {
    serde_json::from_str(json).map_err(corrupt)
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    /// Statements of reads and writes look at few rows by their keys.
    #[test]
    fn a_response_is_found_by_a_range_of_keys() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        for sql in [RESPONSE, LIVE_KEY, TRACE] {
            let plan = schema::plan(&connection, sql);
            let step = "SEARCH responses USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)";
            assert!(plan.iter().any(|found| found == step), "{plan:#?}");
            assert!(
                !plan.iter().any(|found| found.starts_with("SCAN") && found.contains("responses")),
                "{plan:#?}"
            );
        }
    }
}
