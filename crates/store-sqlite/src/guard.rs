//! Guards the database file on the writer thread: that it is still there, that there is room, and what follows from a
//! failed commit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

use super::disk::{Disk, DiskSpace, Reserve};
use super::error::database;
use super::lock::beside;
use super::maintenance;
use antwort_store::StoreError;
use antwort_store::health::StoreHealth;

/// Responses are stored while this many bytes are free beside the reserve: running responses must find room even if
/// it falls below.
const MIN_FREE_BYTES: u64 = 32 << 20;

/// The size of the reserve: 16 MiB to copy the log into the database, and room for the pages that deletions
/// overwrite.
const RESERVE_BYTES: u64 = 24 << 20;

/// On a small file system both are this fraction of it.
const SMALL_DISK_DIVISOR: u64 = 8;

/// Bytes that must stay free on a file system of this size.
pub(super) fn least_free(total: u64) -> u64 {
    MIN_FREE_BYTES.min(total / SMALL_DISK_DIVISOR)
}

/// The path of a database's reserve file.
pub(super) fn reserve_of(database: &Path) -> PathBuf {
    beside(database, "reserve")
}

/// How the file is guarded.
#[derive(Debug, Clone)]
pub(super) struct GuardOptions {
    pub path: PathBuf,
    pub disk: Arc<dyn Disk>,
    pub reserve: bool,
}

/// The state of the database file, as the writer thread knows it.
pub(super) struct FileGuard {
    health: Arc<StoreHealth>,
    /// A commit failed on a full disk: only writes that free space are tried.
    is_full: bool,
    /// A commit failed for another reason.
    is_failing: bool,
    file: Option<GuardedFile>,
}

struct GuardedFile {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    identity: Option<Identity>,
    reserve: Option<Reserve>,
    min_free: u64,
}

impl FileGuard {
    /// For an open database; `None` if it is in memory.
    pub(super) fn new(options: Option<GuardOptions>, health: Arc<StoreHealth>) -> Self {
        Self { health, is_full: false, is_failing: false, file: options.map(GuardedFile::new) }
    }

    /// Whether only writes that free space are to be tried.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Why others are refused.
    pub(super) fn reason(&self) -> StoreError {
        self.health.reason().unwrap_or_else(|| StoreError::Full("a commit failed".to_owned()))
    }

    /// Bytes of the log that the reserve has room to copy.
    pub(super) fn log_bytes(&self) -> Option<u64> {
        let reserve = self.file.as_ref()?.reserve.as_ref()?;
        Some(reserve.bytes() / 3 * 2)
    }

    /// A commit failed, and not because of one row.
    pub(super) fn commit_failed(&mut self, error: &StoreError) {
        match error {
            StoreError::Full(_) => {
                self.is_full = true;
                if let Some(reserve) = self.file.as_mut().and_then(|file| file.reserve.as_mut()) {
                    reserve.release();
                }
            }
            _ => self.is_failing = true,
        }
        self.health.impair(error);
    }

    /// Responses were committed.
    pub(super) fn commit_succeeded(&mut self) {
        if self.is_failing {
            self.is_failing = false;
            self.health.recover();
        }
    }

    /// Checks whether responses can be stored, and remembers the result.
    pub(super) fn check(&mut self, connection: &mut Connection) -> Result<(), StoreError> {
        let looked = self.look(connection);
        match &looked {
            Ok(()) => {
                (self.is_full, self.is_failing) = (false, false);
                self.health.recover();
            }
            Err(error) => self.health.impair(error),
        }
        looked
    }

    fn look(&mut self, connection: &mut Connection) -> Result<(), StoreError> {
        if let Some(file) = &mut self.file {
            file.check_identity()?;
            file.check_room(connection)?;
        }
        maintenance::probe(connection).inspect_err(|error| self.commit_failed(error))
    }

    /// Checks whether there is still room, after a part of the log was written.
    pub(super) fn measure(&mut self, connection: &Connection) {
        if let Some(file) = &mut self.file
            && !self.health.is_impaired()
            && let Err(error) = file.check_room(connection)
        {
            self.health.impair(&error);
        }
    }
}

impl GuardedFile {
    fn new(options: GuardOptions) -> Self {
        let GuardOptions { path, disk, reserve } = options;
        let part = disk.space(&path).map_or(u64::MAX, |space| space.total / SMALL_DISK_DIVISOR);
        let reserve = reserve.then(|| Reserve::new(reserve_of(&path), RESERVE_BYTES.min(part)));
        let identity = Identity::of(&path);
        Self { path, disk, identity, reserve, min_free: MIN_FREE_BYTES.min(part) }
    }

    /// Whether the path still leads to the open file.
    fn check_identity(&self) -> Result<(), StoreError> {
        if Identity::of(&self.path) == self.identity {
            return Ok(());
        }
        Err(StoreError::Replaced(self.path.display().to_string()))
    }

    /// Whether there is room on the disk and in the file, and for a reserve.
    fn check_room(&mut self, connection: &Connection) -> Result<(), StoreError> {
        // The free space is not known: a commit that does not fit will fail.
        let Ok(DiskSpace { available, .. }) = self.disk.space(&self.path) else { return Ok(()) };
        let file = FileSpace::read(connection)?;
        let missing = self.reserve.as_ref().map_or(0, Reserve::missing);
        let room = available.min(file.growth).saturating_add(file.free);
        // Free pages inside the file are written by way of the log, which may have to grow.
        if room < self.min_free.saturating_add(missing) || available < self.min_free / SMALL_DISK_DIVISOR {
            return Err(full_error(available, file.free));
        }
        if missing > 0
            && available >= self.min_free.saturating_add(missing)
            && let Some(reserve) = &mut self.reserve
        {
            reserve.make();
        }
        Ok(())
    }
}

fn full_error(available: u64, inside: u64) -> StoreError {
    let mib = |bytes: u64| bytes >> 20;
    StoreError::Full(format!(
        "{} MiB are free on its file system and {} MiB within the database: free some space, or delete responses",
        mib(available),
        mib(inside)
    ))
}

/// The space within the database file, in bytes.
struct FileSpace {
    /// In its free pages.
    free: u64,
    /// How much it may still grow.
    growth: u64,
}

impl FileSpace {
    fn read(connection: &Connection) -> Result<Self, StoreError> {
        let pragma = |name| {
            let value = connection.pragma_query_one::<i64>(None, name).map_err(database)?;
            Ok::<_, StoreError>(u64::try_from(value).unwrap_or(0))
        };
        let page = pragma("page_size")?;
        Ok(Self {
            free: pragma("freelist_count")?.saturating_mul(page),
            growth: pragma("max_page_count")?.saturating_sub(pragma("page_count")?).saturating_mul(page),
        })
    }
}

/// The identity of the file that a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    #[cfg(unix)]
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let file = std::fs::metadata(path).ok()?;
        Some(Self { device: file.dev(), inode: file.ino() })
    }

    /// Not supported here: any file at the path is taken for the open one.
    #[cfg(not(unix))]
    fn of(_: &Path) -> Option<Self> {
        None
    }
}
