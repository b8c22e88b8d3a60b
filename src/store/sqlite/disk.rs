//! The disk that the database is on: how much room it has, and a reserve that is given up when it has none.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Tells how much room a file system has.
pub trait Disk: Debug + Send + Sync {
    /// Of the file system that this path is on.
    fn space(&self, path: &Path) -> io::Result<DiskSpace>;
}

/// The room of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// All of it.
    pub total: u64,
    /// What this process may still write.
    pub available: u64,
}

/// What the kernel says.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileSystem;

impl Disk for FileSystem {
    fn space(&self, path: &Path) -> io::Result<DiskSpace> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(DiskSpace {
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
            available: stat.f_bavail.saturating_mul(stat.f_frsize),
        })
    }
}

/// A file beside the database whose blocks are given up when there are no others.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
    is_held: bool,
}

impl Reserve {
    /// A reserve of this size; one that an earlier process left is held.
    pub(super) fn new(path: PathBuf, bytes: u64) -> Self {
        let is_held = fs::metadata(&path).is_ok_and(|file| file.len() >= bytes);
        Self { path, bytes, is_held }
    }

    /// Bytes that it has when it is held.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that are still to be set aside.
    pub(super) fn missing(&self) -> u64 {
        if self.is_held { 0 } else { self.bytes }
    }

    /// Sets the blocks aside. Without it everything else goes on.
    pub(super) fn make(&mut self) {
        match allocate(&self.path, self.bytes) {
            Ok(()) => self.is_held = true,
            Err(error) => {
                tracing::warn!(%error, file = %self.path.display(), "store: no reserve could be set aside");
                give_up(&self.path);
            }
        }
    }

    /// Gives the blocks up.
    pub(super) fn release(&mut self) {
        if self.is_held {
            self.is_held = false;
            give_up(&self.path);
            tracing::warn!(bytes = self.bytes, "store: the reserve was given up, for deletions and upkeep");
        }
    }
}

/// Removes a reserve. Whether there was one.
pub(super) fn give_up(path: &Path) -> bool {
    match fs::remove_file(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => {
            tracing::warn!(%error, file = %path.display(), "store: the reserve could not be removed");
            false
        }
    }
}

fn allocate(path: &Path, bytes: u64) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
        // Not every file system can; zeros take blocks everywhere.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => fill(&mut file, bytes),
        done => done.map_err(io::Error::from),
    }
}

fn fill(file: &mut File, bytes: u64) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), bytes), file)?;
    file.flush()
}
