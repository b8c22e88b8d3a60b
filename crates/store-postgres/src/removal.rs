//! Deletes responses with everything that belongs to them, many at once.

use std::borrow::Cow;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::keys::id_of;
use super::logged_rows;
use super::session::{Param, Session};
use super::values::{get, indexed};
use antwort_store::StoreError;
use antwort_store::item_names::ItemNames;

/// The key and the owner of a response.
pub(super) type Place = (Uuid, i64);

/// What leads to the items of responses. Their rows are locked.
const NAMES: &str = "SELECT s.key, s.owner, s.id, s.item_index FROM responses s
    JOIN unnest($1::uuid[], $2::bigint[]) AS g (key, owner) ON g.key = s.key AND g.owner = s.owner
    ORDER BY s.key, s.owner FOR UPDATE OF s";
const ITEM_IDS: &str = "DELETE FROM item_ids i
    USING unnest($1::bytea[], $2::uuid[], $3::bigint[]) AS g (item_id, response, owner)
    WHERE i.owner = g.owner AND i.item_id = g.item_id AND i.response = g.response";
const ITEM_STATES: &str = "DELETE FROM item_states i
    USING unnest($1::bytea[], $2::uuid[], $3::bigint[]) AS g (state_key, response, owner)
    WHERE i.state_key = g.state_key AND i.owner = g.owner AND i.response = g.response";
/// Those of a damaged index are not known.
const ALL_ITEM_IDS: &str = "DELETE FROM item_ids WHERE owner = $1 AND response = $2";
const ALL_ITEM_STATES: &str = "DELETE FROM item_states WHERE owner = $1 AND response = $2";

/// What belongs to responses, running or not, beside what leads to their items.
const PARTS: &str = "WITH gone AS (SELECT * FROM unnest($1::uuid[], $2::bigint[]) AS g (response, owner)),
    of_approvals AS (DELETE FROM approvals a USING gone g WHERE a.owner = g.owner AND a.response = g.response),
    of_conversations AS (DELETE FROM response_conversations c USING gone g
        WHERE c.response = g.response AND c.owner = g.owner),
    of_turns AS (DELETE FROM turns t USING gone g WHERE t.response = g.response AND t.owner = g.owner),
    of_pending_calls AS (DELETE FROM pending_calls a USING gone g WHERE a.response = g.response AND a.owner = g.owner)
    DELETE FROM tool_calls c USING gone g WHERE c.response = g.response AND c.owner = g.owner";
const ROWS: &str = "WITH gone AS (SELECT * FROM unnest($1::uuid[], $2::bigint[]) AS g (response, owner)),
    of_runs AS (DELETE FROM runs r USING gone g WHERE r.response = g.response AND r.owner = g.owner)
    DELETE FROM responses s USING gone g WHERE s.key = g.response AND s.owner = g.owner";

/// Empties rows of running responses that their owner deletes.
///
/// Such a row stays, empty, until its run ends, so that its run, in whichever process, finds that it was deleted and
/// stores nothing more. The row has expired from the start: no reader sees it.
const EMPTY: &str = "WITH gone AS (SELECT * FROM unnest($1::uuid[], $2::bigint[]) AS g (response, owner)),
    of_runs AS (UPDATE runs r SET state = NULL, job = NULL, attempt = NULL, cancel_requested = true, waits_until = NULL,
        lease_until = CASE WHEN r.waits_until IS NULL THEN r.lease_until ELSE 0 END
        FROM gone g WHERE r.response = g.response AND r.owner = g.owner)
    UPDATE responses s SET expires_at = 0, previous_key = NULL, previous_id = NULL, model = ''::bytea, item_index = ''::bytea,
        items = ''::bytea, body = ''::bytea
    FROM gone g WHERE s.key = g.response AND s.owner = g.owner AND s.expires_at IS NULL";

/// Deletes responses with everything that belongs to them. Returns how many there were: another process may have deleted
/// some of them since they were found.
pub(super) async fn remove_all(session: Session<'_>, places: &[Place]) -> Result<u64, StoreError> {
    apply(session, places, ROWS).await
}

/// Empties the rows of running responses that are deleted. Returns how many there were.
pub(super) async fn empty_running(session: Session<'_>, places: &[Place]) -> Result<u64, StoreError> {
    apply(session, places, EMPTY).await
}

async fn apply(session: Session<'_>, places: &[Place], last: &'static str) -> Result<u64, StoreError> {
    if places.is_empty() {
        return Ok(0);
    }
    let (keys, owners): (Vec<Uuid>, Vec<i64>) = places.iter().copied().unzip();
    let parameters: [Param<'_>; 2] = [(&keys, Type::UUID_ARRAY), (&owners, Type::INT8_ARRAY)];
    let rows = session.query(NAMES, &parameters).await?;
    remove_names(session, &rows).await?;
    session.execute(PARTS, &parameters).await?;
    logged_rows::remove(session, &keys, &owners).await?;
    session.execute(last, &parameters).await
}

pub(crate) async fn remove_names(session: Session<'_>, rows: &[Row]) -> Result<(), StoreError> {
    let (mut ids, mut states) = (Names::default(), Names::default());
    for row in rows {
        let (key, owner): Place = (get(row, 0)?, get(row, 1)?);
        let response = id_of(key, get(row, 2)?)?;
        let Ok(names) = ItemNames::read(get(row, 3)?, response.as_str()) else {
            let place: [Param<'_>; 2] = [(&owner, Type::INT8), (&key, Type::UUID)];
            session.execute(ALL_ITEM_IDS, &place).await?;
            session.execute(ALL_ITEM_STATES, &place).await?;
            continue;
        };
        names.ids.into_iter().for_each(|id| ids.push(indexed(id), (key, owner)));
        names.states.into_iter().for_each(|state| states.push(indexed(state), (key, owner)));
    }
    ids.delete(session, ITEM_IDS).await?;
    states.delete(session, ITEM_STATES).await
}

/// What leads to responses, and to which.
#[derive(Default)]
struct Names<'a> {
    names: Vec<Cow<'a, [u8]>>,
    responses: Vec<Uuid>,
    owners: Vec<i64>,
}

impl<'a> Names<'a> {
    fn push(&mut self, name: Cow<'a, [u8]>, (response, owner): Place) {
        self.names.push(name);
        self.responses.push(response);
        self.owners.push(owner);
    }

    async fn delete(&self, session: Session<'_>, sql: &'static str) -> Result<(), StoreError> {
        if self.names.is_empty() {
            return Ok(());
        }
        let names: Vec<&[u8]> = self.names.iter().map(|name| &**name).collect();
        let parameters: [Param<'_>; 3] = [
            (&names, Type::BYTEA_ARRAY),
            (&self.responses, Type::UUID_ARRAY),
            (&self.owners, Type::INT8_ARRAY),
        ];
        session.execute(sql, &parameters).await.map(drop)
    }
}
