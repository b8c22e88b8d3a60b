//! Watches over the database file on the writing thread: that it is there, that there is room, and what follows from
//! a commit that failed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

use super::disk::{Disk, DiskSpace, Reserve};
use super::error::database;
use super::health::StoreHealth;
use super::lock::beside;
use super::maintenance;
use crate::store::StoreError;

/// Responses are stored while so many bytes are free beside the reserve: those that are being made when it is less
/// must find room, too.
const MIN_FREE_BYTES: u64 = 32 << 20;

/// The reserve: the log is copied into the database first (16 MiB), and deletions write what they overwrite.
const RESERVE_BYTES: u64 = 24 << 20;

/// Of a small file system both are this part.
const SMALL_DISK_DIVISOR: u64 = 8;

/// Bytes that stay free on a file system of this size.
pub(super) fn least_free(total: u64) -> u64 {
    MIN_FREE_BYTES.min(total / SMALL_DISK_DIVISOR)
}

/// Where the reserve of a database is.
pub(super) fn reserve_of(database: &Path) -> PathBuf {
    beside(database, "reserve")
}

/// How the file is watched.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    pub path: PathBuf,
    pub disk: Arc<dyn Disk>,
    /// Whether a reserve is kept.
    pub reserve: bool,
}

/// What the writing thread knows of its file.
pub(super) struct FileGuard {
    condition: Arc<StoreHealth>,
    /// A commit failed for want of room: only what makes room is still tried.
    is_full: bool,
    /// A commit failed for another reason.
    is_failing: bool,
    file: Option<Watched>,
}

struct Watched {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    identity: Option<Identity>,
    reserve: Option<Reserve>,
    min_free: u64,
}

impl FileGuard {
    /// Of a database that is open; `None`: it is in memory.
    pub(super) fn new(watch: Option<Watch>, condition: Arc<StoreHealth>) -> Self {
        Self { condition, is_full: false, is_failing: false, file: watch.map(Watched::new) }
    }

    /// Whether only what makes room is to be tried.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Why nothing else is.
    pub(super) fn reason(&self) -> StoreError {
        self.condition.reason().unwrap_or_else(|| StoreError::Full("a commit failed".to_owned()))
    }

    /// Bytes of the log that the reserve is large enough to copy.
    pub(super) fn log_bytes(&self) -> Option<u64> {
        let reserve = self.file.as_ref()?.reserve.as_ref()?;
        Some(reserve.bytes() / 3 * 2)
    }

    /// A commit failed, and not for one row's sake.
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
        self.condition.impair(error);
    }

    /// Responses were committed.
    pub(super) fn commit_succeeded(&mut self) {
        if self.is_failing {
            self.is_failing = false;
            self.condition.recover();
        }
    }

    /// Looks whether responses can be stored, and remembers it.
    pub(super) fn check(&mut self, connection: &mut Connection) -> Result<(), StoreError> {
        let looked = self.look(connection);
        match &looked {
            Ok(()) => {
                (self.is_full, self.is_failing) = (false, false);
                self.condition.recover();
            }
            Err(error) => self.condition.impair(error),
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

    /// Looks whether there is still room, after a part of the log was written.
    pub(super) fn measure(&mut self, connection: &Connection) {
        if let Some(file) = &mut self.file
            && !self.condition.is_impaired()
            && let Err(error) = file.check_room(connection)
        {
            self.condition.impair(&error);
        }
    }
}

impl Watched {
    fn new(watch: Watch) -> Self {
        let Watch { path, disk, reserve } = watch;
        let part = disk.space(&path).map_or(u64::MAX, |space| space.total / SMALL_DISK_DIVISOR);
        let reserve = reserve.then(|| Reserve::new(reserve_of(&path), RESERVE_BYTES.min(part)));
        let identity = Identity::of(&path);
        Self { path, disk, identity, reserve, min_free: MIN_FREE_BYTES.min(part) }
    }

    /// Whether the path still leads to the file that is open.
    fn check_identity(&self) -> Result<(), StoreError> {
        if Identity::of(&self.path) == self.identity {
            return Ok(());
        }
        Err(StoreError::Replaced(self.path.display().to_string()))
    }

    /// Whether there is room outside the file and inside, and a reserve beside it.
    fn check_room(&mut self, connection: &Connection) -> Result<(), StoreError> {
        // Nothing is known of the disk: a commit that fails will say so.
        let Ok(DiskSpace { available, .. }) = self.disk.space(&self.path) else { return Ok(()) };
        let file = FileSpace::read(connection)?;
        let missing = self.reserve.as_ref().map_or(0, Reserve::missing);
        let room = available.min(file.growth).saturating_add(file.free);
        // Pages that are free inside are written by way of the log, which may have to grow.
        if room < self.min_free.saturating_add(missing) || available < self.min_free / SMALL_DISK_DIVISOR {
            return Err(full(available, file.free));
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

fn full(available: u64, inside: u64) -> StoreError {
    let mib = |bytes: u64| bytes >> 20;
    StoreError::Full(format!(
        "{} MiB are free on its file system and {} MiB within the database: free some space, or delete responses",
        mib(available),
        mib(inside)
    ))
}

/// The room of the database file, in bytes.
struct FileSpace {
    /// Of its free pages.
    free: u64,
    /// What it may still grow.
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

/// Which file a path leads to.
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

    /// Not known here: whatever is at the path is taken for the file.
    #[cfg(not(unix))]
    fn of(_: &Path) -> Option<Self> {
        None
    }
}
