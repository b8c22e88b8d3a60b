//! Runs that this process makes from where another has left them: all that was committed of them.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::clock::db_now;
use super::error::corrupt;
use super::keys::id_of;
use super::pending_calls;
use super::removal::Place;
use super::running::END_NOT_STORED;
use super::session::{Param, Session};
use super::values::{get, text, text_or_null};
use antwort_protocol::id::Id;
use antwort_store::item_index;
use antwort_store::taken_run::{PASSED_OVER, log_damaged, log_unreadable};
use antwort_store::{Lease, OrphanCause, OrphanedCall, OrphanedRun, Owner, StoreError, StoredItem};

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

/// A run that was taken, as far as it can be read.
pub(super) struct Taken<'a> {
    pub row: &'a Row,
    pub place: Place,
    pub run: OrphanedRun,
    /// Whether something is missing.
    pub is_damaged: bool,
}

/// What was taken with these rows, in their order. Runs without a name that can be read are given back for a while.
pub(super) async fn read<'a>(session: Session<'_>, rows: &'a [Row]) -> Result<Vec<Taken<'a>>, StoreError> {
    let (mut taken, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        let place = (get(row, 13)?, get(row, 14)?);
        match read_run(place, row) {
            Ok((run, is_damaged)) => taken.push(Taken { row, place, run, is_damaged }),
            Err(error) => {
                log_unreadable(&error);
                unreadable.push(place);
            }
        }
    }
    pass_over(session, &unreadable).await?;
    complete(session, &mut taken).await?;
    Ok(taken)
}

const PASS_OVER: &str = concat!(
    "UPDATE runs r SET instance = '', claim = NULL, lease_until = $3 + ",
    db_now!(),
    " FROM unnest($1::uuid[], $2::bigint[]) AS g (response, owner)
    WHERE r.response = g.response AND r.owner = g.owner"
);

async fn pass_over(session: Session<'_>, places: &[Place]) -> Result<(), StoreError> {
    if places.is_empty() {
        return Ok(());
    }
    let (responses, owners): (Vec<Uuid>, Vec<i64>) = places.iter().copied().unzip();
    let parameters: [Param<'_>; 3] =
        [(&responses, Type::UUID_ARRAY), (&owners, Type::INT8_ARRAY), (&PASSED_OVER, Type::INT8)];
    session.execute(PASS_OVER, &parameters).await.map(drop)
}

/// A run without its turns, and whether something is missing.
fn read_run(place: Place, row: &Row) -> Result<(OrphanedRun, bool), StoreError> {
    let owner = Owner { tenant: text(row, 1)?.into(), principal: text(row, 2)?.into() };
    let epoch = u32::try_from(get::<i32>(row, 7)?).map_err(corrupt)?;
    let lease = Lease { id: id_of(place.0, get(row, 0)?)?, epoch };
    let (body, items) = (text(row, 6), items(row, 11));
    let damage = body.as_ref().err().or(items.as_ref().err());
    if let Some(error) = damage {
        log_damaged(&lease, error);
    }
    let is_damaged = damage.is_some();
    let mut run = OrphanedRun {
        lease,
        owner,
        cause: match get(row, 8)? {
            Some(END_NOT_STORED) => OrphanCause::EndNotStored,
            _ => OrphanCause::ProcessGone,
        },
        is_cancelled: get(row, 10)?,
        created_at: get(row, 3)?,
        model: text(row, 4)?.to_owned(),
        previous: text_or_null(row, 5)?.map(Id::from),
        body: body.unwrap_or_default().into(),
        items: items.unwrap_or_default(),
        calls: Vec::new(),
        pending: Vec::new(),
        state: get::<Option<&[u8]>>(row, 9)?.map(Arc::from),
    };
    if is_damaged {
        run.leave_out_items();
    }
    Ok((run, is_damaged))
}

const TURNS: &str = "SELECT t.item_index, t.items, t.response, t.owner FROM turns t
    JOIN unnest($1::uuid[], $2::bigint[]) AS g (response, owner) ON g.response = t.response AND g.owner = t.owner
    ORDER BY t.response, t.owner, t.turn";

const CALLS: &str =
    "SELECT c.turn, c.position, c.server_label, c.tool, c.arguments, c.output, c.error, c.completed_at IS NOT NULL,
        c.response, c.owner
    FROM tool_calls c
    JOIN unnest($1::uuid[], $2::bigint[]) AS g (response, owner) ON g.response = c.response AND g.owner = c.owner
    ORDER BY c.response, c.owner, c.turn, c.position";

/// Adds the items of the turns of these runs, and their calls, in order.
async fn complete(session: Session<'_>, runs: &mut [Taken<'_>]) -> Result<(), StoreError> {
    if runs.is_empty() {
        return Ok(());
    }
    let (responses, owners): (Vec<Uuid>, Vec<i64>) = runs.iter().map(|taken| taken.place).unzip();
    let places: [Param<'_>; 2] = [(&responses, Type::UUID_ARRAY), (&owners, Type::INT8_ARRAY)];
    let (turns, calls) = (session.query(TURNS, &places).await?, session.query(CALLS, &places).await?);
    let pending = session.query(pending_calls::OF_RUNS, &places).await?;
    let mut by_place: HashMap<Place, &mut Taken<'_>> =
        runs.iter_mut().map(|taken| (taken.place, taken)).collect();
    for row in &turns {
        if let Some(taken) = by_place.get_mut(&(get(row, 2)?, get(row, 3)?)) {
            taken.add(items(row, 0), |run, items| run.items.extend(items));
        }
    }
    for row in &calls {
        if let Some(taken) = by_place.get_mut(&(get(row, 8)?, get(row, 9)?)) {
            taken.add(call(row), |run, call| run.calls.push(call));
        }
    }
    for row in &pending {
        if let Some(taken) = by_place.get_mut(&(get(row, 0)?, get(row, 1)?)) {
            taken.add(pending_calls::read(row), |run, call| run.pending.push(call));
        }
    }
    Ok(())
}

impl Taken<'_> {
    fn add<T>(&mut self, part: Result<T, StoreError>, add: impl FnOnce(&mut OrphanedRun, T)) {
        match part {
            Ok(part) if !self.is_damaged => add(&mut self.run, part),
            Ok(_) => {}
            Err(error) => {
                log_damaged(&self.run.lease, &error);
                self.is_damaged = true;
                self.run.leave_out_items();
            }
        }
    }
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
