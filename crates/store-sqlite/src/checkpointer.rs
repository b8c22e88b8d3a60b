//! The checkpoint thread: copies the write-ahead log into the database, with a connection of its own.
//!
//! A checkpoint waits for the disk, twice. Commits go on meanwhile, and the next pass copies what they appended.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

use super::connection;
use super::options::Synchronous;
use antwort_store::StoreError;

/// Maximum number of pages that are left to the writer thread.
const MAX_REMAINING_PAGES: i32 = 64;

/// Maximum number of passes of one checkpoint: each copies what was written during the one before, which is less every time unless the disk
/// is too slow.
const MAX_PASSES: u32 = 3;

/// The result of a checkpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checkpointed {
    /// Pages of the write-ahead log.
    pub pages: i32,
    /// Of those, the ones that are in the database.
    pub copied: i32,
}

impl Checkpointed {
    /// Runs a passive checkpoint, which copies as much as readers allow.
    pub(super) fn by(connection: &Connection) -> rusqlite::Result<Self> {
        let (pages, copied) = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE)?;
        Ok(Self { pages, copied })
    }

    pub(super) fn is_complete(self) -> bool {
        self.copied == self.pages
    }
}

/// The handle of the thread, for the writer thread.
pub(super) struct Checkpointer {
    requests: Option<SyncSender<()>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// Pages of the write-ahead log after the last commit.
    wal_pages: Arc<AtomicI32>,
    outcome: Mutex<Option<rusqlite::Result<Checkpointed>>>,
    /// Locked during a checkpoint.
    checkpoint_lock: CheckpointLock,
}

/// Held during a checkpoint, of which one runs at a time.
#[derive(Clone, Default)]
pub(super) struct CheckpointLock(Arc<Mutex<()>>);

impl CheckpointLock {
    /// Waits until a checkpoint that runs is finished.
    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        self.0.lock()
    }
}

impl Checkpointer {
    /// Starts the thread. It calls `wake` after each checkpoint.
    pub(super) fn start(
        path: &Path,
        synchronous: Synchronous,
        wal_pages: Arc<AtomicI32>,
        checkpoint_lock: CheckpointLock,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self, StoreError> {
        let connection = connection::checkpointer(path, synchronous)?;
        let (requests, requested) = mpsc::sync_channel(1);
        let shared = Arc::new(Shared { wal_pages, outcome: Mutex::default(), checkpoint_lock });
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("antwort-wal".to_owned())
            .spawn(move || for_thread.run(&connection, &requested, wake))
            .map_err(|error| StoreError::Database(format!("no thread could be started: {error}")))?;
        Ok(Self { requests: Some(requests), shared, thread: Some(thread) })
    }

    /// Requests a checkpoint. False if the thread has ended.
    pub(super) fn request(&self) -> bool {
        self.requests.as_ref().is_some_and(|requests| requests.try_send(()).is_ok())
    }

    /// The result of a checkpoint, once.
    pub(super) fn take_outcome(&self) -> Option<rusqlite::Result<Checkpointed>> {
        self.shared.outcome.lock().take()
    }
}

impl Drop for Checkpointer {
    /// Waits for the thread: the last connection that is closed has to be the writer's, which empties the write-ahead log.
    fn drop(&mut self) {
        self.requests = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("store: the checkpoint thread panicked");
        }
    }
}

impl Shared {
    fn run(&self, connection: &Connection, requested: &Receiver<()>, wake: impl Fn()) {
        while requested.recv().is_ok() {
            let outcome = self.checkpoint(connection);
            *self.outcome.lock() = Some(outcome);
            wake();
        }
    }

    fn checkpoint(&self, connection: &Connection) -> rusqlite::Result<Checkpointed> {
        let _alone = self.checkpoint_lock.lock();
        let mut copied = Checkpointed::by(connection)?;
        for _ in 1..MAX_PASSES {
            let rest = self.wal_pages.load(Ordering::Relaxed).saturating_sub(copied.copied);
            if !copied.is_complete() || rest <= MAX_REMAINING_PAGES {
                break;
            }
            copied = Checkpointed::by(connection)?;
        }
        Ok(copied)
    }
}
