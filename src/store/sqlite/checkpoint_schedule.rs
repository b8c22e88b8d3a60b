//! When the write-ahead log is copied into the database, as the writer thread decides it.
//!
//! The log can start from its beginning again when all of it was copied and no reader uses it. Under load a copy by
//! another thread never has all of it, so the writer thread copies the few pages that are left. Should the other
//! thread be too slow, the writer thread copies the log itself: commits wait, and the log does not grow without bound.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::connection::PAGE_SIZE;
use super::error::database;
use super::log_copier::{Copied, CopyLock, LogCopier};
use crate::store::StoreError;

/// At most so many pages of the log are to be copied (16 MiB), as a rule. A page that was rewritten several times is
/// copied once, so that copying seldom is cheap; but a restart after a crash has to read the log.
const MOST_PAGES: i32 = 2048;

/// The pages of the log, which SQLite reports with each commit.
#[derive(Clone, Default)]
pub(super) struct LogPages(pub Arc<AtomicI32>);

impl LogPages {
    /// Follows the commits of this connection. Replaces the automatic checkpoint, which would run before the waiting
    /// callers are answered.
    pub(super) fn of(connection: &mut Connection) -> Result<Self, StoreError> {
        let log_pages = Self::default();
        let seen = log_pages.clone();
        let hook = move |_: &mut Wal, pages| {
            seen.set(pages);
            Ok(())
        };
        connection.wal_hook(Some(hook)).map_err(database)?;
        Ok(log_pages)
    }

    fn get(&self) -> i32 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, pages: i32) {
        self.0.store(pages, Ordering::Relaxed);
    }
}

/// The log, as the writer thread knows it.
pub(super) struct Log {
    pages: LogPages,
    copying: CopyLock,
    /// `None`: a database in memory, which has no log.
    copier: Option<LogCopier>,
    is_ordered: bool,
    /// The most pages that are to be copied, as a rule.
    most_pages: i32,
    /// Pages at which the next copy is due.
    copy_at: i32,
    /// Its pages when all of it had been copied, until the next commit.
    whole_at: Option<i32>,
    /// A commit has failed: the next copy does not wait.
    is_urgent: bool,
}

impl Log {
    /// `reserve`: bytes of the log that a full disk has room to copy, if that is limited.
    pub(super) fn new(
        pages: LogPages,
        copying: CopyLock,
        copier: Option<LogCopier>,
        reserve: Option<u64>,
    ) -> Self {
        let reserve = reserve.map(|bytes| bytes / u64::from(PAGE_SIZE));
        let most_pages = reserve
            .and_then(|pages| i32::try_from(pages).ok())
            .map_or(MOST_PAGES, |pages| pages.min(MOST_PAGES));
        let copy_at = most_pages / 2;
        Self {
            pages,
            copying,
            copier,
            is_ordered: false,
            most_pages,
            copy_at,
            whole_at: None,
            is_urgent: false,
        }
    }

    /// A commit has failed. On a full disk the log cannot grow, but may still be copied into free pages.
    pub(super) fn commit_failed(&mut self) {
        self.is_urgent = true;
    }

    /// Copies the log, or has it copied, if it is time. Returns whether a part of it was.
    pub(super) fn look(&mut self, connection: &Connection) -> bool {
        let outcome = self.copier.as_ref().and_then(LogCopier::take_outcome);
        let was_copied = outcome.is_some();
        let is_rest_left = outcome.is_some_and(|outcome| self.copied_beside(outcome));
        let is_this_ones = is_rest_left || self.order();
        if is_this_ones {
            self.copy(connection);
        }
        is_this_ones || was_copied
    }

    /// Has the other thread copy the log, if it is time. Returns whether this one has to.
    pub(super) fn order(&mut self) -> bool {
        if self.is_due() && !self.is_ordered {
            self.is_ordered = self.copier.as_ref().is_some_and(LogCopier::order);
        }
        self.is_urgent || self.must_be_copied()
    }

    /// Copies the log on this thread.
    pub(super) fn copy(&mut self, connection: &Connection) {
        let copied = {
            let _alone = self.copying.lock();
            Copied::by(connection)
        };
        self.is_urgent = false;
        match copied {
            Ok(copied) if copied.is_whole() => self.copied_whole(copied.pages),
            other => self.put_off(other),
        }
    }

    /// The other thread has copied. Returns whether the rest is this one's.
    fn copied_beside(&mut self, outcome: rusqlite::Result<Copied>) -> bool {
        self.is_ordered = false;
        match outcome {
            Ok(copied) if copied.is_whole() => {
                let pages = self.pages.get();
                match copied.pages.cmp(&pages) {
                    Less => return true,
                    Equal => self.copied_whole(pages),
                    // It has started anew since.
                    Greater => self.copy_at = self.most_pages / 2,
                }
            }
            other => self.put_off(other),
        }
        false
    }

    /// The next commit starts the log anew, and reports its new length.
    fn copied_whole(&mut self, pages: i32) {
        self.pages.set(0);
        self.whole_at = Some(pages);
        self.copy_at = self.most_pages / 2;
    }

    /// Tried again when there is more to copy.
    fn put_off(&mut self, outcome: rusqlite::Result<Copied>) {
        let pages = match outcome {
            // A reader still uses the log.
            Ok(copied) => copied.pages,
            Err(error) => {
                tracing::warn!(%error, "store: the WAL checkpoint failed");
                self.pages.get()
            }
        };
        self.copy_at = pages.saturating_add(self.most_pages / 4);
    }

    fn is_due(&mut self) -> bool {
        let pages = self.pages.get();
        if pages > 0
            && let Some(before) = self.whole_at.take()
            && pages > before
        {
            // It was not started anew, as a reader had begun before all was copied. Such readers end soon, as a rule.
            self.copy_at = self.copy_at.max(pages.saturating_add(self.most_pages / 16));
        }
        pages >= self.copy_at
    }

    /// Whether the other thread has come too late.
    fn must_be_copied(&self) -> bool {
        self.pages.get() >= self.copy_at.saturating_add(self.most_pages / 2)
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

    /// Room for so little of the log that it is short: 128 pages.
    const RESERVE: Option<u64> = Some(1 << 20);

    fn open(path: &Path) -> Connection {
        let location = Location::File(path.to_owned());
        let connection = connection::writer(&location, Synchronous::Normal, None).unwrap();
        connection.execute_batch("CREATE TABLE t (key INTEGER PRIMARY KEY, bytes BLOB)").unwrap();
        connection
    }

    /// A log with a copier, and what is sent after each of its copies.
    fn with_copier(connection: &mut Connection, path: &Path) -> (Log, Receiver<()>) {
        let (pages, copying) = (LogPages::of(connection).unwrap(), CopyLock::default());
        let (sent, copied) = channel();
        let wake = move || {
            let _ = sent.send(());
        };
        let shared = Arc::clone(&pages.0);
        let copier = LogCopier::start(path, Synchronous::Normal, shared, copying.clone(), wake).unwrap();
        (Log::new(pages, copying, Some(copier), RESERVE), copied)
    }

    fn write(connection: &Connection) {
        connection.execute("INSERT INTO t (bytes) VALUES (zeroblob(4000))", []).unwrap();
    }

    #[test]
    fn a_log_whose_copier_has_ended_is_copied_by_the_writer() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = open(&folder.path().join("a.db"));
        let pages = LogPages::of(&mut connection).unwrap();
        let mut log = Log::new(pages.clone(), CopyLock::default(), None, RESERVE);
        let mut copies = 0;
        for _ in 0..1_000 {
            write(&connection);
            copies += i32::from(log.look(&connection));
            assert!(pages.get() <= 128, "{}", pages.get());
        }
        assert!(copies > 5, "{copies}");
    }

    #[test]
    fn the_other_thread_copies_and_the_log_starts_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let mut connection = open(&path);
        let (mut log, copied) = with_copier(&mut connection, &path);
        for _ in 0..3 {
            while !log.is_ordered {
                assert!(log.pages.get() <= 64, "{}", log.pages.get());
                write(&connection);
                assert!(!log.look(&connection));
            }
            copied.recv_timeout(Duration::from_secs(60)).unwrap();
            write(&connection);
            assert!(log.look(&connection), "an outcome");
            assert!(log.pages.get() < 8, "{}", log.pages.get());
            assert!(!log.is_ordered);
        }
    }

    #[test]
    fn what_was_written_during_a_copy_is_copied_by_the_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let mut connection = open(&path);
        let (mut log, _copied) = with_copier(&mut connection, &path);
        write(&connection);
        let copied = Copied::by(&connection).unwrap();
        write(&connection);
        write(&connection);
        // The log has started anew with these.
        let now = log.pages.get();
        assert!(copied.is_whole() && !log.copied_beside(Ok(Copied { pages: now + 1, copied: now + 1 })));
        assert!(log.copied_beside(Ok(Copied { pages: now - 1, copied: now - 1 })), "a page is left");
        log.copy(&connection);
        assert_eq!(log.pages.get(), 0);
    }

    #[test]
    fn a_reader_keeps_the_log_and_it_is_not_copied_with_each_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let mut connection = open(&path);
        let (mut log, copied) = with_copier(&mut connection, &path);
        let reader = connection::reader(&path).unwrap();
        write(&connection);
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        let (mut copies, mut most) = (0, 0);
        for _ in 0..500 {
            write(&connection);
            most = most.max(log.pages.get());
            log.look(&connection);
            if log.is_ordered {
                copied.recv_timeout(Duration::from_secs(60)).unwrap();
                copies += 1;
                assert!(log.look(&connection), "an outcome");
            }
        }
        assert!(most > 500, "{most}");
        // One per quarter of the pages that may be left.
        assert!((5..=most / 32).contains(&copies), "{copies} copies of {most} pages");
        reader.execute_batch("COMMIT").unwrap();
        for _ in 0..100 {
            write(&connection);
            log.look(&connection);
            if log.is_ordered {
                copied.recv_timeout(Duration::from_secs(60)).unwrap();
            }
        }
        assert!(log.pages.get() <= 128, "it has started anew: {}", log.pages.get());
    }
}
