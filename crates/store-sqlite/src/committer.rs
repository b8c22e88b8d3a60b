//! The writing connection and what it takes to commit with it.
//!
//! Groups of writes are committed, tried again, or refused here; who calls, and when, is the business of `writer`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

use super::checkpoint_schedule::CheckpointSchedule;
use super::connection::BUSY_TIMEOUT;
use super::error::{closed, database, is_of_one_row};
use super::guard::FileGuard;
use super::queue::{MaintenanceJob, Reply};
use super::{orphans, write};
use antwort_store::StoreError;
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::{Write, WriteOutcome};
use antwort_store::outage;
use antwort_store::row_policy::RowPolicy;

/// An inline commit that takes longer is slow.
const SLOW_COMMIT: Duration = Duration::from_millis(5);

/// How long commits are queued after a slow one: a slow disk must not stop the runtime's threads.
const INLINE_PAUSE: Duration = Duration::from_secs(1);

/// The writing connection, and the state that goes with it.
pub(super) struct Committer {
    /// Dropped before the connection, which has to be the last one that is closed.
    checkpoints: CheckpointSchedule,
    connection: Connection,
    policy: Arc<RowPolicy>,
    in_flight: InFlightRows,
    guard: FileGuard,
    /// No commit is inline until then.
    inline_paused_until: Option<Instant>,
    postponed: Postponed,
}

/// Writes of runs that wait for a file whose lock another process holds.
struct Postponed {
    policy: WaitPolicy,
    writes: Vec<(Write, Reply)>,
    /// When it was found to be locked.
    since: Option<Instant>,
}

/// How writes wait.
#[derive(Clone)]
pub(super) struct WaitPolicy {
    pub timeout: Duration,
    /// Set when none waits any more, as the process is about to end.
    pub is_over: Arc<AtomicBool>,
}

impl Committer {
    pub(super) fn new(
        connection: Connection,
        checkpoints: CheckpointSchedule,
        policy: Arc<RowPolicy>,
        in_flight: InFlightRows,
        guard: FileGuard,
        waits: WaitPolicy,
    ) -> Self {
        let postponed = Postponed { policy: waits, writes: Vec::new(), since: None };
        Self { checkpoints, connection, policy, in_flight, guard, inline_paused_until: None, postponed }
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Runs a checkpoint if one is due, or what the other thread has left of one.
    pub(super) fn checkpoint_if_due(&mut self) {
        if self.checkpoints.checkpoint_if_due(&self.connection) {
            self.guard.measure(&self.connection);
        }
    }

    /// Commits one write on its caller's thread, without a retry and without waiting for the lock of another process.
    /// `None`: nothing was written, and the writer thread has to.
    pub(super) fn commit_inline(&mut self, write: &Write) -> Option<WriteOutcome> {
        let began = Instant::now();
        if self.has_postponed()
            || self.guard.is_full()
            || self.inline_paused_until.is_some_and(|until| began < until)
        {
            return None;
        }
        self.connection.busy_timeout(Duration::ZERO).ok()?;
        let result = self.transact([write]);
        let restored = self.connection.busy_timeout(BUSY_TIMEOUT);
        self.inline_paused_until =
            (restored.is_err() || began.elapsed() > SLOW_COMMIT).then(|| Instant::now() + INLINE_PAUSE);
        let outcome = *result.ok()?.first()?;
        self.guard.commit_succeeded();
        self.postponed.since = None;
        Some(outcome)
    }

    /// Requests a checkpoint of the other thread if one is due. Returns whether the writer thread has to run it.
    pub(super) fn request_checkpoint(&mut self) -> bool {
        self.checkpoints.request()
    }

    /// Whether writes wait, so that they are to be tried again.
    pub(super) fn has_postponed(&self) -> bool {
        !self.postponed.writes.is_empty()
    }

    /// Commits the group behind what was postponed, replies to its callers and leaves it empty.
    pub(super) fn commit(&mut self, group: &mut Vec<(Write, Reply)>) {
        if self.has_postponed() {
            let behind = std::mem::replace(group, std::mem::take(&mut self.postponed.writes));
            group.extend(behind);
        }
        if self.guard.is_full() {
            refuse_additions(group, &mut self.in_flight, &self.guard.reason());
        }
        if group.is_empty() {
            return;
        }
        match self.transact(group.iter().map(|(write, _)| write)) {
            Err(error) if is_of_one_row(&error) && group.len() > 1 => {
                let mut rest = std::mem::take(group).into_iter();
                while let Some(one) = rest.next() {
                    match self.transact([&one.0]) {
                        Ok(outcomes) => self.succeed(&mut vec![one], outcomes),
                        Err(error) if is_of_one_row(&error) => {
                            self.give_up(&mut vec![one], &database(error));
                        }
                        // It would fail each of them, after its own wait.
                        Err(error) => {
                            let mut failed: Vec<_> = std::iter::once(one).chain(rest).collect();
                            return self.fail(&mut failed, error);
                        }
                    }
                }
            }
            Err(error) => self.fail(group, error),
            Ok(outcomes) => self.succeed(group, outcomes),
        }
    }

    fn succeed(&mut self, group: &mut Vec<(Write, Reply)>, outcomes: Vec<WriteOutcome>) {
        self.guard.commit_succeeded();
        self.postponed.since = None;
        for ((_, answer), outcome) in group.drain(..).zip(outcomes) {
            let _ = answer.send(Ok(outcome));
        }
    }

    /// On a full disk, writes that free space are tried again with the room of the reserve; all others fail.
    fn fail(&mut self, group: &mut Vec<(Write, Reply)>, error: rusqlite::Error) {
        let is_of_one_row = is_of_one_row(&error);
        let mut error = database(error);
        tracing::error!(writes = group.len(), %error, "store: a commit failed");
        if !is_of_one_row {
            self.guard.commit_failed(&error);
        }
        if self.guard.is_full() {
            refuse_additions(group, &mut self.in_flight, &error);
            self.checkpoint();
            if group.is_empty() {
                return;
            }
            match self.transact(group.iter().map(|(write, _)| write)) {
                Ok(outcomes) => return self.succeed(group, outcomes),
                Err(again) => error = database(again),
            }
        }
        self.postpone(group, &error);
        self.give_up(group, &error);
        self.checkpoints.commit_failed();
    }

    /// Takes the writes that wait from the group.
    fn postpone(&mut self, group: &mut Vec<(Write, Reply)>, error: &StoreError) {
        let Postponed { policy, writes, since } = &mut self.postponed;
        let waits = |write: &Write| outage::outlasts(write, error, &self.in_flight);
        if policy.is_over.load(Ordering::Relaxed) || !group.iter().any(|(write, _)| waits(write)) {
            return;
        }
        match since.get_or_insert_with(Instant::now).elapsed() < policy.timeout {
            true => writes.extend(group.extract_if(.., |(write, _)| waits(write))),
            // What comes later has its own time.
            false => *since = None,
        }
    }

    fn give_up(&mut self, group: &mut Vec<(Write, Reply)>, error: &StoreError) {
        for (write, answer) in group.drain(..) {
            self.in_flight.abandon(&write);
            let _ = answer.send(Err(error.clone()));
        }
    }

    /// Runs a task of maintenance; on a full disk, again with the room of the reserve.
    pub(super) fn maintain(
        &mut self,
        mut work: MaintenanceJob,
        answer: oneshot::Sender<Result<bool, StoreError>>,
    ) {
        if answer.is_closed() {
            return;
        }
        let mut result = work(&mut self.connection);
        if let Err(error @ StoreError::Full(_)) = &result {
            self.guard.commit_failed(error);
            self.checkpoint();
            result = work(&mut self.connection);
        }
        let _ = answer.send(result);
    }

    /// Checks whether responses can be stored.
    pub(super) fn check(&mut self, answer: oneshot::Sender<Result<(), StoreError>>) {
        if answer.is_closed() {
            return;
        }
        let checked = self.guard.check(&mut self.connection);
        if checked.is_ok()
            && let Err(error) =
                orphans::release_abandoned(&self.connection, &self.policy, &mut self.in_flight)
        {
            tracing::warn!(%error, "store: marking rows as abandoned failed; their final state was not written");
        }
        let _ = answer.send(checked);
    }

    /// One transaction for these writes; all or nothing.
    fn transact<'a>(
        &mut self,
        writes: impl IntoIterator<Item = &'a Write>,
    ) -> rusqlite::Result<Vec<WriteOutcome>> {
        let result = self.try_transact(writes);
        match result {
            Ok(_) => self.in_flight.commit(),
            Err(_) => self.in_flight.rollback(),
        }
        result
    }

    fn try_transact<'a>(
        &mut self,
        writes: impl IntoIterator<Item = &'a Write>,
    ) -> rusqlite::Result<Vec<WriteOutcome>> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let writes = writes.into_iter();
        let mut outcomes = Vec::with_capacity(writes.size_hint().0);
        for write in writes {
            outcomes.push(write::apply(&transaction, &self.policy, &mut self.in_flight, write)?);
        }
        transaction.commit()?;
        Ok(outcomes)
    }

    fn checkpoint(&mut self) {
        self.checkpoints.checkpoint(&self.connection);
        self.guard.measure(&self.connection);
    }

    /// Closes the database, with a checkpoint that empties the write-ahead log.
    pub(super) fn close(mut self) {
        // The last attempt.
        self.commit(&mut Vec::new());
        let mut postponed = std::mem::take(&mut self.postponed.writes);
        self.give_up(&mut postponed, &closed());
        let Self { checkpoints, connection, .. } = self;
        // Its connection must be closed first.
        drop(checkpoints);
        if let Err(error) = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE) {
            tracing::warn!(%error, "store: the WAL checkpoint failed");
        }
    }
}

/// Refuses all writes but those that free space, or take none.
fn refuse_additions(group: &mut Vec<(Write, Reply)>, rows: &mut InFlightRows, error: &StoreError) {
    let (additions, others): (Vec<_>, Vec<_>) = group.drain(..).partition(|(write, _)| write.adds());
    for (write, answer) in additions {
        rows.abandon(&write);
        let _ = answer.send(Err(error.clone()));
    }
    *group = others;
}
