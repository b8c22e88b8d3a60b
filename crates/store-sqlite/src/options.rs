//! How a store in SQLite is opened.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::disk::{Disk, FileSystem};
use super::migrations::Migrations;
use antwort_identity::Requester;
use antwort_store::failed_requests::FailedRequests;
use antwort_store::outage::OUTAGE_TIMEOUT;
use antwort_store::{TenantRetention, TimeToLive};

/// Where the database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// In memory: lost with the store.
    Memory,
    /// In this file, beside which SQLite keeps `-wal` and `-shm`. Its folder must exist.
    File(PathBuf),
}

/// When a commit counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// When the operating system has it: it survives a crash of the process, not of the machine.
    #[default]
    Normal,
    /// When the disk has it.
    Full,
}

impl Synchronous {
    pub(super) fn pragma(self) -> &'static str {
        match self {
            Self::Normal => "NORMAL",
            Self::Full => "FULL",
        }
    }
}

/// How a [`SqliteStore`](super::SqliteStore) is opened.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Where the database is.
    pub location: Location,
    /// When a commit counts as durable.
    pub synchronous: Synchronous,
    /// How long writes of runs wait for a file whose lock another process holds, before the runs fail.
    pub outage_timeout: Duration,
    /// How long a response is kept after it was made or last continued; `None`: until it is deleted.
    pub ttl: Option<Duration>,
    /// How long a conversation is kept after it was last used; absent: as long as a response.
    pub conversation_ttl: Option<TimeToLive>,
    /// How long an idempotency key is kept.
    pub idempotency_ttl: Duration,
    /// How long the events of a response are kept after its end, if they are logged; at least as long as its key.
    pub event_ttl: Duration,
    /// How many rows of requests that failed before their first output a tenant has at most; 0: none.
    pub failed_requests: u32,
    /// Above this many bytes [`Store::maintain`](antwort_store::Store::maintain) deletes the oldest responses. The
    /// write-ahead log comes on top, about 16 MiB as a rule.
    pub max_bytes: Option<u64>,
    /// Tenants that have a retention of their own.
    pub tenants: HashMap<Arc<str>, TenantRetention>,
    /// The name under which this process owns its runs: the same after a restart, and unique among the processes that
    /// use this database.
    pub instance: String,
    /// How long a lease lasts: other processes end this one's runs if it was not renewed for so long. Should span
    /// three or more calls of [`Store::maintain`](antwort_store::Store::maintain).
    pub lease: Duration,
    /// Whether a reserve file beside the database keeps room for deletions and maintenance on a full disk. For
    /// servers.
    pub reserve: bool,
    /// The most pages of 8 KiB that the file may have; further writes fail as on a full disk. `None`: no limit.
    pub max_pages: Option<u32>,
    /// Measures the free space of the disk.
    pub disk: Arc<dyn Disk>,
    /// The configured tenants and keys, among which long reads are shared.
    pub requesters: Vec<Requester>,
    /// Those to the schema that the database must have; a new one gets it.
    pub migrations: Migrations,
}

impl SqliteOptions {
    /// The defaults: no response expires, idempotency keys and events do after 24 hours, no size limit, leases of a minute.
    pub fn new(location: Location, instance: impl Into<String>) -> Self {
        Self {
            location,
            synchronous: Synchronous::default(),
            outage_timeout: OUTAGE_TIMEOUT,
            ttl: None,
            conversation_ttl: None,
            idempotency_ttl: Duration::from_hours(24),
            event_ttl: Duration::from_hours(24),
            failed_requests: FailedRequests::DEFAULT_MAX,
            max_bytes: None,
            tenants: HashMap::new(),
            instance: instance.into(),
            lease: Duration::from_secs(60),
            reserve: false,
            max_pages: None,
            disk: Arc::new(FileSystem),
            requesters: Vec::new(),
            migrations: Migrations::of_program(),
        }
    }
}
