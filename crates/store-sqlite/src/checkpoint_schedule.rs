//! When checkpoints run, and on which thread, as the writer thread decides it.
//!
//! The write-ahead log (WAL) starts from its beginning again when all of it was copied into the database and no reader uses
//! it. Under load the checkpoint thread never copies all of it, so the writer thread copies the few pages that are left.
//! Should the checkpoint thread be too slow, the writer thread runs the checkpoint itself: commits wait, and the log does
//! not grow without bound.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::checkpointer::{CheckpointLock, Checkpointed, Checkpointer};
use super::connection::PAGE_SIZE;
use super::error::database;
use antwort_store::StoreError;

/// Pages of the WAL (16 MiB) that are exceeded only if readers or the disk are slow. A page that was rewritten several times
/// is copied once, so that rare checkpoints are cheap; but a restart after a crash has to read the WAL.
const MAX_WAL_PAGES: i32 = 2048;

/// The pages of the WAL, which SQLite reports with each commit.
#[derive(Clone, Default)]
pub(super) struct WalPages(pub Arc<AtomicI32>);

impl WalPages {
    /// Follows the commits of this connection. Replaces the automatic checkpoint, which would run before the waiting
    /// callers are answered.
    pub(super) fn of(connection: &mut Connection) -> Result<Self, StoreError> {
        let wal_pages = Self::default();
        let seen = wal_pages.clone();
        let hook = move |_: &mut Wal, pages| {
            seen.set(pages);
            Ok(())
        };
        connection.wal_hook(Some(hook)).map_err(database)?;
        Ok(wal_pages)
    }

    fn get(&self) -> i32 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, pages: i32) {
        self.0.store(pages, Ordering::Relaxed);
    }
}

/// Decides about checkpoints.
pub(super) struct CheckpointSchedule {
    pages: WalPages,
    checkpoint_lock: CheckpointLock,
    /// `None`: a database in memory, which has no WAL.
    checkpointer: Option<Checkpointer>,
    is_requested: bool,
    /// See [`MAX_WAL_PAGES`].
    max_pages: i32,
    /// Pages at which the next checkpoint is due.
    due_at: i32,
    /// Pages of the WAL at the last checkpoint that was complete, until the next commit.
    completed_at: Option<i32>,
    /// A commit has failed: the next checkpoint does not wait.
    is_urgent: bool,
}

impl CheckpointSchedule {
    /// `reserve`: bytes of the WAL that a full disk has room to copy, if that is limited.
    pub(super) fn new(
        pages: WalPages,
        checkpoint_lock: CheckpointLock,
        checkpointer: Option<Checkpointer>,
        reserve: Option<u64>,
    ) -> Self {
        let reserve = reserve.map(|bytes| bytes / u64::from(PAGE_SIZE));
        let max_pages = reserve
            .and_then(|pages| i32::try_from(pages).ok())
            .map_or(MAX_WAL_PAGES, |pages| pages.min(MAX_WAL_PAGES));
        let due_at = max_pages / 2;
        Self {
            pages,
            checkpoint_lock,
            checkpointer,
            is_requested: false,
            max_pages,
            due_at,
            completed_at: None,
            is_urgent: false,
        }
    }

    /// A commit has failed. On a full disk the WAL cannot grow, but may still be copied into free pages.
    pub(super) fn commit_failed(&mut self) {
        self.is_urgent = true;
    }

    /// Runs or requests a checkpoint if one is due. Returns whether pages were copied.
    pub(super) fn checkpoint_if_due(&mut self, connection: &Connection) -> bool {
        let outcome = self.checkpointer.as_ref().and_then(Checkpointer::take_outcome);
        let was_checkpointed = outcome.is_some();
        let has_rest = outcome.is_some_and(|outcome| self.on_checkpointed(outcome));
        let is_own = has_rest || self.request();
        if is_own {
            self.checkpoint(connection);
        }
        is_own || was_checkpointed
    }

    /// Requests a checkpoint of the other thread if one is due. Returns whether this thread has to run it.
    pub(super) fn request(&mut self) -> bool {
        if self.is_due() && !self.is_requested {
            self.is_requested = self.checkpointer.as_ref().is_some_and(Checkpointer::request);
        }
        self.is_urgent || self.is_overdue()
    }

    /// Runs a checkpoint on this thread.
    pub(super) fn checkpoint(&mut self, connection: &Connection) {
        let copied = {
            let _alone = self.checkpoint_lock.lock();
            Checkpointed::by(connection)
        };
        self.is_urgent = false;
        match copied {
            Ok(copied) if copied.is_complete() => self.completed(copied.pages),
            other => self.postpone(other),
        }
    }

    /// The other thread has run a checkpoint. Returns whether this one has to copy the rest.
    fn on_checkpointed(&mut self, outcome: rusqlite::Result<Checkpointed>) -> bool {
        self.is_requested = false;
        match outcome {
            Ok(copied) if copied.is_complete() => {
                let pages = self.pages.get();
                match copied.pages.cmp(&pages) {
                    Less => return true,
                    Equal => self.completed(pages),
                    // It has started anew since.
                    Greater => self.due_at = self.max_pages / 2,
                }
            }
            other => self.postpone(other),
        }
        false
    }

    /// All pages were copied. The next commit starts the WAL anew, and reports its new length.
    fn completed(&mut self, pages: i32) {
        self.pages.set(0);
        self.completed_at = Some(pages);
        self.due_at = self.max_pages / 2;
    }

    /// Tried again when there is more to copy.
    fn postpone(&mut self, outcome: rusqlite::Result<Checkpointed>) {
        let pages = match outcome {
            // A reader still uses the WAL.
            Ok(copied) => copied.pages,
            Err(error) => {
                tracing::warn!(%error, "store: the WAL checkpoint failed");
                self.pages.get()
            }
        };
        self.due_at = pages.saturating_add(self.max_pages / 4);
    }

    fn is_due(&mut self) -> bool {
        let pages = self.pages.get();
        if pages > 0
            && let Some(before) = self.completed_at.take()
            && pages > before
        {
            // It was not started anew, as a reader had begun before all was copied. Such readers end soon, as a rule.
            self.due_at = self.due_at.max(pages.saturating_add(self.max_pages / 16));
        }
        pages >= self.due_at
    }

    /// Whether the other thread has come too late.
    fn is_overdue(&self) -> bool {
        self.pages.get() >= self.due_at.saturating_add(self.max_pages / 2)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::super::connection;
    use super::super::options::{Location, Synchronous};
    use super::*;

    /// Room for a WAL of 128 pages.
    const RESERVE: Option<u64> = Some(1 << 20);

    fn open(path: &Path) -> Connection {
        let location = Location::File(path.to_owned());
        let connection = connection::writer(&location, Synchronous::Normal, None).unwrap();
        connection.execute_batch("CREATE TABLE t (key INTEGER PRIMARY KEY, bytes BLOB)").unwrap();
        connection
    }

    /// A schedule with its thread, and what is sent after each of its copies.
    fn with_checkpointer(connection: &mut Connection, path: &Path) -> (CheckpointSchedule, Receiver<()>) {
        let (pages, checkpoint_lock) = (WalPages::of(connection).unwrap(), CheckpointLock::default());
        let (sent, copied) = channel();
        let wake = move || {
            let _ = sent.send(());
        };
        let shared = Arc::clone(&pages.0);
        let checkpointer =
            Checkpointer::start(path, Synchronous::Normal, shared, checkpoint_lock.clone(), wake).unwrap();
        (CheckpointSchedule::new(pages, checkpoint_lock, Some(checkpointer), RESERVE), copied)
    }

    fn write(connection: &Connection) {
        connection.execute("INSERT INTO t (bytes) VALUES (zeroblob(4000))", []).unwrap();
    }

    #[test]
    fn without_its_thread_the_writer_runs_checkpoints() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = open(&folder.path().join("a.db"));
        let pages = WalPages::of(&mut connection).unwrap();
        let mut schedule = CheckpointSchedule::new(pages.clone(), CheckpointLock::default(), None, RESERVE);
        let mut copies = 0;
        for _ in 0..1_000 {
            write(&connection);
            copies += i32::from(schedule.checkpoint_if_due(&connection));
            assert!(pages.get() <= 128, "{}", pages.get());
        }
        assert!(copies > 5, "{copies}");
    }

    #[test]
    fn the_other_thread_copies_and_the_log_starts_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let mut connection = open(&path);
        let (mut schedule, copied) = with_checkpointer(&mut connection, &path);
        for _ in 0..3 {
            while !schedule.is_requested {
                assert!(schedule.pages.get() <= 64, "{}", schedule.pages.get());
                write(&connection);
                assert!(!schedule.checkpoint_if_due(&connection));
            }
            copied.recv_timeout(Duration::from_secs(60)).unwrap();
            write(&connection);
            assert!(schedule.checkpoint_if_due(&connection), "an outcome");
            assert!(schedule.pages.get() < 8, "{}", schedule.pages.get());
            assert!(!schedule.is_requested);
        }
    }

    #[test]
    fn what_was_written_during_a_copy_is_copied_by_the_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let mut connection = open(&path);
        let (mut schedule, _copied) = with_checkpointer(&mut connection, &path);
        write(&connection);
        let copied = Checkpointed::by(&connection).unwrap();
        write(&connection);
        write(&connection);
        // The WAL has started anew with these.
        let now = schedule.pages.get();
        assert!(
            copied.is_complete()
                && !schedule.on_checkpointed(Ok(Checkpointed { pages: now + 1, copied: now + 1 }))
        );
        assert!(
            schedule.on_checkpointed(Ok(Checkpointed { pages: now - 1, copied: now - 1 })),
            "a page is left"
        );
        schedule.checkpoint(&connection);
        assert_eq!(schedule.pages.get(), 0);
    }

    #[test]
    fn a_reader_keeps_the_log_and_it_is_not_copied_with_each_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let mut connection = open(&path);
        let (mut schedule, copied) = with_checkpointer(&mut connection, &path);
        let reader = connection::reader(&path).unwrap();
        write(&connection);
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        let (mut copies, mut most) = (0, 0);
        for _ in 0..500 {
            write(&connection);
            most = most.max(schedule.pages.get());
            schedule.checkpoint_if_due(&connection);
            if schedule.is_requested {
                copied.recv_timeout(Duration::from_secs(60)).unwrap();
                copies += 1;
                assert!(schedule.checkpoint_if_due(&connection), "an outcome");
            }
        }
        assert!(most > 500, "{most}");
        // One per quarter of the pages that may be left.
        assert!((5..=most / 32).contains(&copies), "{copies} copies of {most} pages");
        reader.execute_batch("COMMIT").unwrap();
        for _ in 0..100 {
            write(&connection);
            schedule.checkpoint_if_due(&connection);
            if schedule.is_requested {
                copied.recv_timeout(Duration::from_secs(60)).unwrap();
            }
        }
        assert!(schedule.pages.get() <= 128, "it has started anew: {}", schedule.pages.get());
    }
}
