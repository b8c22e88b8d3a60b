//! Maps SQLite's errors to messages that say what an operator can do.

use rusqlite::ErrorCode;

use antwort_store::StoreError;

/// The error of a failed statement.
#[expect(clippy::needless_pass_by_value, reason = "it stands in `map_err`")]
pub(super) fn database(error: rusqlite::Error) -> StoreError {
    match error {
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..) => StoreError::Corrupt(error.to_string()),
        _ if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => StoreError::Timeout,
        _ if is_locked(&error) => {
            StoreError::Unavailable(format!("another process holds its lock (SQLite: {error})"))
        }
        _ if is_full(&error) => {
            StoreError::Full(format!("free some space, or delete responses (SQLite: {error})"))
        }
        _ => StoreError::Database(match advice(&error) {
            Some(advice) => format!("{advice} (SQLite: {error})"),
            None => error.to_string(),
        }),
    }
}

/// The error of a value that is not what the column must hold; for `?` on column accessors.
pub(super) fn corrupt(error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(error.to_string())
}

/// The error of a store that is closed or whose thread has ended.
pub(super) fn closed() -> StoreError {
    StoreError::Database("it has been closed".to_owned())
}

/// Whether a single row caused the error, so that the others of its group may succeed without it.
///
/// Anything else (a full disk, a lock, a damaged file) would fail each of them, after its own wait.
pub(super) fn is_of_one_row(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(code) => {
            matches!(code, ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch)
        }
        // Raised by rusqlite before SQLite saw the row: a value that cannot be bound.
        None => true,
    }
}

/// Whether another process holds a lock of the file, for a while perhaps.
fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Whether the disk is full. SQLite reports this for its files, but not for the log's index, which only fails to
/// grow.
fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || error
            .sqlite_error()
            .is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

fn advice(error: &rusqlite::Error) -> Option<&'static str> {
    Some(match error.sqlite_error_code()? {
        ErrorCode::ReadOnly => "the file, or the folder it is in, is read-only",
        ErrorCode::PermissionDenied | ErrorCode::CannotOpen => {
            "the file cannot be opened: check its path and its owner"
        }
        ErrorCode::SystemIoFailure => "the disk failed to read or write",
        ErrorCode::NotADatabase => "the file is not a SQLite database: choose another path",
        ErrorCode::DatabaseCorrupt => "the file is damaged: restore a backup, or move it away",
        _ => return None,
    })
}
