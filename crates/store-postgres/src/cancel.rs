//! Marks of running responses that are to be cancelled.

use tokio_postgres::types::Type;

use super::keys::id_of;
use super::session::{Param, Session};
use super::values::get;
use super::{owners, rows};
use antwort_protocol::id::Id;
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::WriteOutcome;
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{Owner, StoreError};

const MARK: &str = "UPDATE runs SET cancel_requested = true WHERE response = $1 AND owner = $2";

/// Marks a running response, or a registered run without a row, which is told by its own process.
pub(super) async fn request(
    session: Session<'_>,
    in_flight: &InFlightRows,
    owner: &Owner,
    id: &Id,
) -> Result<WriteOutcome, StoreError> {
    let row = match owners::find(session, owner).await? {
        Some(owner) => rows::find(session, owner, id.as_str()).await?,
        None => None,
    };
    let now = now();
    let Some(row) = row.filter(|row| row.expires_at.is_none_or(|at| at > now)) else {
        let is_registered = in_flight.is_registered(owner, id);
        return Ok(if is_registered { WriteOutcome::Changed } else { WriteOutcome::Absent });
    };
    if !row.is_running() {
        return Ok(WriteOutcome::Superseded);
    }
    let place: [Param<'_>; 2] = [(&row.key.0, Type::UUID), (&row.key.1, Type::INT8)];
    session.execute(MARK, &place).await?;
    Ok(WriteOutcome::Changed)
}

const MARKED: &str =
    "SELECT s.key, s.id FROM runs r JOIN responses s ON s.key = r.response AND s.owner = r.owner
    WHERE r.instance = $1 AND r.cancel_requested";

/// The marked runs of this process.
pub(super) async fn marked(session: Session<'_>, policy: &RowPolicy) -> Result<Vec<Id>, StoreError> {
    let found = session.query(MARKED, &[(&policy.instance.as_str(), Type::TEXT)]).await?;
    found.iter().map(|row| id_of(get(row, 0)?, get(row, 1)?)).collect()
}
