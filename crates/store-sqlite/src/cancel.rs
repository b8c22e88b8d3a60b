//! Marks of running responses that are to be cancelled.

use rusqlite::Connection;

use super::error::database;
use super::owners;
use super::read::{find_live, text};
use antwort_protocol::id::Id;
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::RowPolicy;
use antwort_store::{Owner, StoreError};

/// Marks a running response, or a registered run without a row, which is told by its own process.
pub(super) fn request(
    connection: &Connection,
    in_flight: &InFlightRows,
    owner: &Owner,
    id: &Id,
) -> rusqlite::Result<WriteOutcome> {
    let row = match owners::find(connection, owner)? {
        Some(key) => find_live(connection, key, id.as_str())?,
        None => None,
    };
    let Some(row) = row else {
        let is_registered = in_flight.is_registered(owner, id);
        return Ok(if is_registered { WriteOutcome::Changed } else { WriteOutcome::Absent });
    };
    let marked = connection
        .prepare_cached("UPDATE runs SET cancel_requested = 1 WHERE response = ?1")?
        .execute([row])?;
    Ok(if marked > 0 { WriteOutcome::Changed } else { WriteOutcome::Superseded })
}

const MARKED: &str = "SELECT s.id FROM runs r CROSS JOIN responses s ON s.key = r.response
    WHERE r.instance = ?1 AND r.cancel_requested = 1";

/// The marked runs of this process.
pub(super) fn marked(connection: &Connection, policy: &RowPolicy) -> Result<Vec<Id>, StoreError> {
    let mut statement = connection.prepare_cached(MARKED).map_err(database)?;
    let found =
        statement.query_map([&policy.instance], |row| text(row, 0).map(Id::from)).map_err(database)?;
    found.collect::<Result<_, _>>().map_err(database)
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    /// They are looked for once a second.
    #[test]
    fn marked_runs_are_found_without_looking_at_the_others() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        let plan = schema::plan(&connection, MARKED);
        assert!(plan.iter().any(|step| step.contains("INDEX runs_to_cancel (instance=?)")), "{plan:#?}");
    }
}
