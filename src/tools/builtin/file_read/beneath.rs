//! Opens and reads a file beneath a directory. Blocks; nothing here looks at a path but the system.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// A part of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Whole characters.
    pub content: String,
    /// Bytes of the whole file.
    pub size: u64,
    /// Where the file goes on; `None` at its end.
    pub next_offset: Option<u64>,
}

/// Why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadError {
    /// It leads out of the directory, or to something that is no file.
    Outside,
    /// It is inside and cannot be read, because of this.
    Failed(&'static str),
}

/// The longest character of UTF-8.
const MAX_CHAR_BYTES: usize = 4;

/// Reads at most `length` bytes from `offset`; one character at least, if `length` is not 0.
pub(super) fn read(dir: &Dir, path: &Path, offset: u64, length: usize) -> Result<Chunk, ReadError> {
    let mut file = open(dir, path).map_err(|error| problem(&error))?;
    let metadata = file.metadata().map_err(|error| problem(&error))?;
    if metadata.is_dir() {
        return Err(ReadError::Failed("it is a directory"));
    }
    if !metadata.is_file() {
        return Err(ReadError::Outside);
    }
    let mut bytes = Vec::new();
    // Enough to see the first character whole.
    let wanted = (length.max(MAX_CHAR_BYTES) as u64).saturating_add(MAX_CHAR_BYTES as u64);
    let read = match file.seek(SeekFrom::Start(offset)) {
        Ok(_) => file.take(wanted).read_to_end(&mut bytes),
        // Farther than the file system can count: no file goes on there.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(0),
        Err(error) => Err(error),
    };
    read.map_err(|error| problem(&error))?;
    // It may have grown since it was asked for its size.
    let end = if bytes.is_empty() { 0 } else { offset.saturating_add(bytes.len() as u64) };
    let size = metadata.len().max(end);
    chunk(&bytes, offset, length, size)
}

fn open(dir: &Dir, path: &Path) -> io::Result<File> {
    // A pipe would keep us waiting for somebody who writes to it, a terminal would become ours.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    // The empty path is the directory itself.
    dir.open_with(if path.as_os_str().is_empty() { Path::new(".") } else { path }, &options)
}

fn chunk(bytes: &[u8], offset: u64, length: usize, size: u64) -> Result<Chunk, ReadError> {
    let binary = ReadError::Failed("it is not UTF-8 text");
    // An offset within a character means the next one.
    let skipped = if offset == 0 {
        0
    } else {
        bytes.iter().take(MAX_CHAR_BYTES - 1).take_while(|b| **b & 0xC0 == 0x80).count()
    };
    let rest = bytes.get(skipped..).unwrap_or_default();
    let text = match std::str::from_utf8(rest) {
        Ok(text) => text,
        // Cut by us within a character, unless the file ends so.
        Err(error) if error.error_len().is_none() && offset.saturating_add(bytes.len() as u64) < size => rest
            .get(..error.valid_up_to())
            .and_then(|valid| std::str::from_utf8(valid).ok())
            .unwrap_or_default(),
        Err(_) => return Err(binary),
    };
    let first = text.chars().next().map_or(0, char::len_utf8);
    let end = if length == 0 { 0 } else { text.floor_char_boundary(length.min(text.len())).max(first) };
    let content = text.get(..end).unwrap_or_default().to_owned();
    let next = offset.saturating_add((skipped + end) as u64);
    Ok(Chunk { content, size, next_offset: (next < size).then_some(next) })
}

fn problem(error: &io::Error) -> ReadError {
    // What leads out is refused by cap-std itself, and so has no number of the system's. Sockets and devices without
    // a driver cannot be opened at all; links in a circle lead nowhere inside.
    let outside =
        matches!(Errno::from_io_error(error), Some(Errno::XDEV | Errno::LOOP | Errno::NXIO | Errno::NODEV));
    match error.kind() {
        _ if outside => ReadError::Outside,
        ErrorKind::PermissionDenied if error.raw_os_error().is_none() => ReadError::Outside,
        ErrorKind::InvalidInput => ReadError::Outside,
        ErrorKind::PermissionDenied => ReadError::Failed("permission denied"),
        ErrorKind::NotFound | ErrorKind::NotADirectory => ReadError::Failed("no such file"),
        ErrorKind::IsADirectory => ReadError::Failed("it is a directory"),
        _ => ReadError::Failed("input or output failed"),
    }
}
