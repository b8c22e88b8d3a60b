//! A connection, its prepared statements, and what has become of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_postgres::{Client, Statement};

use super::error::Cause;
use super::limits::Limits;

/// An open connection.
pub(super) struct Connection {
    pub client: Client,
    /// `None`: statements are not prepared.
    pub statements: Option<Statements>,
    pub limits: Limits,
    /// When a statement was last sent.
    pub sent: Mutex<Instant>,
    /// Whether the server ends a statement at the limit that stands alone.
    pub(crate) is_limited: bool,
    pub(crate) fate: Fate,
}

/// Statements that the server has parsed on a connection, by the address of their text: all are constants.
#[derive(Default)]
pub(super) struct Statements(Mutex<HashMap<(usize, usize), Statement>>);

impl Statements {
    pub(super) fn get(&self, sql: &'static str) -> Option<Statement> {
        self.0.lock().get(&key(sql)).cloned()
    }

    pub(super) fn add(&self, sql: &'static str, statement: Statement) {
        self.0.lock().insert(key(sql), statement);
    }
}

fn key(sql: &'static str) -> (usize, usize) {
    (sql.as_ptr().addr(), sql.len())
}

/// What the statements of a connection have come to.
#[derive(Default)]
pub(super) struct Fate(AtomicU8);

const WELL: u8 = 0;
const FAILED: u8 = 1;
const CONFLICT: u8 = 2;
const FULL: u8 = 3;
const WAITING: u8 = 4;
const LOST: u8 = 5;

impl Fate {
    /// A statement is sent. If nobody waits for its end, the connection is not used again.
    pub(super) fn begin(&self) {
        _ = self.0.compare_exchange(WELL, WAITING, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        _ = self.0.compare_exchange(WAITING, WELL, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn note(&self, cause: Cause) {
        let noted = match cause {
            Cause::Statement => FAILED,
            Cause::Conflict => CONFLICT,
            Cause::Room => FULL,
            Cause::Connection => LOST,
        };
        self.0.fetch_max(noted, Ordering::Relaxed);
    }

    /// The cause of the last failure; `None` if nothing has failed since.
    pub(super) fn cause(&self) -> Option<Cause> {
        match self.0.load(Ordering::Relaxed) {
            WELL => None,
            FAILED => Some(Cause::Statement),
            CONFLICT => Some(Cause::Conflict),
            FULL => Some(Cause::Room),
            _ => Some(Cause::Connection),
        }
    }

    /// What has failed is over: a transaction that was rolled back, or a statement alone.
    pub(super) fn forgive(&self) {
        if self.cause() != Some(Cause::Connection) {
            self.0.store(WELL, Ordering::Relaxed);
        }
    }
}
