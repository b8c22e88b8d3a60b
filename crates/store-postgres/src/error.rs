//! Maps PostgreSQL's errors to what an operator can do, and to what the store does next.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use antwort_store::StoreError;

/// What the failure of a statement means for what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// This statement alone: the next one may succeed.
    Statement,
    /// Two transactions were in each other's way: the same one may succeed now.
    Conflict,
    /// The connection is of no more use. Whether a commit under way was made is unknown.
    Connection,
    /// There is no room.
    Room,
}

/// What an error means.
pub(super) fn cause(error: &Error) -> Cause {
    let Some(state) = error.code() else {
        // Without a state it is not the server's: a value that cannot be sent, or the connection.
        return if error.is_closed() || is_io(error) { Cause::Connection } else { Cause::Statement };
    };
    match *state {
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => Cause::Conflict,
        // This process was stopped, and the server has rolled back: the outcome is known, and another connection may do.
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Cause::Conflict,
        SqlState::DISK_FULL | SqlState::CONFIGURATION_LIMIT_EXCEEDED => Cause::Room,
        // A server that became a standby, or a pooler that hands statements to another server.
        SqlState::READ_ONLY_SQL_TRANSACTION
        | SqlState::INVALID_SQL_STATEMENT_NAME
        | SqlState::DUPLICATE_PSTATEMENT
        | SqlState::TOO_MANY_CONNECTIONS => Cause::Connection,
        // The plan of a statement is of the tables before a migration.
        SqlState::FEATURE_NOT_SUPPORTED => Cause::Connection,
        SqlState::QUERY_CANCELED => Cause::Statement,
        _ => match state.code().get(..2) {
            Some("08" | "57" | "58" | "28") => Cause::Connection,
            _ => Cause::Statement,
        },
    }
}

fn is_io(error: &Error) -> bool {
    error.source().is_some_and(|source| source.is::<std::io::Error>())
}

/// The error of a failed statement or connection.
pub(super) fn database(error: &Error) -> StoreError {
    let failed = match cause(error) {
        Cause::Connection => StoreError::Unavailable,
        Cause::Statement | Cause::Conflict | Cause::Room => StoreError::Database,
    };
    match error.code() {
        Some(&SqlState::QUERY_CANCELED | &SqlState::LOCK_NOT_AVAILABLE) => StoreError::Timeout,
        Some(_) if cause(error) == Cause::Room => {
            StoreError::Full(format!("free some space on the database's server ({})", text(error)))
        }
        Some(state) => failed(match advice(state) {
            Some(advice) => format!("{advice} (PostgreSQL: {})", text(error)),
            None => text(error),
        }),
        None => failed(text(error)),
    }
}

/// The error with its causes, in one line. None of them has the password.
fn text(error: &Error) -> String {
    if let Some(error) = error.as_db_error() {
        return format!("{} [{}]", error.message(), error.code().code());
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

fn advice(state: &SqlState) -> Option<&'static str> {
    Some(match *state {
        SqlState::INVALID_PASSWORD => "the server refuses the user or the password: check store.url",
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "the server does not let this user in this way: check the user and `sslmode` in store.url"
        }
        SqlState::INVALID_CATALOG_NAME => "there is no such database: create it, or check store.url",
        SqlState::INSUFFICIENT_PRIVILEGE => "the user may not do that: it needs to own the tables",
        SqlState::TOO_MANY_CONNECTIONS => {
            "the server has no connection left: lower store.pool_size, or raise its max_connections"
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "the server is a standby, or read-only: let store.url lead to the primary"
        }
        SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PSTATEMENT => {
            "prepared statements are lost on the way: set store.prepared_statements to false behind this pooler"
        }
        SqlState::UNDEFINED_TABLE | SqlState::UNDEFINED_COLUMN => {
            "the schema is not what it should be: run `antwort store migrate --check`"
        }
        _ => return None,
    })
}

/// Whether a pooler refuses a connection for an option that it does not know.
pub(super) fn is_refused_option(error: &Error) -> bool {
    error.code() == Some(&SqlState::PROTOCOL_VIOLATION)
}

/// The error of a value that is not what the column must hold.
pub(super) fn corrupt(error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(error.to_string())
}

/// The error of a store that is closed.
pub(super) fn closed() -> StoreError {
    StoreError::Database("it has been closed".to_owned())
}
