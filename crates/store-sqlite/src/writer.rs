//! The writer thread, with group commit, and the handle through which writes are made.
//!
//! All writes that are queued when the thread looks are committed in one transaction, so that they share the cost
//! of a commit; no write waits for a group to fill. Other commands (maintenance, readiness, reads of an in-memory
//! database) run between groups, in order of arrival. Most of a checkpoint is run by another thread
//! (`checkpointer`). While few runs are in flight, a caller commits its write itself (`inline_commit`).

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;
use tokio::sync::{mpsc, oneshot};

use super::checkpoint_schedule::{CheckpointSchedule, WalPages};
use super::checkpointer::{CheckpointLock, Checkpointer};
use super::committer::{Committer, WaitPolicy};
use super::connection::BUSY_TIMEOUT;
use super::error::{closed, database};
use super::guard::FileGuard;
use super::inline_commit::InlineCommits;
use super::options::{Location, Synchronous};
use super::queue::{self, Command, Job, MaintenanceJob, Queue, Received, Unfinished};
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::{Write, WriteOutcome};
use antwort_store::outage::RETRY_INTERVAL;
use antwort_store::row_policy::RowPolicy;
use antwort_store::{RunRegistry, RunsInFlight, StoreError};

/// What commits; `None` once the store is closed. The thread locks it for each command.
type SharedCommitter = Arc<Mutex<Option<Committer>>>;

/// The handle of the writer thread.
pub(super) struct Writer {
    queue: Queue,
    committer: SharedCommitter,
    inline_commits: InlineCommits,
    checkpoint_lock: CheckpointLock,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(
        mut connection: Connection,
        (location, synchronous): (&Location, Synchronous),
        (policy, runs): (Arc<RowPolicy>, RunRegistry),
        guard: FileGuard,
        waits: WaitPolicy,
    ) -> Result<Self, StoreError> {
        let pages = WalPages::of(&mut connection)?;
        let checkpoint_lock = CheckpointLock::default();
        let (queue, commands, unfinished) = Queue::new();
        let checkpointer = match location {
            Location::Memory => None,
            Location::File(path) => {
                let shared = Arc::clone(&pages.0);
                Some(Checkpointer::start(
                    path,
                    synchronous,
                    shared,
                    checkpoint_lock.clone(),
                    queue.checkpoint_waker(),
                )?)
            }
        };
        let checkpoints =
            CheckpointSchedule::new(pages, checkpoint_lock.clone(), checkpointer, guard.log_bytes());
        let committer =
            Committer::new(connection, checkpoints, policy, InFlightRows::new(runs), guard, waits);
        let committer = Arc::new(Mutex::new(Some(committer)));
        let state = WriterThread { committer: Arc::clone(&committer), commands, unfinished, retry_at: None };
        let thread = thread::Builder::new()
            .name("antwort-store".to_owned())
            .spawn(move || state.run())
            .map_err(|error| StoreError::Database(format!("no thread could be started: {error}")))?;
        let thread = Mutex::new(Some(thread));
        Ok(Self {
            queue,
            committer,
            inline_commits: InlineCommits::new(synchronous),
            checkpoint_lock,
            thread,
        })
    }

    /// Allows inline commits while few of these runs are in flight.
    pub(super) fn set_runs(&self, runs: RunsInFlight) {
        self.inline_commits.set_runs(runs);
    }

    /// Makes a write and waits for its commit. Once queued, it is made whether it is awaited or not.
    pub(super) async fn write(&self, write: Write) -> Result<WriteOutcome, StoreError> {
        if let Some(outcome) = self.commit_inline(&write) {
            return Ok(outcome);
        }
        let (answer, outcome) = oneshot::channel();
        self.queue.send(Command::Write(write, answer)).await?;
        outcome.await.map_err(|_| closed())?
    }

    /// Commits a write on this thread. `None`: nothing was written, and it has to be queued.
    fn commit_inline(&self, write: &Write) -> Option<WriteOutcome> {
        // What this caller has queued before comes first.
        if !self.inline_commits.allows(write) || !self.queue.is_idle() {
            return None;
        }
        let mut committer = self.committer.try_lock()?;
        let committer = committer.as_mut()?;
        let outcome = committer.commit_inline(write)?;
        if committer.request_checkpoint() {
            self.queue.request_checkpoint();
        }
        Some(outcome)
    }

    /// Queues a write without a reply. It waits for a place in a full queue, as there are no more of these than calls under way.
    pub(super) fn write_detached(&self, write: Write) {
        self.queue.send_detached(Command::FireAndForget(write));
    }

    /// Queues a write that may be dropped. If many others wait, it is.
    pub(super) fn write_unless_busy(&self, write: Write) {
        if !self.queue.has_few() || !self.queue.try_send(Command::FireAndForget(write)) {
            tracing::debug!("store: many writes wait; dropped the row of a failed request");
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
        self.queue.send(Command::Job(work)).await?;
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
        self.queue.send(Command::Maintenance(work, answer)).await?;
        outcome.await.map_err(|_| closed())?
    }

    /// Empties the log, so that the files hold no more what was deleted. Does not wait for readers: while they use it, it
    /// stays as it is.
    pub(super) async fn empty_log(&self) -> Result<(), StoreError> {
        let checkpoint_lock = self.checkpoint_lock.clone();
        let emptied = self.run_job(move |connection| {
            let _alone = checkpoint_lock.lock();
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
        self.queue.send(Command::Check(answer)).await?;
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

/// The thread.
struct WriterThread {
    committer: SharedCommitter,
    commands: mpsc::Receiver<Command>,
    unfinished: Unfinished,
    /// When the writes that were postponed are tried again, if there are any.
    retry_at: Option<Instant>,
}

impl WriterThread {
    fn run(mut self) {
        let mut group = Vec::new();
        loop {
            if self.retry_at.is_some_and(|at| Instant::now() >= at) {
                self.commit(&mut group);
                continue;
            }
            let mut next = match queue::receive(&mut self.commands, self.retry_at) {
                Received::Command(command) => Some(command),
                Received::Nothing => continue,
                Received::Closed => break,
            };
            while let Some(command) = next.take() {
                match command {
                    Command::FireAndForget(write) => {
                        group.push((write, queue::discard_reply()));
                        next = queue::coalesce(&mut group, &mut self.commands);
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
                        next = queue::fill_group(&mut group, &mut self.commands);
                        self.commit(&mut group);
                    }
                    Command::Checkpoint => self.with_committer(Committer::checkpoint_if_due),
                    Command::Close(done) => {
                        self.commands.close();
                        self.close();
                        let _ = done.send(());
                        return;
                    }
                    other => self.make(other),
                }
            }
        }
        // The handle is gone without having closed the store.
        drop(self.committer.lock().take());
    }

    /// Commits the group, replies to its callers and leaves it empty.
    fn commit(&mut self, group: &mut Vec<(Write, queue::Reply)>) {
        let writes = group.len();
        let mut has_postponed = false;
        self.with_committer(|committer| {
            committer.commit(group);
            has_postponed = committer.has_postponed();
            committer.checkpoint_if_due();
        });
        self.retry_at = has_postponed.then(|| Instant::now() + RETRY_INTERVAL);
        self.unfinished.finished(writes);
    }

    /// Runs a command that is no write.
    fn make(&self, command: Command) {
        self.with_committer(|committer| {
            match command {
                Command::Job(work) => work(committer.connection()),
                Command::Maintenance(work, answer) => committer.maintain(work, answer),
                Command::Check(answer) => committer.check(answer),
                Command::Write(..) | Command::FireAndForget(_) | Command::Checkpoint | Command::Close(_) => {}
            }
            committer.checkpoint_if_due();
        });
        self.unfinished.finished(1);
    }

    fn with_committer(&self, work: impl FnOnce(&mut Committer)) {
        if let Some(committer) = self.committer.lock().as_mut() {
            work(committer);
        }
    }

    /// Closes the database.
    fn close(&self) {
        let committer = self.committer.lock().take();
        if let Some(committer) = committer {
            committer.close();
        }
    }
}
