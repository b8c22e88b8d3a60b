//! Runs that their client may ask for more than once: their idempotency keys, and the log of their events.

use std::sync::Arc;

use async_trait::async_trait;

use super::error::StoreError;
use super::lease::Lease;
use super::responses::ResponseRecord;
use antwort_identity::Owner;
use antwort_protocol::id::Id;

/// The key of a request, which is its owner's.
#[derive(Debug, Clone)]
pub struct IdempotencyKey {
    /// The key as the client sent it.
    pub key: Arc<str>,
    /// Tells requests apart that have the same key.
    pub fingerprint: [u8; 32],
}

/// The response that a key has led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedResponse {
    /// The response's id.
    pub id: Id,
    /// The fingerprint of its request.
    pub fingerprint: [u8; 32],
    /// Whether its run goes on.
    pub is_running: bool,
}

/// What the first request with a key has led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyUse {
    /// A response that is stored, or is being made.
    Response(KeyedResponse),
    /// A response that its owner has deleted since. Only the key is known.
    Deleted {
        /// The fingerprint of its request.
        fingerprint: [u8; 32],
    },
}

impl KeyUse {
    /// The fingerprint of the first request.
    pub fn fingerprint(&self) -> &[u8; 32] {
        match self {
            Self::Response(found) => &found.fingerprint,
            Self::Deleted { fingerprint } => fingerprint,
        }
    }

    /// The response, unless it was deleted.
    pub fn response(self) -> Option<KeyedResponse> {
        match self {
            Self::Response(found) => Some(found),
            Self::Deleted { .. } => None,
        }
    }
}

/// The beginning of a run that its client may come back for: it has an idempotency key, a log of its events, or both.
#[derive(Debug, Clone)]
pub struct LoggedRun {
    /// Its key.
    pub key: Option<IdempotencyKey>,
    /// The row of the running response.
    pub record: ResponseRecord,
    /// The state of the run, opaque to the store.
    pub state: Option<Arc<[u8]>>,
    /// The events up to this state, if they are logged.
    pub events: Option<LoggedEvents>,
}

/// Events that follow one another, encoded for the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedEvents {
    /// The sequence number of the first event.
    pub first: u64,
    /// The sequence number of the last event.
    pub last: u64,
    /// The events.
    pub bytes: Vec<u8>,
}

/// How the log of a response ends.
#[derive(Debug, Clone)]
pub struct LogEnd {
    /// Events with this sequence number and later ones are removed from the log before.
    pub keep_below: Option<u64>,
    /// The last events, with the terminal event.
    pub events: Option<LoggedEvents>,
    /// Whether the response is kept as long as its log only, see [`ResponseRecord::is_unlisted`].
    pub is_unlisted: bool,
}

/// What is known of the log of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogState {
    /// Whether the run was going on when this was read.
    pub is_running: bool,
    /// What there is of its log.
    pub log: LogKept,
}

/// What there is of the log of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKept {
    /// It never had one.
    Never,
    /// It had one, which has expired or was given up.
    Gone,
    /// It can be read.
    Kept(LogExtent),
}

/// How far a log goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogExtent {
    /// The sequence number of the event behind those that the run was begun with.
    pub begun: u64,
    /// The sequence number of the event behind the last one.
    pub next: u64,
    /// Events from this number on are others than those that were logged first ([`LogEnd::keep_below`]).
    pub replaced_from: Option<u64>,
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    /// The sequence number of the first of these events, at most the one that was asked for.
    pub first: u64,
    /// Events, with the one that was asked for; empty if there are none yet.
    pub bytes: Vec<u8>,
    /// The sequence number of the event behind them.
    pub next: u64,
    /// Whether the last of them is the terminal event.
    pub is_end: bool,
    /// Whether the run was going on when the log was read.
    pub is_running: bool,
    /// Whether this process had its lease then.
    pub is_own: bool,
    /// As in [`LogExtent`].
    pub replaced_from: Option<u64>,
}

/// Idempotency keys: a key and the row of its response are written, and expire, together. A key outlives a response that is
/// deleted by its owner, but not one that is erased.
#[async_trait]
pub trait IdempotencyKeys: Send + Sync {
    /// What this key of the owner has led to, unless the key has expired.
    async fn key_use(&self, owner: &Owner, key: &str) -> Result<Option<KeyUse>, StoreError>;

    /// The response that this key of the owner has led to, unless the key has expired, or the response was deleted.
    async fn keyed_response(&self, owner: &Owner, key: &str) -> Result<Option<KeyedResponse>, StoreError> {
        Ok(self.key_use(owner, key).await?.and_then(KeyUse::response))
    }

    /// Writes the row of a running response, with its key and its first events, in one commit. If the key has led to a
    /// response already, nothing is written, and that is returned. The write happens even if the future is dropped, once
    /// it was polled and the queue had room.
    async fn begin_logged(&self, run: LoggedRun) -> Result<Option<KeyUse>, StoreError>;

    /// Deletes the row of a running response with its key and its log, as if it had never been begun. Returns whether there
    /// was one that its owner had not deleted before.
    async fn withdraw(&self, lease: Lease) -> Result<bool, StoreError>;
}

/// The log of a run's events, from which its stream is sent again. It is kept for a time after the end of the response, and
/// at least as long as the idempotency key.
#[async_trait]
pub trait EventLog: Send + Sync {
    /// Appends events to the log of a running response, and returns when they are committed. Those of a response that was
    /// deleted are dropped.
    async fn log_events(&self, lease: &Lease, events: LoggedEvents) -> Result<(), StoreError>;

    /// Ends a response as [`RunLog::finish`](super::RunLog::finish) does, and its log in the same commit.
    async fn finish_logged(&self, record: ResponseRecord, end: LogEnd) -> Result<(), StoreError>;

    /// Events from this sequence number on, as many as have `max_bytes` together; events that were written together with
    /// the first are there, too. If these alone have more bytes, nothing is read, and the error is
    /// [`StoreError::TooLarge`] with their size. There are none yet of a run that nobody makes at the moment: the last ones
    /// may be replaced. `None` if the owner has no such response, or its log is not kept, or has
    /// no event of this number and will not get one.
    async fn logged_events(
        &self,
        owner: &Owner,
        id: &Id,
        from: u64,
        max_bytes: u64,
    ) -> Result<Option<LogPage>, StoreError>;

    /// Whether the log of a response is kept, and how far it goes; `None` if the owner has no such response.
    async fn log_state(&self, owner: &Owner, id: &Id) -> Result<Option<LogState>, StoreError>;

    /// The state of a running response as it was last committed; `None` if it does not run, or has none.
    async fn run_state(&self, owner: &Owner, id: &Id) -> Result<Option<Arc<[u8]>>, StoreError>;
}
