//! Opens and reads a file beneath a directory handle. Blocking. Paths are resolved by the operating system only.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// A range of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Text, whole characters.
    pub content: String,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// Offset of the next chunk; `None` at the end of the file.
    pub(crate) next_offset: Option<u64>,
}

/// Why reading failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadError {
    /// The path leaves the directory, or is not a regular file.
    Outside,
    /// The path is inside the directory but cannot be read, for this reason.
    Failed(&'static str),
}

/// Maximum bytes of a UTF-8 character.
const MAX_CHAR_BYTES: usize = 4;

/// Reads at most `length` bytes from `offset`, but at least one character unless `length` is 0.
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
    // Enough to decode the first character.
    let wanted = (length.max(MAX_CHAR_BYTES) as u64).saturating_add(MAX_CHAR_BYTES as u64);
    let read = match file.seek(SeekFrom::Start(offset)) {
        Ok(_) => file.take(wanted).read_to_end(&mut bytes),
        // The offset exceeds what the file system supports: certainly beyond the end.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(0),
        Err(error) => Err(error),
    };
    read.map_err(|error| problem(&error))?;
    // The file may have grown since its size was read.
    let end = if bytes.is_empty() { 0 } else { offset.saturating_add(bytes.len() as u64) };
    let size = metadata.len().max(end);
    chunk(&bytes, offset, length, size)
}

fn open(dir: &Dir, path: &Path) -> io::Result<File> {
    // Opening a pipe would block until it has a writer; opening a terminal could make it our controlling one.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    // An empty path means the directory itself.
    dir.open_with(if path.as_os_str().is_empty() { Path::new(".") } else { path }, &options)
}

fn chunk(bytes: &[u8], offset: u64, length: usize, size: u64) -> Result<Chunk, ReadError> {
    let binary = ReadError::Failed("it is not UTF-8 text");
    // An offset inside a character is moved to the next one.
    let skipped = if offset == 0 {
        0
    } else {
        bytes.iter().take(MAX_CHAR_BYTES - 1).take_while(|b| **b & 0xC0 == 0x80).count()
    };
    let rest = bytes.get(skipped..).unwrap_or_default();
    let text = match std::str::from_utf8(rest) {
        Ok(text) => text,
        // The read ended inside a character, which is an error only at the end of the file.
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
    // cap-std itself refuses paths that leave the directory, so those errors have no errno. Sockets and devices
    // without a driver cannot be opened; circular links do not lead to a file inside.
    let outside =
        matches!(Errno::from_io_error(error), Some(Errno::XDEV | Errno::LOOP | Errno::NXIO | Errno::NODEV));
    match error.kind() {
        _ if outside => ReadError::Outside,
        ErrorKind::PermissionDenied if error.raw_os_error().is_none() => ReadError::Outside,
        ErrorKind::InvalidInput => ReadError::Outside,
        ErrorKind::PermissionDenied => ReadError::Failed("permission denied"),
        ErrorKind::NotFound | ErrorKind::NotADirectory => ReadError::Failed("no such file"),
        ErrorKind::IsADirectory => ReadError::Failed("it is a directory"),
        _ => ReadError::Failed("I/O error"),
    }
}
