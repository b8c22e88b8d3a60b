//! Rows of runs: who holds the lease of a running response, and its turns.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::clock::db_now;
use super::keys::ResponseKey;
use super::session::{Param, Session};
use super::values::get;
use antwort_store::item_index::ItemColumns;
use antwort_store::row_policy::RowPolicy;
use antwort_store::{Lease, StoreError, TurnRecord};

/// The column `orphan` of a run whose process is gone.
pub(super) const PROCESS_GONE: i16 = 0;
/// The column `orphan` of a run whose end could not be stored.
pub(super) const END_NOT_STORED: i16 = 1;

/// The row of a running response, as the holder of a lease finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunningRow {
    /// The lease is valid.
    Held,
    /// The lease is valid, and the response was deleted.
    Deleted,
    /// It has ended, or the run was taken over.
    Superseded,
}

const LOCK: &str = "SELECT 1 FROM runs WHERE response = $1 ORDER BY owner FOR UPDATE";
const FIND: &str =
    "SELECT s.owner, coalesce(r.instance = $2 AND r.epoch = $3, false), s.expires_at IS NOT NULL
    FROM responses s LEFT JOIN runs r ON r.response = s.key AND r.owner = s.owner WHERE s.key = $1";

/// The key of the response whose run has this lease, and its state; `None` if there is no response of this id. Locks
/// the run.
pub(super) async fn find(
    session: Session<'_>,
    policy: &RowPolicy,
    lease: &Lease,
) -> Result<Option<((Uuid, i64), RunningRow)>, StoreError> {
    let key = ResponseKey::of(lease.id.as_str()).uuid;
    let (instance, epoch) = (policy.instance.as_str(), epoch(lease));
    let params: [Param<'_>; 3] = [(&key, Type::UUID), (&instance, Type::TEXT), (&epoch, Type::INT4)];
    let mut found = None;
    for row in session.query_behind((LOCK, &[(&key, Type::UUID)]), (FIND, &params)).await? {
        let key = (key, get(&row, 0)?);
        match (get(&row, 1)?, get(&row, 2)?) {
            (true, false) => return Ok(Some((key, RunningRow::Held))),
            (true, true) => found = Some((key, RunningRow::Deleted)),
            // Another owner's of the same id, perhaps.
            (false, _) => found = found.or(Some((key, RunningRow::Superseded))),
        }
    }
    Ok(found)
}

/// The column `epoch` of a lease.
pub(super) fn epoch(lease: &Lease) -> i32 {
    i32::try_from(lease.epoch).unwrap_or(i32::MAX)
}

const INSERT: &str = concat!(
    "INSERT INTO runs (response, owner, instance, epoch, lease_until, state) VALUES ($1, $2, $3, $4, $5 + ",
    db_now!(),
    ", $6)"
);

/// Writes that this process makes a run.
pub(super) async fn insert(
    session: Session<'_>,
    policy: &RowPolicy,
    (response, owner): (Uuid, i64),
    lease: &Lease,
    state: Option<&[u8]>,
) -> Result<(), StoreError> {
    let (instance, epoch) = (policy.instance.as_str(), epoch(lease));
    let params: [Param<'_>; 6] = [
        (&response, Type::UUID),
        (&owner, Type::INT8),
        (&instance, Type::TEXT),
        (&epoch, Type::INT4),
        (&policy.lease, Type::INT8),
        (&state, Type::BYTEA),
    ];
    session.execute(INSERT, &params).await.map(drop)
}

const SET_STATE: &str = "UPDATE runs SET state = $3 WHERE response = $1 AND owner = $2";
/// A turn that is there is one of a write that is repeated.
const ADD_TURN: &str =
    "INSERT INTO turns (response, owner, turn, item_index, items) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (response, owner, turn) DO NOTHING";

/// Adds a turn to a run. Its state replaces the one before.
pub(super) async fn add_turn(
    session: Session<'_>,
    (response, owner): (Uuid, i64),
    turn: &TurnRecord,
) -> Result<(), StoreError> {
    let key: [Param<'_>; 2] = [(&response, Type::UUID), (&owner, Type::INT8)];
    let [response, owner] = key.clone();
    // That of a turn which begins its response was written with the lease.
    if let Some(state) = turn.state.as_deref().filter(|_| turn.begin.is_none()) {
        session.execute(SET_STATE, &[response.clone(), owner.clone(), (&state, Type::BYTEA)]).await?;
    }
    let columns = ItemColumns::of(&turn.items);
    let params: [Param<'_>; 5] = [
        response,
        owner,
        (&number(turn), Type::INT4),
        (&columns.index, Type::BYTEA),
        (&columns.texts, Type::BYTEA),
    ];
    session.execute(ADD_TURN, &params).await.map(drop)
}

/// The column `turn`.
fn number(turn: &TurnRecord) -> i32 {
    i32::try_from(turn.turn).unwrap_or(i32::MAX)
}

const REMOVE: &str = "DELETE FROM runs WHERE response = $1 AND owner = $2";
const REMOVE_TURNS: &str = "DELETE FROM turns WHERE response = $1 AND owner = $2";

/// The run of this key goes on no more.
pub(super) async fn remove(session: Session<'_>, key: (Uuid, i64)) -> Result<(), StoreError> {
    remove_turns(session, key).await?;
    session.execute(REMOVE, &[(&key.0, Type::UUID), (&key.1, Type::INT8)]).await.map(drop)
}

/// Removes the turns of a run.
pub(super) async fn remove_turns(session: Session<'_>, key: (Uuid, i64)) -> Result<(), StoreError> {
    session.execute(REMOVE_TURNS, &[(&key.0, Type::UUID), (&key.1, Type::INT8)]).await.map(drop)
}
