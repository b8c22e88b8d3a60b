//! The thread that copies the write-ahead log into the database (a checkpoint), by a connection of its own.
//!
//! A copy waits for the disk, twice. Commits go on meanwhile: they append to the log what the next pass copies.

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
use crate::store::StoreError;

/// So few pages are left to the writer thread.
const FEW_PAGES: i32 = 64;

/// Passes of one copy: each copies what was written during the one before, which is less every time unless the disk
/// is too slow.
const MOST_PASSES: u32 = 3;

/// How far a copy has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copied {
    /// Pages of the log.
    pub pages: i32,
    /// Of those, the ones that are in the database.
    pub copied: i32,
}

impl Copied {
    /// Copies as much of the log as no reader and no other copy prevents.
    pub(super) fn by(connection: &Connection) -> rusqlite::Result<Self> {
        let (pages, copied) = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE)?;
        Ok(Self { pages, copied })
    }

    pub(super) fn is_whole(self) -> bool {
        self.copied == self.pages
    }
}

/// The handle of the thread, for the writer thread.
pub(super) struct LogCopier {
    orders: Option<SyncSender<()>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// Pages of the log after the last commit.
    log_pages: Arc<AtomicI32>,
    outcome: Mutex<Option<rusqlite::Result<Copied>>>,
    /// Locked during a copy: the log has one copier at a time.
    copying: CopyLock,
}

/// Whoever holds it may copy the log.
#[derive(Clone, Default)]
pub(super) struct CopyLock(Arc<Mutex<()>>);

impl CopyLock {
    /// Waits until a copy that goes on is finished.
    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        self.0.lock()
    }
}

impl LogCopier {
    /// Starts the thread. It calls `wake` after each copy.
    pub(super) fn start(
        path: &Path,
        synchronous: Synchronous,
        log_pages: Arc<AtomicI32>,
        copying: CopyLock,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self, StoreError> {
        let connection = connection::copier(path, synchronous)?;
        let (orders, ordered) = mpsc::sync_channel(1);
        let shared = Arc::new(Shared { log_pages, outcome: Mutex::default(), copying });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("antwort-log".to_owned())
            .spawn(move || of_thread.run(&connection, &ordered, wake))
            .map_err(|error| StoreError::Database(format!("no thread could be started: {error}")))?;
        Ok(Self { orders: Some(orders), shared, thread: Some(thread) })
    }

    /// Has the log copied. Returns whether it will be: not if the thread has ended.
    pub(super) fn order(&self) -> bool {
        self.orders.as_ref().is_some_and(|orders| orders.try_send(()).is_ok())
    }

    /// The outcome of a copy, once.
    pub(super) fn take_outcome(&self) -> Option<rusqlite::Result<Copied>> {
        self.shared.outcome.lock().take()
    }
}

impl Drop for LogCopier {
    /// Waits for the thread: the last connection that is closed has to be the writer's, which empties the log.
    fn drop(&mut self) {
        self.orders = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("store: the thread that copies the write-ahead log panicked");
        }
    }
}

impl Shared {
    fn run(&self, connection: &Connection, ordered: &Receiver<()>, wake: impl Fn()) {
        while ordered.recv().is_ok() {
            let outcome = self.copy(connection);
            *self.outcome.lock() = Some(outcome);
            wake();
        }
    }

    fn copy(&self, connection: &Connection) -> rusqlite::Result<Copied> {
        let _alone = self.copying.lock();
        let mut copied = Copied::by(connection)?;
        for _ in 1..MOST_PASSES {
            let rest = self.log_pages.load(Ordering::Relaxed).saturating_sub(copied.copied);
            if !copied.is_whole() || rest <= FEW_PAGES {
                break;
            }
            copied = Copied::by(connection)?;
        }
        Ok(copied)
    }
}
