//! The disk of the database: its free space, and a reserve file that is released when it is full.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Measures the space of a file system.
pub trait Disk: Debug + Send + Sync {
    /// The space of the file system of this path.
    fn space(&self, path: &Path) -> io::Result<DiskSpace>;
}

/// The space of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// The size of the file system.
    pub total: u64,
    /// What this process may still write.
    pub available: u64,
}

/// The space as the kernel reports it.
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

/// A file beside the database whose blocks are freed when the disk is full.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
    is_held: bool,
}

impl Reserve {
    /// A reserve of this size, which an earlier process may have allocated.
    pub(super) fn new(path: PathBuf, bytes: u64) -> Self {
        let is_held = fs::metadata(&path).is_ok_and(|file| file.len() >= bytes);
        Self { path, bytes, is_held }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that are still to be allocated.
    pub(super) fn missing(&self) -> u64 {
        if self.is_held { 0 } else { self.bytes }
    }

    /// Allocates the blocks. If that fails, the store works without a reserve.
    pub(super) fn make(&mut self) {
        match allocate(&self.path, self.bytes) {
            Ok(()) => self.is_held = true,
            Err(error) => {
                tracing::warn!(%error, file = %self.path.display(), "store: allocating the reserve file failed; the store works without it");
                remove_reserve(&self.path);
            }
        }
    }

    /// Frees the blocks.
    pub(super) fn release(&mut self) {
        if self.is_held {
            self.is_held = false;
            remove_reserve(&self.path);
            tracing::warn!(
                bytes = self.bytes,
                "store: disk full; released the reserve file for deletions and maintenance"
            );
        }
    }
}

/// Removes the reserve file. Returns whether there was one.
pub(super) fn remove_reserve(path: &Path) -> bool {
    match fs::remove_file(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => {
            tracing::warn!(%error, file = %path.display(), "store: removing the reserve file failed");
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
        // Some file systems cannot allocate blocks; writing zeros works everywhere.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => fill(&mut file, bytes),
        done => done.map_err(io::Error::from),
    }
}

fn fill(file: &mut File, bytes: u64) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), bytes), file)?;
    file.flush()
}
