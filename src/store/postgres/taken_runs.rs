//! Runs that this process makes from where another has left them: all that was committed of them.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::error::corrupt;
use super::keys::id_of;
use super::removal::Place;
use super::running::END_NOT_STORED;
use super::session::{Param, Session};
use super::values::{get, text, text_or_null};
use crate::protocol::id::Id;
use crate::store::item_index;
use crate::store::operation::item_size;
use crate::store::{Lease, OrphanCause, OrphanedCall, OrphanedRun, Owner, StoreError, StoredItem};

/// A batch ends after this many bytes: all of it is in memory.
pub(super) const MAX_BATCH_BYTES: usize = 16 << 20;

/// The columns that [`read`] takes, of `runs r` behind the update, `responses s` and `owners o`.
macro_rules! columns {
    () => {
        "s.id, o.tenant, o.principal, s.created_at, s.model, s.previous_id, s.body, r.epoch, r.orphan, r.state,
            r.cancel_requested, s.item_index, s.items, r.response, r.owner"
    };
}
pub(super) use columns;

/// How many they are.
pub(super) const COLUMNS: usize = 15;

/// A run and its place, without its turns.
pub(super) fn read(row: &Row) -> Result<(Place, OrphanedRun), StoreError> {
    let place: Place = (get(row, 13)?, get(row, 14)?);
    let owner = Owner { tenant: text(row, 1)?.into(), principal: text(row, 2)?.into() };
    let epoch = u32::try_from(get::<i32>(row, 7)?).map_err(corrupt)?;
    let run = OrphanedRun {
        lease: Lease { id: id_of(place.0, get(row, 0)?)?, epoch },
        owner,
        cause: match get(row, 8)? {
            Some(END_NOT_STORED) => OrphanCause::EndNotStored,
            _ => OrphanCause::ProcessGone,
        },
        is_cancelled: get(row, 10)?,
        created_at: get(row, 3)?,
        model: text(row, 4)?.to_owned(),
        previous: text_or_null(row, 5)?.map(Id::from),
        body: text(row, 6)?.into(),
        items: items(row, 11)?,
        calls: Vec::new(),
        state: get::<Option<&[u8]>>(row, 9)?.map(Arc::from),
    };
    Ok((place, run))
}

const TURNS: &str = "SELECT t.item_index, t.items, t.response, t.owner FROM turns t
    JOIN unnest($1::uuid[], $2::bigint[]) AS g (response, owner) ON g.response = t.response AND g.owner = t.owner
    ORDER BY t.response, t.owner, t.turn";

const CALLS: &str = "SELECT c.turn, c.position, c.server_label, c.tool, c.arguments, c.output, c.error,
        c.completed_at IS NOT NULL, c.response, c.owner
    FROM tool_calls c
    JOIN unnest($1::uuid[], $2::bigint[]) AS g (response, owner) ON g.response = c.response AND g.owner = c.owner
    ORDER BY c.response, c.owner, c.turn, c.position";

/// Adds the items of the turns of these runs, and their calls, in order.
pub(super) async fn complete(
    session: Session<'_>,
    runs: &mut [(Place, OrphanedRun)],
) -> Result<(), StoreError> {
    if runs.is_empty() {
        return Ok(());
    }
    let (responses, owners): (Vec<Uuid>, Vec<i64>) = runs.iter().map(|(place, _)| *place).unzip();
    let places: [Param<'_>; 2] = [(&responses, Type::UUID_ARRAY), (&owners, Type::INT8_ARRAY)];
    let (turns, calls) = (session.query(TURNS, &places).await?, session.query(CALLS, &places).await?);
    let mut by_place: HashMap<Place, &mut OrphanedRun> =
        runs.iter_mut().map(|(place, run)| (*place, run)).collect();
    for row in &turns {
        if let Some(run) = by_place.get_mut(&(get(row, 2)?, get(row, 3)?)) {
            run.items.extend(items(row, 0)?);
        }
    }
    for row in &calls {
        if let Some(run) = by_place.get_mut(&(get(row, 8)?, get(row, 9)?)) {
            run.calls.push(call(row)?);
        }
    }
    Ok(())
}

/// The items of a row, whose index is in this column and their texts in the next.
fn items(row: &Row, column: usize) -> Result<Vec<StoredItem>, StoreError> {
    item_index::items(get(row, column)?, get(row, column + 1)?).map_err(corrupt)
}

fn call(row: &Row) -> Result<OrphanedCall, StoreError> {
    let outcome = (text_or_null(row, 5)?.unwrap_or_default().to_owned(), get(row, 6)?);
    Ok(OrphanedCall {
        turn: get::<i32>(row, 0)?.unsigned_abs(),
        index: get::<i32>(row, 1)?.unsigned_abs(),
        server_label: text(row, 2)?.to_owned(),
        tool: text(row, 3)?.to_owned(),
        arguments: text(row, 4)?.to_owned(),
        outcome: get::<bool>(row, 7)?.then_some(outcome),
    })
}

/// The approximate number of bytes that a run takes in memory.
pub(super) fn size(run: &OrphanedRun) -> usize {
    let state = run.state.as_ref().map_or(0, |state| state.len());
    let of_call = |call: &OrphanedCall| {
        call.arguments.len() + call.outcome.as_ref().map_or(0, |(output, _)| output.len())
    };
    let items = run.items.iter().map(item_size).sum::<usize>();
    run.body.len() + state + items + run.calls.iter().map(of_call).sum::<usize>()
}
