//! Leases of runs, and runs that nobody makes any more: their process is gone, or their end could not be stored.

use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::clock::db_now;
use super::error::corrupt;
use super::keys::{ResponseKey, id_of};
use super::removal;
use super::running::{END_NOT_STORED, PROCESS_GONE};
use super::session::{Param, Session};
use super::values::{get, text, text_or_null};
use crate::protocol::id::Id;
use crate::store::in_flight::InFlightRows;
use crate::store::item_index;
use crate::store::operation::item_size;
use crate::store::row_policy::RowPolicy;
use crate::store::{Lease, OrphanCause, OrphanedCall, OrphanedRun, Owner, StoreError, StoredItem};

/// A batch ends after this many bytes: all of it is in memory.
const MAX_BATCH_BYTES: usize = 16 << 20;

const RENEW: &str =
    concat!("UPDATE runs SET lease_until = $2 + ", db_now!(), " WHERE instance = $1 AND orphan IS NULL");

/// Renews the leases of the runs that this process makes. Those of orphans that it has taken over end unless they are
/// finished.
pub(super) async fn renew_leases(session: Session<'_>, policy: &RowPolicy) -> Result<(), StoreError> {
    let instance = policy.instance.as_str();
    session.execute(RENEW, &[(&instance, Type::TEXT), (&policy.lease, Type::INT8)]).await.map(drop)
}

const RELEASE: &str = "UPDATE runs SET lease_until = 0 WHERE instance = $1";

/// Releases this process's leases, so that another process may end its runs.
pub(super) async fn release_leases(session: Session<'_>, policy: &RowPolicy) -> Result<(), StoreError> {
    session.execute(RELEASE, &[(&policy.instance.as_str(), Type::TEXT)]).await.map(drop)
}

const RELEASE_LEFT: &str =
    "UPDATE runs SET orphan = coalesce(orphan, $2), lease_until = 0 WHERE instance = $1";

/// Gives up the leases that an earlier process of this name left.
pub(super) async fn release_left(session: Session<'_>, policy: &RowPolicy) -> Result<(), StoreError> {
    let instance = policy.instance.as_str();
    session.execute(RELEASE_LEFT, &[(&instance, Type::TEXT), (&PROCESS_GONE, Type::INT2)]).await.map(drop)
}

const ABANDON: &str = "UPDATE runs SET orphan = coalesce(orphan, $3), lease_until = 0
    WHERE response = $1 AND instance = $2";

/// Abandons the rows of runs whose end could not be written, so that they are ended like those of a dead process.
pub(super) async fn release_abandoned(
    session: Session<'_>,
    policy: &RowPolicy,
    in_flight: &mut InFlightRows,
) -> Result<(), StoreError> {
    let instance = policy.instance.as_str();
    while let Some(id) = in_flight.abandoned() {
        let key = ResponseKey::of(id.as_str()).uuid;
        let params: [Param<'_>; 3] =
            [(&key, Type::UUID), (&instance, Type::TEXT), (&END_NOT_STORED, Type::INT2)];
        session.execute(ABANDON, &params).await?;
        in_flight.forget_abandoned();
    }
    Ok(())
}

/// Which `runs r` are orphans for the instance $1. Of its own runs only those that were orphans before.
macro_rules! is_orphan {
    () => {
        concat!(
            "r.lease_until < ",
            super::clock::db_now!(),
            " AND (r.instance <> $1 OR r.orphan IS NOT NULL)"
        )
    };
}

const CANDIDATES: &str =
    concat!("SELECT r.response, r.owner FROM runs r WHERE ", is_orphan!(), " ORDER BY r.response LIMIT $2");

/// Some that may be orphans; [`take`] looks at each under its lock. Usually there are none.
pub(super) async fn candidates(
    session: Session<'_>,
    policy: &RowPolicy,
    limit: usize,
) -> Result<Vec<(Uuid, i64)>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows =
        session.query(CANDIDATES, &[(&policy.instance.as_str(), Type::TEXT), (&limit, Type::INT8)]).await?;
    rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect()
}

/// One that another process writes at this moment is none.
const LOCK: &str = "SELECT 1 FROM runs WHERE response = $1 AND owner = $2 FOR UPDATE SKIP LOCKED";
const TAKE: &str = concat!(
    "UPDATE runs r SET instance = $1, epoch = r.epoch + 1, lease_until = $4 + ",
    db_now!(),
    ", orphan = coalesce(r.orphan, $5) FROM responses s, owners o
    WHERE r.response = $2 AND r.owner = $3 AND s.key = r.response AND s.owner = r.owner AND o.key = s.owner AND ",
    is_orphan!(),
    " RETURNING s.id, o.tenant, o.principal, s.created_at, s.model, s.previous_id, s.body, r.epoch, r.orphan, r.state,
        s.expires_at IS NOT NULL, s.item_index, s.items"
);

/// Takes orphans over for this instance. A deleted one is removed.
pub(super) async fn take(
    session: Session<'_>,
    policy: &RowPolicy,
    candidates: &[(Uuid, i64)],
) -> Result<Vec<OrphanedRun>, StoreError> {
    let (mut taken, mut bytes) = (Vec::new(), 0_usize);
    for key in candidates {
        if bytes >= MAX_BATCH_BYTES {
            break;
        }
        let place: [Param<'_>; 2] = [(&key.0, Type::UUID), (&key.1, Type::INT8)];
        if session.query_opt(LOCK, &place).await?.is_none() {
            continue;
        }
        let params: [Param<'_>; 5] = [
            (&policy.instance.as_str(), Type::TEXT),
            (&key.0, Type::UUID),
            (&key.1, Type::INT8),
            (&policy.lease, Type::INT8),
            (&PROCESS_GONE, Type::INT2),
        ];
        let Some(row) = session.query_opt(TAKE, &params).await? else { continue };
        if get(&row, 10)? {
            removal::remove_all(session, &[*key]).await?;
            continue;
        }
        let mut run = read(&row, key.0)?;
        run.items.extend(turns(session, &place).await?);
        run.calls = calls(session, &place).await?;
        bytes = bytes.saturating_add(size(&run));
        taken.push(run);
    }
    Ok(taken)
}

fn read(row: &Row, key: Uuid) -> Result<OrphanedRun, StoreError> {
    let owner = Owner { tenant: text(row, 1)?.into(), principal: text(row, 2)?.into() };
    let epoch = u32::try_from(get::<i32>(row, 7)?).map_err(corrupt)?;
    Ok(OrphanedRun {
        lease: Lease { id: id_of(key, get(row, 0)?)?, epoch },
        owner,
        cause: match get(row, 8)? {
            Some(END_NOT_STORED) => OrphanCause::EndNotStored,
            _ => OrphanCause::ProcessGone,
        },
        created_at: get(row, 3)?,
        model: text(row, 4)?.to_owned(),
        previous: text_or_null(row, 5)?.map(Id::from),
        body: text(row, 6)?.into(),
        items: items(row, 11)?,
        calls: Vec::new(),
        state: get::<Option<&[u8]>>(row, 9)?.map(Arc::from),
    })
}

/// The approximate number of bytes that a run takes in memory.
fn size(run: &OrphanedRun) -> usize {
    let state = run.state.as_ref().map_or(0, |state| state.len());
    let of_call = |call: &OrphanedCall| {
        call.arguments.len() + call.outcome.as_ref().map_or(0, |(output, _)| output.len())
    };
    let items = run.items.iter().map(item_size).sum::<usize>();
    run.body.len() + state + items + run.calls.iter().map(of_call).sum::<usize>()
}

/// The items of a row, whose index is in this column and their texts in the next.
fn items(row: &Row, column: usize) -> Result<Vec<StoredItem>, StoreError> {
    item_index::items(get(row, column)?, get(row, column + 1)?).map_err(corrupt)
}

const TURNS: &str = "SELECT item_index, items FROM turns WHERE response = $1 AND owner = $2 ORDER BY turn";

/// The items of the turns of a run, in order.
async fn turns(session: Session<'_>, place: &[Param<'_>]) -> Result<Vec<StoredItem>, StoreError> {
    let turns = session.query(TURNS, place).await?;
    let turns: Vec<_> = turns.iter().map(|row| items(row, 0)).collect::<Result<_, _>>()?;
    Ok(turns.into_iter().flatten().collect())
}

const CALLS: &str =
    "SELECT turn, position, server_label, tool, arguments, output, error, completed_at IS NOT NULL
    FROM tool_calls WHERE response = $1 AND owner = $2 ORDER BY turn, position";

async fn calls(session: Session<'_>, place: &[Param<'_>]) -> Result<Vec<OrphanedCall>, StoreError> {
    let call = |row: &Row| {
        let outcome = (text_or_null(row, 5)?.unwrap_or_default().to_owned(), get(row, 6)?);
        Ok(OrphanedCall {
            turn: get::<i32>(row, 0)?.unsigned_abs(),
            index: get::<i32>(row, 1)?.unsigned_abs(),
            server_label: text(row, 2)?.to_owned(),
            tool: text(row, 3)?.to_owned(),
            arguments: text(row, 4)?.to_owned(),
            outcome: get::<bool>(row, 7)?.then_some(outcome),
        })
    };
    session.query(CALLS, place).await?.iter().map(call).collect()
}
