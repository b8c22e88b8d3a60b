//! Copies of a database: consistent while others write, durable, readable by their owner only, never overwriting a
//! file.
//!
//! `VACUUM INTO` reads in one transaction of the write-ahead log, so that writers go on. It writes used pages
//! only: deleted data is not in a copy.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;

use rusqlite::Connection;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use super::disk::Disk;
use super::error::database;
use super::guard::least_free;
use super::lock::beside;
use super::{connection, schema, space};
use antwort_store::StoreError;

/// A finished backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backup {
    /// Its size.
    pub bytes: u64,
    /// The version of its schema.
    pub schema: i64,
}

/// Copies the database at this path to a file that does not exist yet. A server may use the database meanwhile.
/// Blocks for as long as the disk takes.
pub fn backup(database: &Path, target: &Path, disk: &dyn Disk) -> Result<Backup, StoreError> {
    if !database.exists() {
        return Err(StoreError::Database(format!("there is no database {}", database.display())));
    }
    let source = connection::existing(database)?;
    let schema = schema::version(&source)?;
    let target = std::path::absolute(target).map_err(|error| failed(target, &error))?;
    if fs::symlink_metadata(&target).is_ok() {
        return Err(exists(&target));
    }
    check_room(space::used_bytes(&source).map_err(super::error::database)?, &target, disk)?;
    let part = beside(&target, "part");
    copy(&source, &part)?;
    let published = publish(&part, &target);
    if published.is_err() {
        // An unnamed copy is of no use.
        _ = fs::remove_file(&part);
    }
    published?;
    let bytes = fs::metadata(&target).map_err(|error| failed(&target, &error))?.len();
    Ok(Backup { bytes, schema })
}

/// Whether the file system of this path has room for so many bytes, beside what responses need.
pub(super) fn check_room(needed: u64, target: &Path, disk: &dyn Disk) -> Result<(), StoreError> {
    // The free space is not known: what does not fit fails with an error.
    let Ok(space) = disk.space(folder_of(target)) else { return Ok(()) };
    let least = least_free(space.total);
    if space.available < needed.saturating_add(least) {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        return Err(StoreError::Full(format!(
            "{} MiB are needed in {}, where {} MiB are free, of which {} MiB must stay free",
            mib(needed),
            folder_of(target).display(),
            space.available >> 20,
            mib(least)
        )));
    }
    Ok(())
}

/// Writes a copy under a name that does not exist. All of it is on the disk when this returns; nothing is left if it
/// fails.
pub(super) fn copy(source: &Connection, part: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(part) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(StoreError::Database(format!(
                "{} exists: another copy is being written, or one was cut off; remove it in the latter case",
                part.display()
            )));
        }
        Err(error) => return Err(failed(part, &error)),
    }
    let written = fill(source, part);
    if written.is_err() {
        _ = fs::remove_file(part);
    }
    written
}

fn fill(source: &Connection, part: &Path) -> Result<(), StoreError> {
    let path =
        part.to_str().ok_or_else(|| StoreError::Database(format!("{} is not UTF-8", part.display())))?;
    source.execute("VACUUM INTO ?1", [path]).map_err(database)?;
    File::open(part).and_then(|file| file.sync_all()).map_err(|error| failed(part, &error))?;
    sync_folder(part)
}

/// Renames a copy to its final name, if that is free.
pub(super) fn publish(part: &Path, target: &Path) -> Result<(), StoreError> {
    match rustix::fs::renameat_with(CWD, part, CWD, target, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(exists(target)),
        // Some file systems do not support a rename that fails if the name is taken.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if fs::symlink_metadata(target).is_err() => {
            fs::rename(part, target).map_err(|error| failed(target, &error))?;
        }
        Err(error) => return Err(failed(target, &error.into())),
    }
    sync_folder(target)
}

fn exists(target: &Path) -> StoreError {
    StoreError::Database(format!(
        "{} exists, and no file is overwritten: choose another name",
        target.display()
    ))
}

/// Writes the entries of a file's folder to the disk.
fn sync_folder(path: &Path) -> Result<(), StoreError> {
    let folder = folder_of(path);
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| failed(folder, &error))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn failed(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Database(format!("{}: {error}", path.display()))
}
