//! The thread that owns the writing connection, and group commit.
//!
//! Whatever waits when the thread looks is committed in one transaction, so that a commit's price is shared
//! by all who wait for it; nobody is made to wait for a group to fill. What is not a plain write (upkeep,
//! readiness, reads of an in-memory database) runs between groups, in the order of arrival.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::error::{closed, database, is_of_one_row};
use super::lifetime::Rules;
use super::write::{self, Begun, Outcome, Write};
use crate::store::{RunRegistry, StoreError};

/// Commands that may wait; whoever comes later waits to enqueue.
const QUEUE: usize = 1024;

/// A group ends with this many writes, or
const GROUP_WRITES: usize = 256;

/// with this many bytes.
const GROUP_BYTES: usize = 8 << 20;

/// A write that nobody waits for waits this long for one that somebody waits for, to share its commit.
const LINGER: Duration = Duration::from_millis(5);

/// The log is copied into the database when it has this many pages (16 MiB). A page that was written again
/// and again meanwhile is copied once, so seldom is cheap; but commits wait for the copy, and a restart
/// after a crash has to read what is in the log.
const CHECKPOINT_PAGES: i32 = 2048;

type Answer = oneshot::Sender<Result<Outcome, StoreError>>;
type Work = Box<dyn FnOnce(&mut Connection) + Send>;

enum Command {
    Write(Write, Answer),
    /// Nobody waits for it.
    Post(Write),
    Work(Work),
    Close(oneshot::Sender<()>),
}

/// The way to the writing thread.
pub(super) struct Writer {
    queue: mpsc::Sender<Command>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(
        mut connection: Connection,
        rules: Arc<Rules>,
        runs: RunRegistry,
    ) -> Result<Self, StoreError> {
        let log_pages = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&log_pages);
        // Replaces the automatic checkpoint, which would run before those who wait are answered.
        let hook = move |_: &mut Wal, pages| {
            seen.store(pages, Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(hook)).map_err(database)?;
        let (queue, commands) = mpsc::channel(QUEUE);
        let state =
            State { connection, rules, begun: Begun::new(runs), log_pages, checkpoint_at: CHECKPOINT_PAGES };
        let thread = thread::Builder::new()
            .name("antwort-store".to_owned())
            .spawn(move || state.run(commands))
            .map_err(|error| StoreError::Database(format!("no thread could be started: {error}")))?;
        Ok(Self { queue, thread: Mutex::new(Some(thread)) })
    }

    /// Hands in a write and waits for its commit. Once it is handed in it happens, awaited or not.
    pub(super) async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        let (answer, outcome) = oneshot::channel();
        self.queue.send(Command::Write(write, answer)).await.map_err(|_| closed())?;
        outcome.await.map_err(|_| closed())?
    }

    /// Hands in a write for which nobody waits. One that finds the queue full is dropped, with a line in the log.
    pub(super) fn post(&self, write: Write) {
        if self.queue.try_send(Command::Post(write)).is_err() {
            tracing::warn!("store: the queue is full; a call's outcome was not written");
        }
    }

    /// Runs something on the writing connection, between groups; nothing if the caller gives up before.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, outcome) = oneshot::channel();
        let work: Work = Box::new(move |connection| {
            // Whoever asked may have given up while this waited; then there is nobody to do it for.
            if !answer.is_closed() {
                let _ = answer.send(work(connection));
            }
        });
        self.queue.send(Command::Work(work)).await.map_err(|_| closed())?;
        outcome.await.map_err(|_| closed())?
    }

    /// Commits what waits, empties the log and ends the thread.
    pub(super) async fn close(&self) {
        let (done, ended) = oneshot::channel();
        if self.queue.send(Command::Close(done)).await.is_ok() {
            // An error means that the thread has ended already.
            let _ = ended.await;
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && tokio::task::spawn_blocking(move || thread.join().is_err()).await.unwrap_or(true)
        {
            tracing::error!("the store's thread panicked");
        }
    }
}

/// The answer to a write that nobody waits for.
fn nobody() -> Answer {
    oneshot::channel().0
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What the thread owns.
struct State {
    connection: Connection,
    rules: Arc<Rules>,
    begun: Begun,
    log_pages: Arc<AtomicI32>,
    checkpoint_at: i32,
}

impl State {
    fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut group = Vec::new();
        while let Some(command) = commands.blocking_recv() {
            let mut next = Some(command);
            while let Some(command) = next.take() {
                match command {
                    Command::Post(write) => {
                        group.push((write, nobody()));
                        next = Self::linger(&mut group, &mut commands);
                        if !matches!(next, Some(Command::Write(..))) {
                            self.commit(&mut group);
                        }
                    }
                    Command::Write(write, answer) => {
                        group.push((write, answer));
                        // Whoever is about to hand in a write and wants this core gets it first. On an
                        // idle machine this returns at once; on a busy one it halves the transactions,
                        // and each rewrites the last page of every table and index.
                        thread::yield_now();
                        next = gather(&mut group, &mut commands);
                        self.commit(&mut group);
                    }
                    Command::Work(work) => work(&mut self.connection),
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

    /// Gathers writes that nobody waits for until one comes that somebody waits for, which is returned, or
    /// something else, or nothing for a while.
    fn linger(group: &mut Vec<(Write, Answer)>, commands: &mut mpsc::Receiver<Command>) -> Option<Command> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        let until = Instant::now() + LINGER;
        while group.len() < GROUP_WRITES {
            match commands.poll_recv(&mut context) {
                Poll::Ready(Some(Command::Post(write))) => group.push((write, nobody())),
                Poll::Ready(other) => return other,
                Poll::Pending => match until.saturating_duration_since(Instant::now()) {
                    Duration::ZERO => break,
                    left => thread::park_timeout(left),
                },
            }
        }
        None
    }

    /// Commits the group and answers those who wait for it; leaves it empty.
    fn commit(&mut self, group: &mut Vec<(Write, Answer)>) {
        match self.transact(group) {
            Err(error) if is_of_one_row(&error) && group.len() > 1 => {
                for one in group.drain(..) {
                    let result = self.transact(std::slice::from_ref(&one));
                    let result = result.map(|outcomes| outcomes.first().copied().unwrap_or(Outcome::Absent));
                    let _ = one.1.send(result.map_err(database));
                }
            }
            Err(error) => {
                let error = database(error);
                tracing::error!(writes = group.len(), %error, "store: a commit failed");
                for (_, answer) in group.drain(..) {
                    let _ = answer.send(Err(error.clone()));
                }
                // On a full disk the log cannot grow, and may still be emptied into free pages.
                self.checkpoint_at = 0;
            }
            Ok(outcomes) => {
                for ((_, answer), outcome) in group.drain(..).zip(outcomes) {
                    let _ = answer.send(Ok(outcome));
                }
            }
        }
    }

    /// One transaction for these writes; all or nothing.
    fn transact(&mut self, group: &[(Write, Answer)]) -> rusqlite::Result<Vec<Outcome>> {
        let result = self.try_transact(group);
        match result {
            Ok(_) => self.begun.keep(),
            Err(_) => self.begun.restore(),
        }
        result
    }

    fn try_transact(&mut self, group: &[(Write, Answer)]) -> rusqlite::Result<Vec<Outcome>> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut outcomes = Vec::with_capacity(group.len());
        for (write, _) in group {
            outcomes.push(write::apply(&transaction, &self.rules, &mut self.begun, write)?);
        }
        transaction.commit()?;
        Ok(outcomes)
    }

    /// Copies the log into the database, so that it is written from its start again.
    fn checkpoint(&mut self, mode: CheckpointMode) {
        let result = self.connection.wal_checkpoint_v2(None::<&str>, mode);
        self.checkpoint_at = match result {
            Ok((pages, copied)) if copied == pages => CHECKPOINT_PAGES,
            // A reader is at work in the log: it is tried again when there is more to gain.
            Ok((pages, _)) => pages.saturating_add(CHECKPOINT_PAGES / 4),
            Err(error) => {
                tracing::warn!(%error, "store: the write-ahead log could not be copied into the database");
                self.log_pages.load(Ordering::Relaxed).saturating_add(CHECKPOINT_PAGES / 4)
            }
        };
    }
}

/// Adds the writes that wait already; returns the command at which it stopped, if that is none.
fn gather(group: &mut Vec<(Write, Answer)>, commands: &mut mpsc::Receiver<Command>) -> Option<Command> {
    let mut bytes: usize = group.iter().map(|(write, _)| write.size()).sum();
    while group.len() < GROUP_WRITES && bytes < GROUP_BYTES {
        match commands.try_recv() {
            Ok(Command::Write(write, answer)) => {
                bytes += write.size();
                group.push((write, answer));
            }
            Ok(Command::Post(write)) => {
                bytes += write.size();
                group.push((write, nobody()));
            }
            Ok(other) => return Some(other),
            Err(_) => break,
        }
    }
    None
}
