//! The thread that owns the writing connection, with group commit.
//!
//! All writes that are queued when the thread looks are committed in one transaction, so that they share the cost
//! of a commit; no write waits for a group to fill. Other commands (maintenance, readiness, reads of an in-memory
//! database) run between groups, in order of arrival.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::connection::{BUSY_TIMEOUT, PAGE_SIZE};
use super::error::{closed, database, is_of_one_row};
use super::guard::FileGuard;
use super::queue::{self, Command, Job, MaintenanceJob, Reply};
use super::{orphans, write};
use crate::store::in_flight::InFlightRows;
use crate::store::operation::{Write, WriteOutcome};
use crate::store::row_policy::RowPolicy;
use crate::store::{RunRegistry, StoreError};

/// The log is copied into the database when it has this many pages (16 MiB). A page that was rewritten several times
/// is copied once, so that copying seldom is cheap; but commits wait for the copy, and a restart after a crash has to
/// read the log.
const CHECKPOINT_PAGES: i32 = 2048;

/// The handle of the writer thread.
pub(super) struct Writer {
    queue: mpsc::Sender<Command>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(
        mut connection: Connection,
        policy: Arc<RowPolicy>,
        runs: RunRegistry,
        guard: FileGuard,
    ) -> Result<Self, StoreError> {
        let log_pages = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&log_pages);
        // Replaces the automatic checkpoint, which would run before the waiting callers are answered.
        let hook = move |_: &mut Wal, pages| {
            seen.store(pages, Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(hook)).map_err(database)?;
        let (queue, commands) = mpsc::channel(queue::QUEUE_CAPACITY);
        let checkpoint_pages = checkpoint_pages(&guard);
        let in_flight = InFlightRows::new(runs);
        let checkpoint_at = checkpoint_pages;
        let state =
            WriterThread { connection, policy, in_flight, guard, log_pages, checkpoint_pages, checkpoint_at };
        let thread = thread::Builder::new()
            .name("antwort-store".to_owned())
            .spawn(move || state.run(commands))
            .map_err(|error| StoreError::Database(format!("no thread could be started: {error}")))?;
        Ok(Self { queue, thread: Mutex::new(Some(thread)) })
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
        let emptied = self.run_job(|connection| {
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
    connection: Connection,
    policy: Arc<RowPolicy>,
    in_flight: InFlightRows,
    guard: FileGuard,
    log_pages: Arc<AtomicI32>,
    /// Pages at which the log is copied.
    checkpoint_pages: i32,
    /// The same, but less or more after a copy that failed.
    checkpoint_at: i32,
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
                    Command::Close(done) => {
                        commands.close();
                        self.checkpoint(CheckpointMode::TRUNCATE);
                        drop(self);
                        let _ = done.send(());
                        return;
                    }
                }
                if self.log_pages.load(Ordering::Relaxed) >= self.checkpoint_at {
                    self.checkpoint(CheckpointMode::PASSIVE);
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
            self.checkpoint(CheckpointMode::PASSIVE);
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
        // On a full disk the log cannot grow, but may still be emptied into free pages.
        self.checkpoint_at = 0;
    }

    fn maintain(&mut self, mut work: MaintenanceJob, answer: oneshot::Sender<Result<bool, StoreError>>) {
        if answer.is_closed() {
            return;
        }
        let mut result = work(&mut self.connection);
        if let Err(error @ StoreError::Full(_)) = &result {
            self.guard.commit_failed(error);
            self.checkpoint(CheckpointMode::PASSIVE);
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

    /// Copies the log into the database, so that it is reused from its start.
    fn checkpoint(&mut self, mode: CheckpointMode) {
        let result = self.connection.wal_checkpoint_v2(None::<&str>, mode);
        self.checkpoint_at = match result {
            Ok((pages, copied)) if copied == pages => {
                // The next write resets it, and reports its new length.
                self.log_pages.store(0, Ordering::Relaxed);
                self.checkpoint_pages
            }
            // A reader still uses the log: tried again when there is more to copy.
            Ok((pages, _)) => pages.saturating_add(self.checkpoint_pages / 4),
            Err(error) => {
                tracing::warn!(%error, "store: the WAL checkpoint failed");
                self.log_pages.load(Ordering::Relaxed).saturating_add(self.checkpoint_pages / 4)
            }
        };
        self.guard.measure(&self.connection);
    }
}

/// Pages at which the log is copied: if there is a reserve, no more than it has room for.
fn checkpoint_pages(guard: &FileGuard) -> i32 {
    let pages = guard.log_bytes().map(|bytes| bytes / u64::from(PAGE_SIZE));
    pages
        .and_then(|pages| i32::try_from(pages).ok())
        .map_or(CHECKPOINT_PAGES, |pages| pages.min(CHECKPOINT_PAGES))
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
