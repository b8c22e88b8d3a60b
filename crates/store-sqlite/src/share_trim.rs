//! Deletes rows while the database is larger than it may be, of the tenants that are above their share: their oldest
//! responses, and the conversations that they used longest ago.
//!
//! What each tenant has is added up by a walk over its rows, in steps that other writes run between, and only when the database
//! is too large. Where there is one tenant, nothing is added up.

use std::sync::Arc;

use rusqlite::Connection;

use super::error::database;
use super::maintenance;
use super::space::used_bytes;
use super::tenants::TenantWalk;
use antwort_limits::losses;
use antwort_store::StoreError;
use antwort_store::conversations::ConversationLocks;

/// All tenants. An owner that was forgotten may have left a name.
const TENANTS: &str = "SELECT DISTINCT tenant FROM owners WHERE tenant > '' OR principal <> '#' || key";

/// How far the trim of a database has come.
#[derive(Debug)]
pub(super) struct ShareTrim {
    max_bytes: u64,
    locks: ConversationLocks,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Nothing is known of the tenants.
    Idle,
    /// Adds up what the last of `left` has.
    Measuring { left: Vec<TenantWalk>, measured: Vec<(TenantWalk, u64)> },
    /// Deletes rows of the last of `left`. The database had so many bytes before.
    Trimming { left: Vec<TenantWalk>, before: u64 },
}

impl ShareTrim {
    pub(super) fn new(max_bytes: u64, locks: ConversationLocks) -> Self {
        Self { max_bytes, locks, phase: Phase::Idle }
    }

    /// One step: a bounded transaction. Returns whether there may be more to do.
    pub(super) fn step(&mut self, connection: &mut Connection) -> Result<bool, StoreError> {
        let used = used_bytes(connection).map_err(database)?;
        let phase = std::mem::replace(&mut self.phase, Phase::Idle);
        let Some(excess) = used.checked_sub(self.max_bytes).filter(|excess| *excess > 0) else {
            return Ok(false);
        };
        self.phase = match phase {
            Phase::Idle => {
                let tenants = tenants(connection).map_err(database)?;
                if tenants.len() < 2 {
                    return maintenance::trim(connection, self.max_bytes, &self.locks);
                }
                let walk = |tenant| TenantWalk::measuring(tenant, self.locks.clone());
                Phase::Measuring { left: tenants.into_iter().map(walk).collect(), measured: Vec::new() }
            }
            Phase::Measuring { mut left, mut measured } => match left.pop() {
                Some(mut walk) => {
                    match walk.add_up(connection)? {
                        Some(bytes) => measured.push((walk, bytes)),
                        None => left.push(walk),
                    }
                    Phase::Measuring { left, measured }
                }
                None => Phase::Trimming { left: above_share(measured, (excess, used)), before: used },
            },
            Phase::Trimming { mut left, before } => match left.pop() {
                Some(mut walk) => {
                    walk.begin_round();
                    if walk.step(connection)? {
                        left.push(walk);
                    }
                    Phase::Trimming { left, before }
                }
                // Something else takes the room, or what goes on.
                None if used >= before => {
                    tracing::warn!(
                        max_bytes = self.max_bytes,
                        "store: the database exceeds store.max_size, and nothing of the tenants above their share can be \
                         deleted: their responses are still running, or other data takes the room"
                    );
                    return Ok(false);
                }
                None => Phase::Idle,
            },
        };
        Ok(true)
    }
}

/// The walks of those that lose rows for so much to be freed.
fn above_share(mut measured: Vec<(TenantWalk, u64)>, (excess, used): (u64, u64)) -> Vec<TenantWalk> {
    // Rows are not divided: whoever has most may free more than it has to.
    measured.sort_by_key(|(_, bytes)| *bytes);
    let held: Vec<u64> = measured.iter().map(|(_, bytes)| *bytes).collect();
    // With its rows go its logs and indexes, which were not measured: of what is held so much goes as of what is used.
    let part = u128::from(excess) * u128::from(held.iter().sum::<u64>()) / u128::from(used.max(1));
    let lost = losses(&held, u64::try_from(part).unwrap_or(u64::MAX).max(1));
    let trimmed = |((mut walk, _), lost): ((TenantWalk, u64), u64)| {
        walk.trim_by(lost);
        (lost > 0).then_some(walk)
    };
    measured.into_iter().zip(lost).filter_map(trimmed).collect()
}

fn tenants(connection: &Connection) -> rusqlite::Result<Vec<Arc<str>>> {
    let mut statement = connection.prepare_cached(TENANTS)?;
    let found = statement.query_map([], |row| row.get::<_, String>(0))?;
    found.map(|tenant| tenant.map(Arc::from)).collect()
}
