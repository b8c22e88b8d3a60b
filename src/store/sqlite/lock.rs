//! The lock beside the database that keeps a second server off it.
//!
//! An advisory lock of the kernel on a file of its own (`flock`): it is gone with the process that holds it, however
//! that ends, and SQLite's own locks stay what they are, so that backups and other commands work beside a server.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::store::StoreError;

/// What is read of another holder's note.
const NOTE_BYTES: u64 = 256;

/// A database that is this server's alone until this is dropped.
#[derive(Debug)]
pub struct ServerLock {
    database: PathBuf,
    /// The lock is the open file's.
    _file: File,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another server has the database.
    #[error("{} is in use by another server ({holder}; its lock is {})", database.display(), lock.display())]
    Taken {
        /// The database.
        database: PathBuf,
        /// The file that is locked.
        lock: PathBuf,
        /// Who it is, as it wrote down itself.
        holder: String,
    },
    /// The file of the lock cannot be used.
    #[error(transparent)]
    Failed(StoreError),
}

impl ServerLock {
    /// Takes the lock of a database, whose folder must exist. Does not wait; blocks for as long as the disk takes.
    pub fn acquire(database: &Path) -> Result<Self, LockError> {
        let lock = beside(database, "lock");
        let failed = |error: std::io::Error| {
            let message = format!("the lock {} cannot be taken: {error}", lock.display());
            LockError::Failed(StoreError::Database(message))
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&lock).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {
                // The note is for people; on a full disk the lock is held without one.
                if let Err(error) = write_note(&mut file) {
                    tracing::warn!(%error, "store: the lock does not say who holds it");
                }
                Ok(Self { database: database.to_owned(), _file: file })
            }
            Err(TryLockError::WouldBlock) => {
                let holder = read_note(&mut file);
                Err(LockError::Taken { database: database.to_owned(), lock, holder })
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// The path of the database.
    pub fn database(&self) -> &Path {
        &self.database
    }
}

/// A file that belongs to a database: its path with something behind it.
pub(super) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

fn write_note(file: &mut File) -> std::io::Result<()> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    file.set_len(0)?;
    file.rewind()?;
    let (pid, now) = (std::process::id(), jiff::Timestamp::now());
    writeln!(file, "process {pid} on {}, since {now:.0}", host.trim())
}

fn read_note(file: &mut File) -> String {
    let mut note = String::new();
    let read = file.take(NOTE_BYTES).read_to_string(&mut note);
    match note.trim() {
        // It has the lock and has not written yet, or could not.
        "" => "it does not say which".to_owned(),
        note if read.is_ok() => note.escape_debug().to_string(),
        _ => "its note cannot be read".to_owned(),
    }
}
