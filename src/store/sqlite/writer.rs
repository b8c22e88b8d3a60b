//! The thread that owns the writing connection, with group commit.
//!
//! All writes that are queued when the thread looks are committed in one transaction, so that they share the cost
//! of a commit; no write waits for a group to fill. Other commands (maintenance, readiness, reads of an in-memory
//! database) run between groups, in order of arrival. The write-ahead log is mostly copied by another thread (`log_copier`).

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::connection::BUSY_TIMEOUT;
use super::error::{closed, database, is_of_one_row};
use super::guard::FileGuard;
use super::log::{Log, LogPages};
use super::log_copier::{CopyLock, LogCopier};
use super::options::{Location, Synchronous};
use super::queue::{self, Command, Job, MaintenanceJob, Reply};
use super::{orphans, write};
use crate::store::in_flight::InFlightRows;
use crate::store::operation::{Write, WriteOutcome};
use crate::store::row_policy::RowPolicy;
use crate::store::{RunRegistry, StoreError};

/// The handle of the writer thread.
pub(super) struct Writer {
    queue: mpsc::Sender<Command>,
    copying: CopyLock,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(
        mut connection: Connection,
        (location, synchronous): (&Location, Synchronous),
        policy: Arc<RowPolicy>,
        runs: RunRegistry,
        guard: FileGuard,
    ) -> Result<Self, StoreError> {
        let pages = LogPages::of(&mut connection)?;
        let copying = CopyLock::default();
        let (queue, commands) = mpsc::channel(queue::QUEUE_CAPACITY);
        let copier = match location {
            Location::Memory => None,
            Location::File(path) => {
                let wake = queue::waker(&queue);
                let pages = Arc::clone(&pages.0);
                Some(LogCopier::start(path, synchronous, pages, copying.clone(), wake)?)
            }
        };
        let log = Log::new(pages, copying.clone(), copier, guard.log_bytes());
        let state = WriterThread { log, connection, policy, in_flight: InFlightRows::new(runs), guard };
        let thread = thread::Builder::new()
            .name("antwort-store".to_owned())
            .spawn(move || state.run(commands))
            .map_err(|error| StoreError::Database(format!("no thread could be started: {error}")))?;
        Ok(Self { queue, copying, thread: Mutex::new(Some(thread)) })
    }

    /// Queues a write and waits for its commit. Once queued, it is made whether it is awaited or not.
    pub(super) async fn write(&self, write: Write) -> Result<WriteOutcome, StoreError> {
        let (answer, outcome) = oneshot::channel();
        self.queue.send(Command::Write(write, answer)).await.map_err(|_| closed())?;
        outcome.await.map_err(|_| closed())?
    }

    /// Queues a write without a reply. If the queue is full, it is dropped and logged.
    pub(super) fn write_detached(&self, write: Write) {
        if self.queue.try_send(Command::FireAndForget(write)).is_err() {
            tracing::warn!("store: write queue full; dropped the outcome of a tool call");
        }
    }

    /// Runs a job on the writing connection, between groups; skipped if the caller stops waiting before.
    pub(super) async fn run_job<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, outcome) = oneshot::channel();
        let work: Job = Box::new(move |connection| {
            // The caller has stopped waiting: the job is not run.
            if !answer.is_closed() {
                let _ = answer.send(work(connection));
            }
        });
        self.queue.send(Command::Job(work)).await.map_err(|_| closed())?;
        outcome.await.map_err(|_| closed())?
    }

    /// Runs a maintenance task on the writing connection, between groups; on a full disk, again with the room of the
    /// reserve. Returns whether there may be more to do.
    pub(super) async fn maintain(
        &self,
        work: impl FnMut(&mut Connection) -> Result<bool, StoreError> + Send + 'static,
    ) -> Result<bool, StoreError> {
        let (answer, outcome) = oneshot::channel();
        let work: MaintenanceJob = Box::new(work);
        self.queue.send(Command::Maintenance(work, answer)).await.map_err(|_| closed())?;
        outcome.await.map_err(|_| closed())?
    }

    /// Empties the log, so that the files hold no more what was deleted. Does not wait for readers: while they use it, it
    /// stays as it is.
    pub(super) async fn empty_log(&self) -> Result<(), StoreError> {
        let copying = self.copying.clone();
        let emptied = self.run_job(move |connection| {
            let _alone = copying.lock();
            connection.busy_timeout(Duration::ZERO).map_err(database)?;
            let result = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE);
            connection.busy_timeout(BUSY_TIMEOUT).map_err(database)?;
            Ok(result.map_err(database))
        });
        if let Err(error) = emptied.await? {
            tracing::info!(%error, "store: the write-ahead log is in use and was not emptied");
        }
        Ok(())
    }

    /// Checks whether responses can be stored.
    pub(super) async fn check(&self) -> Result<(), StoreError> {
        let (answer, outcome) = oneshot::channel();
        self.queue.send(Command::Check(answer)).await.map_err(|_| closed())?;
        outcome.await.map_err(|_| closed())?
    }

    /// Commits what is queued, empties the log and ends the thread.
    pub(super) async fn close(&self) {
        let (done, ended) = oneshot::channel();
        if self.queue.send(Command::Close(done)).await.is_ok() {
            // An error means that the thread has ended already.
            let _ = ended.await;
        }
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && tokio::task::spawn_blocking(move || thread.join().is_err()).await.unwrap_or(true)
        {
            tracing::error!("store: the writer thread panicked");
        }
    }
}

/// The state of the thread.
struct WriterThread {
    /// Dropped before the connection, which has to be the last one that is closed.
    log: Log,
    connection: Connection,
    policy: Arc<RowPolicy>,
    in_flight: InFlightRows,
    guard: FileGuard,
}

impl WriterThread {
    fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut group = Vec::new();
        while let Some(command) = commands.blocking_recv() {
            let mut next = Some(command);
            while let Some(command) = next.take() {
                match command {
                    Command::FireAndForget(write) => {
                        group.push((write, queue::discard_reply()));
                        next = queue::coalesce(&mut group, &mut commands);
                        if !matches!(next, Some(Command::Write(..))) {
                            self.commit(&mut group);
                        }
                    }
                    Command::Write(write, answer) => {
                        group.push((write, answer));
                        // A thread that is about to queue a write and waits for this core runs first. On an idle
                        // machine this returns at once; on a busy one it halves the number of transactions, each of
                        // which rewrites the last page of every table and index.
                        thread::yield_now();
                        next = queue::fill_group(&mut group, &mut commands);
                        self.commit(&mut group);
                    }
                    Command::Job(work) => work(&mut self.connection),
                    Command::Maintenance(work, answer) => self.maintain(work, answer),
                    Command::Check(answer) => self.check(answer),
                    Command::LookAtLog => {}
                    Command::Close(done) => {
                        commands.close();
                        self.close();
                        let _ = done.send(());
                        return;
                    }
                }
                if self.log.look(&self.connection) {
                    self.guard.measure(&self.connection);
                }
            }
        }
    }

    /// Commits the group, replies to its callers and leaves it empty.
    fn commit(&mut self, group: &mut Vec<(Write, Reply)>) {
        if self.guard.is_full() {
            refuse_additions(group, &mut self.in_flight, &self.guard.reason());
        }
        if group.is_empty() {
            return;
        }
        match self.transact(group) {
            Err(error) if is_of_one_row(&error) && group.len() > 1 => {
                for one in group.drain(..) {
                    let result = self.transact(std::slice::from_ref(&one));
                    let result =
                        result.map(|outcomes| outcomes.first().copied().unwrap_or(WriteOutcome::Absent));
                    let (write, answer) = one;
                    if result.is_err() {
                        self.in_flight.abandon(&write);
                    }
                    let _ = answer.send(result.map_err(database));
                }
            }
            Err(error) => self.fail(group, error),
            Ok(outcomes) => self.succeed(group, outcomes),
        }
    }

    fn succeed(&mut self, group: &mut Vec<(Write, Reply)>, outcomes: Vec<WriteOutcome>) {
        self.guard.commit_succeeded();
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
            self.copy_log();
            if group.is_empty() {
                return;
            }
            match self.transact(group) {
                Ok(outcomes) => return self.succeed(group, outcomes),
                Err(again) => error = database(again),
            }
        }
        for (write, answer) in group.drain(..) {
            self.in_flight.abandon(&write);
            let _ = answer.send(Err(error.clone()));
        }
        self.log.commit_failed();
    }

    fn maintain(&mut self, mut work: MaintenanceJob, answer: oneshot::Sender<Result<bool, StoreError>>) {
        if answer.is_closed() {
            return;
        }
        let mut result = work(&mut self.connection);
        if let Err(error @ StoreError::Full(_)) = &result {
            self.guard.commit_failed(error);
            self.copy_log();
            result = work(&mut self.connection);
        }
        let _ = answer.send(result);
    }

    fn check(&mut self, answer: oneshot::Sender<Result<(), StoreError>>) {
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
    fn transact(&mut self, group: &[(Write, Reply)]) -> rusqlite::Result<Vec<WriteOutcome>> {
        let result = self.try_transact(group);
        match result {
            Ok(_) => self.in_flight.commit(),
            Err(_) => self.in_flight.rollback(),
        }
        result
    }

    fn try_transact(&mut self, group: &[(Write, Reply)]) -> rusqlite::Result<Vec<WriteOutcome>> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut outcomes = Vec::with_capacity(group.len());
        for (write, _) in group {
            outcomes.push(write::apply(&transaction, &self.policy, &mut self.in_flight, write)?);
        }
        transaction.commit()?;
        Ok(outcomes)
    }

    fn copy_log(&mut self) {
        self.log.copy(&self.connection);
        self.guard.measure(&self.connection);
    }

    /// Empties the log and closes the database.
    fn close(self) {
        let Self { log, connection, .. } = self;
        // Its connection must be closed first.
        drop(log);
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
