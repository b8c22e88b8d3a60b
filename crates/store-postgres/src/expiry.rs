//! Deletes expired rows, by walks over the keys: no index is written for it at each use of a response.
//!
//! Keys begin with the time, so that rows expire in their order, but for those whose life was prolonged. One walk goes
//! over the rows that are older than the time to live, and comes to each row when its time is over; rows that live on
//! are passed, and looked at again by the next walk. The other goes slowly over all rows, for those whose time to live
//! was another, and those whose key is no time. Both go on where they stopped, a limited number of rows in each round
//! of maintenance. Readers ignore expired rows, whether they are deleted yet or not. Several processes may walk at once:
//! each deletes the rows that no other has locked.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::session::{Param, Session};
use super::values::get;
use super::{keys, removal};
use antwort_store::StoreError;
use antwort_store::row_policy::now;

/// Rows that one step looks at.
const STEP_ROWS: i64 = 500;
/// Rows that live on and are passed in a round, of those that are older than the time to live.
const DUE_ROWS: usize = 20_000;
/// The same for the walk over all rows.
const ALL_ROWS: usize = 2_000;

/// Which rows are walked over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Those older than this many milliseconds.
    Older(i64),
    All,
}

/// The key and the owner of a response.
type Place = (Uuid, i64);

impl Which {
    /// The place behind which the rows begin.
    fn start(self) -> Place {
        match self {
            // All keys that are a time are above it.
            Self::Older(_) => (keys::lowest_at(0), i64::MIN),
            Self::All => (Uuid::nil(), i64::MIN),
        }
    }

    /// The keys below which the rows are.
    fn bound(self) -> Uuid {
        match self {
            Self::Older(millis) => keys::lowest_at(now().saturating_sub(millis)),
            Self::All => Uuid::max(),
        }
    }
}

/// A walk over rows, in steps.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// The last row that was looked at; `None` at the beginning.
    position: Option<Place>,
    /// Rows that may be passed in this round.
    left: usize,
}

const ROWS: &str = "SELECT key, owner, coalesce(expires_at <= $4, false)
    FROM responses WHERE (key, owner) > ($1, $2) AND key < $3 ORDER BY key, owner LIMIT $5";
/// Those that still are expired, that do not run, and that no other process deletes.
const EXPIRED: &str = "SELECT s.key, s.owner FROM responses s
    JOIN unnest($1::uuid[], $2::bigint[]) AS g (key, owner) ON g.key = s.key AND g.owner = s.owner
    WHERE s.expires_at <= $3
        AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.response = s.key AND r.owner = s.owner)
    ORDER BY s.key, s.owner FOR UPDATE OF s SKIP LOCKED";

impl Walk {
    /// Begins a round: the rows that may be passed are as many as at its beginning.
    pub(super) fn begin_round(&mut self, which: Which) {
        self.left = match which {
            Which::Older(_) => DUE_ROWS,
            Which::All => ALL_ROWS,
        };
    }

    /// One step, in a transaction of its own; [`Self::go_on`] notes it behind the commit.
    pub(super) async fn step(&self, session: Session<'_>, which: Which) -> Result<Step, StoreError> {
        let (key, owner) = self.position.unwrap_or_else(|| which.start());
        let (bound, now) = (which.bound(), now());
        let parameters: [Param<'_>; 5] = [
            (&key, Type::UUID),
            (&owner, Type::INT8),
            (&bound, Type::UUID),
            (&now, Type::INT8),
            (&STEP_ROWS, Type::INT8),
        ];
        let found = session.query(ROWS, &parameters).await?;
        let (mut expired, mut last) = (Vec::new(), None);
        for row in &found {
            let place: Place = (get(row, 0)?, get(row, 1)?);
            if get(row, 2)? {
                expired.push(place);
            }
            last = Some(place);
        }
        delete(session, &expired, now).await?;
        let position = last.filter(|_| found.len() as i64 == STEP_ROWS);
        Ok(Step { position, passed: found.len().saturating_sub(expired.len()) })
    }

    /// Notes a step. Returns whether there may be more to do in this round.
    pub(super) fn go_on(&mut self, step: Step) -> bool {
        self.position = step.position;
        self.left = self.left.saturating_sub(step.passed);
        self.position.is_some() && self.left > 0
    }
}

/// What a step has come to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    position: Option<Place>,
    /// Rows that live on.
    passed: usize,
}

const UNLISTED: &str = "SELECT key, owner FROM responses WHERE unlisted IS NOT NULL AND expires_at <= $1
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.response = key AND r.owner = responses.owner)
    ORDER BY expires_at LIMIT $2";

/// Deletes the oldest expired rows of responses that are kept for a short time only: they stand among others that live
/// on, and are found by an index. One step; returns whether there may be more to do.
pub(super) async fn delete_unlisted(session: Session<'_>) -> Result<bool, StoreError> {
    let now = now();
    let found = session.query(UNLISTED, &[(&now, Type::INT8), (&STEP_ROWS, Type::INT8)]).await?;
    let places = found.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?)));
    delete(session, &places.collect::<Result<Vec<_>, StoreError>>()?, now).await?;
    Ok(found.len() as i64 == STEP_ROWS)
}

/// Deletes the expired ones of these rows.
pub(super) async fn delete(session: Session<'_>, expired: &[Place], now: i64) -> Result<(), StoreError> {
    if expired.is_empty() {
        return Ok(());
    }
    let (keys, owners): (Vec<Uuid>, Vec<i64>) = expired.iter().copied().unzip();
    let parameters: [Param<'_>; 3] =
        [(&keys, Type::UUID_ARRAY), (&owners, Type::INT8_ARRAY), (&now, Type::INT8)];
    let locked = session.query(EXPIRED, &parameters).await?;
    let places = locked.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?)));
    removal::remove_all(session, &places.collect::<Result<Vec<_>, StoreError>>()?).await.map(drop)
}
