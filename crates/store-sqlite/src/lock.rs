//! The lock beside the database that allows only one server to use it.
//!
//! An advisory kernel lock (`flock`) on a file of its own: it ends with the process that holds it, however that
//! ends, and leaves SQLite's own locks alone, so that backups and other commands work beside a server.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use antwort_store::StoreError;

/// How much is read of another holder's note.
const NOTE_BYTES: u64 = 256;

/// Exclusive use of a database by one server, until this is dropped.
#[derive(Debug)]
pub struct ServerLock {
    database: PathBuf,
    /// Holds the lock until it is closed.
    _file: File,
}

/// Why the lock could not be acquired.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another server holds it.
    #[error("{} is in use by another server ({holder}; its lock is {})", database.display(), lock.display())]
    Taken {
        /// The path of the database.
        database: PathBuf,
        /// The lock file.
        lock: PathBuf,
        /// What the holder has written about itself.
        holder: String,
    },
    /// The lock file cannot be used.
    #[error(transparent)]
    Failed(StoreError),
}

impl ServerLock {
    /// Acquires the lock of a database, whose folder must exist. Does not wait; blocks for as long as the disk takes.
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
                    tracing::warn!(
                        %error,
                        "store: writing the owner's process information into the lock file failed; the lock is held \
                         nevertheless"
                    );
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

/// The path of a file that belongs to a database: its path with a suffix.
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
        // The holder has not written its note yet, or could not.
        "" => "process unknown".to_owned(),
        note if read.is_ok() => note.escape_debug().to_string(),
        _ => "process information unreadable".to_owned(),
    }
}
