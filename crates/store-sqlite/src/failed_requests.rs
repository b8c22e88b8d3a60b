//! Rows of requests that failed before their first output. Of each tenant the oldest are removed beyond a number.

use rusqlite::{Connection, params};

use super::owners;
use super::rows::{self, Lifetime};
use antwort_store::ResponseRecord;
use antwort_store::failed_requests::MAX_REMOVED;
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::{RowPolicy, now};

const MARK: &str = "UPDATE responses SET failed_tenant = ?2 WHERE key = ?1";
/// Nothing but the row is there of such a request.
const REMOVE: &str = "DELETE FROM responses WHERE key IN (
        SELECT key FROM responses WHERE failed_tenant = ?1 ORDER BY key DESC LIMIT ?3 OFFSET ?2)";

/// Writes the row of such a request.
pub(super) fn insert(
    connection: &Connection,
    policy: &RowPolicy,
    in_flight: &InFlightRows,
    record: &ResponseRecord,
) -> rusqlite::Result<WriteOutcome> {
    let id = &record.lease.id;
    if in_flight.is_deleted(&record.owner, id) {
        return Ok(WriteOutcome::Absent);
    }
    let owner = owners::key(connection, &record.owner)?;
    let slots = rows::slots(connection, owner, id.as_str())?;
    if slots.row.is_some() {
        return Ok(WriteOutcome::Superseded);
    }
    let (now, tenant) = (now(), &*record.owner.tenant);
    let expires_at = policy.retention.of(tenant).expiry(now);
    let lifetime = Lifetime { finished_at: Some(now), expires_at, lineage_until: expires_at };
    let key = rows::insert(connection, owner, &slots, record, &lifetime)?;
    connection.prepare_cached(MARK)?.execute(params![key, tenant])?;
    if let Some(kept) = policy.failed_requests.kept_with(id) {
        connection.prepare_cached(REMOVE)?.execute(params![tenant, kept, MAX_REMOVED])?;
    }
    Ok(WriteOutcome::Changed)
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn the_oldest_of_a_tenant_are_found_in_their_index_alone() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        let plan = schema::plan(&connection, REMOVE);
        let covered = "SEARCH responses USING COVERING INDEX responses_by_failed_tenant (failed_tenant=?)";
        assert!(plan.iter().any(|step| step == covered), "{plan:#?}");
        assert!(!plan.iter().any(|step| step.contains("SCAN") || step.contains("B-TREE")), "{plan:#?}");
    }
}
