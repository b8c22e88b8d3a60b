//! The embedded store: one SQLite file, or memory.
//!
//! One thread owns the writing connection and commits in groups (`writer`); reads have connections of their own
//! (`reader`). Writes are in `lifecycle`, `journal`, `conversations` and `approvals`, reads in `read`, `lineage`,
//! `items`, `list` and `conversation_context`; the tables in `migrations/sqlite`. The caller decides when to run [`Store::maintain`].

mod approvals;
mod async_calls;
mod backup;
mod backup_names;
mod cancel;
mod checkpoint_schedule;
mod checkpointer;
mod committer;
mod connection;
mod conversation_context;
mod conversation_expiry;
mod conversation_items;
mod conversation_store;
mod conversations;
mod copy_side;
mod copy_tables;
mod deleted_keys;
mod disk;
mod erasure;
mod error;
mod event_log;
mod event_log_sweep;
mod expiry;
mod failed_requests;
mod guard;
mod idempotency;
mod inline_commit;
mod item_ids;
mod item_states;
mod items;
mod job_claims;
mod job_queue;
mod jobs;
mod journal;
mod keys;
mod lifecycle;
mod lineage;
mod list;
mod lock;
mod logged_rows;
mod logged_runs;
mod maintenance;
mod migrate;
mod migrations;
mod options;
mod orphans;
mod outbox;
mod outbox_store;
mod owners;
mod pending_call_store;
mod pending_calls;
mod queue;
mod read;
mod reader;
mod retention;
mod rounds;
mod rows;
mod running;
mod schema;
mod share_trim;
mod space;
mod tenant_conversations;
mod tenants;
mod texts;
mod write;
mod writer;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rusqlite::Connection;
use tokio::sync::Mutex;

pub use self::backup::{Backup, backup};
pub use self::copy_side::SqliteSide;
pub use self::disk::{Disk, DiskSpace, FileSystem};
pub use self::lock::{LockError, ServerLock};
pub use self::migrate::{MigrateOptions, Migrated, migrate};
pub use self::migrations::{Migration, Migrations};
pub use self::options::{Location, SqliteOptions, Synchronous};
pub use self::schema::Schema;
pub use antwort_store::TenantRetention;

use self::committer::WaitPolicy;
use self::guard::{FileGuard, GuardOptions};
use self::reader::{Pool, ReadKind, Readers};
use self::rounds::Rounds;
use self::writer::Writer;
use antwort_identity::Requester;
use antwort_protocol::id::Id;
use antwort_protocol::item::Item;
use antwort_store::conversations::ConversationLocks;
use antwort_store::health::StoreHealth;
use antwort_store::operation::{ClaimRequest, EraseRequest, Write, WriteOutcome};
use antwort_store::row_policy::{RowPolicy, now};
use antwort_store::{
    ApprovalClaim, Approvals, CallOutcome, CancelRequest, ClaimOutcome, ErasedCounts, ErasureTarget,
    ItemWithState, Lineage, OrphanedRun, Owner, Page, PageRequest, PendingApproval, ReadLimit,
    ResponseFilter, ResponseRecord, ResponseStore, RunLog, RunRegistration, RunRegistry, RunsInFlight,
    StateKey, Store, StoreError, TurnRecord,
};

/// The timeout of a readiness check.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// How often it is checked whether responses can be stored again.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A store in SQLite.
pub struct SqliteStore {
    writer: Writer,
    waits: WaitPolicy,
    readers: Readers,
    policy: Arc<RowPolicy>,
    runs: RunRegistry,
    conversation_locks: ConversationLocks,
    /// Held by an erasure, which ends with a checkpoint.
    erasing: Mutex<()>,
    rounds: Rounds,
    health: Arc<StoreHealth>,
    /// When it was last checked whether responses can be stored again.
    looked_at: Mutex<Option<Instant>>,
}

impl SqliteStore {
    /// Opens or creates the database. The runs that an earlier process of this name left are orphans from then on.
    /// Blocks for some milliseconds. On a full disk the reserve of an earlier process is released for this. A file of
    /// an earlier version is refused: [`migrate()`] brings it up to date.
    pub fn open(options: SqliteOptions) -> Result<Self, StoreError> {
        match (Self::try_open(options.clone()), &options.location) {
            (Err(StoreError::Full(_)), Location::File(path))
                if disk::remove_reserve(&guard::reserve_of(path)) =>
            {
                Self::try_open(options)
            }
            (done, _) => done,
        }
    }

    fn try_open(options: SqliteOptions) -> Result<Self, StoreError> {
        let mut connection = connection::writer(&options.location, options.synchronous, options.max_pages)?;
        options.migrations.create_or_check(&mut connection, &options.location)?;
        let policy = Arc::new(retention::policy(&options));
        let conversation_locks = ConversationLocks::default();
        let rounds = Rounds::new(&options, conversation_locks.clone());
        orphans::release_left(&connection, &policy)?;
        let runs = RunRegistry::default();
        let health = Arc::new(StoreHealth::default());
        let (guard_options, readers) = match &options.location {
            Location::Memory => (None, Readers::OnWriter),
            Location::File(path) => {
                let guard_options =
                    GuardOptions { path: path.clone(), disk: options.disk, reserve: options.reserve };
                (Some(guard_options), Readers::Pool(Pool::new(path.clone(), &options.requesters)))
            }
        };
        let mut guard = FileGuard::new(guard_options, Arc::clone(&health));
        // A server also starts on a full disk: stored responses can be read and deleted.
        guard.measure(&connection);
        let log = (&options.location, options.synchronous);
        let waits = WaitPolicy { timeout: options.outage_timeout, is_over: Arc::default() };
        let writer =
            Writer::start(connection, log, (Arc::clone(&policy), runs.clone()), guard, waits.clone())?;
        let looked_at = Mutex::new(None);
        Ok(Self {
            writer,
            waits,
            readers,
            policy,
            runs,
            conversation_locks,
            erasing: Mutex::default(),
            rounds,
            health,
            looked_at,
        })
    }

    async fn read<T: Send + 'static>(
        &self,
        length: ReadKind,
        owner: &Owner,
        job: impl FnOnce(&Connection, &Owner) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.readers.read(&self.writer, length, owner, job).await
    }
}

#[async_trait]
impl ResponseStore for SqliteStore {
    async fn response(
        &self,
        owner: &Owner,
        id: &str,
        max_bytes: u64,
    ) -> Result<Option<Arc<str>>, StoreError> {
        let id = id.to_owned();
        let read =
            move |connection: &Connection, owner: &Owner| read::response(connection, owner, &id, max_bytes);
        self.read(ReadKind::Point, owner, read).await
    }

    async fn delete(&self, owner: &Owner, id: &str) -> Result<bool, StoreError> {
        let outcome = self.writer.write(Write::Delete(owner.clone(), id.to_owned())).await?;
        Ok(outcome == WriteOutcome::Changed)
    }

    async fn lineage(
        &self,
        owner: &Owner,
        id: &str,
        limit: ReadLimit,
    ) -> Result<Option<Lineage>, StoreError> {
        let (id, conversations) = (id.to_owned(), self.policy.conversations.of(&owner.tenant));
        self.read(ReadKind::Long, owner, move |connection, owner| {
            lineage::lineage(connection, owner, &id, limit, conversations)
        })
        .await
    }

    async fn items(
        &self,
        owner: &Owner,
        ids: &[Id],
        limit: ReadLimit,
    ) -> Result<Vec<Option<Item>>, StoreError> {
        let ids = ids.to_owned();
        self.read(ReadKind::Long, owner, move |connection, owner| {
            items::items(connection, owner, &ids, limit)
        })
        .await
    }

    async fn provider_states(
        &self,
        owner: &Owner,
        keys: &[StateKey],
        limit: ReadLimit,
    ) -> Result<Vec<Vec<ItemWithState>>, StoreError> {
        let keys = keys.to_owned();
        self.read(ReadKind::Long, owner, move |connection, owner| {
            item_states::provider_states(connection, owner, &keys, limit)
        })
        .await
    }

    async fn input_items(
        &self,
        owner: &Owner,
        id: &str,
        page: &PageRequest,
    ) -> Result<Option<Page>, StoreError> {
        let (id, page) = (id.to_owned(), page.clone());
        self.read(ReadKind::Long, owner, move |connection, owner| {
            list::input_items(connection, owner, &id, &page)
        })
        .await
    }

    async fn responses(
        &self,
        owner: &Owner,
        page: &PageRequest,
        filter: &ResponseFilter,
    ) -> Result<Page, StoreError> {
        let (page, filter) = (page.clone(), filter.clone());
        self.read(ReadKind::Long, owner, move |connection, owner| {
            list::responses(connection, owner, &page, &filter)
        })
        .await
    }

    async fn traces(&self, owner: &Owner, ids: &[Id]) -> Result<Vec<Option<Arc<str>>>, StoreError> {
        let ids = ids.to_owned();
        self.read(ReadKind::Long, owner, move |connection, owner| read::traces(connection, owner, &ids)).await
    }
}

#[async_trait]
impl RunLog for SqliteStore {
    fn register_run(&self, id: &Id, owner: &Owner) -> RunRegistration {
        self.runs.register(id, owner)
    }

    async fn begin(&self, record: ResponseRecord, state: Option<Arc<[u8]>>) -> Result<(), StoreError> {
        self.writer.write(Write::Begin(record, state)).await?.unless_superseded()
    }

    async fn commit_turn(&self, turn: TurnRecord) -> Result<(), StoreError> {
        // Another process may have taken the response over; then its calls are not this one's to make.
        self.writer.write(Write::Turn(Box::new(turn))).await?.unless_superseded()
    }

    fn record_tool_result(&self, outcome: CallOutcome) {
        self.writer.write_detached(Write::ToolResult(outcome));
    }

    async fn finish(&self, record: ResponseRecord) -> Result<(), StoreError> {
        self.writer.write(Write::Finish(record)).await?.unless_superseded()
    }

    fn record_failed_request(&self, record: ResponseRecord) {
        if self.policy.failed_requests.are_kept() && !self.health.is_impaired() {
            self.writer.write_unless_busy(Write::FailedRequest(Box::new(record)));
        }
    }

    async fn request_cancel(&self, owner: &Owner, id: &Id) -> Result<CancelRequest, StoreError> {
        Ok(self.writer.write(Write::RequestCancel(owner.clone(), id.clone())).await?.into())
    }

    async fn cancelled_runs(&self) -> Result<Vec<Id>, StoreError> {
        let policy = Arc::clone(&self.policy);
        let mut ids = self.writer.run_job(move |connection| cancel::marked(connection, &policy)).await?;
        ids.extend(self.runs.deleted());
        Ok(ids)
    }

    async fn take_orphaned(&self, limit: usize) -> Result<Vec<OrphanedRun>, StoreError> {
        let policy = Arc::clone(&self.policy);
        self.writer.run_job(move |connection| orphans::take(connection, &policy, limit)).await
    }
}

#[async_trait]
impl Approvals for SqliteStore {
    async fn add_approvals(&self, pending: Vec<PendingApproval>) -> Result<(), StoreError> {
        self.writer.write(Write::AddApprovals(pending)).await.map(drop)
    }

    async fn approvals(
        &self,
        owner: &Owner,
        ids: &[Id],
        by: Option<&Id>,
    ) -> Result<Vec<Option<PendingApproval>>, StoreError> {
        let (ids, by) = (ids.to_owned(), by.cloned());
        let read = move |connection: &Connection, owner: &Owner| {
            approvals::find(connection, owner, &ids, by.as_ref().map(Id::as_str))
        };
        self.read(ReadKind::Long, owner, read).await
    }

    async fn claim_approvals(
        &self,
        owner: &Owner,
        by: &Id,
        claims: Vec<ApprovalClaim>,
        now: i64,
    ) -> Result<ClaimOutcome, StoreError> {
        let request = ClaimRequest { owner: owner.clone(), by: by.clone(), claims, now };
        match self.writer.write(Write::ClaimApprovals(Box::new(request))).await? {
            WriteOutcome::Claimed(claim) => Ok(claim),
            // A claim never ends so; if it did, nothing was granted.
            _ => Ok(ClaimOutcome::Unknown),
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn maintain(&self) -> Result<(), StoreError> {
        self.rounds.run(&self.writer, &self.policy).await
    }

    fn closing(&self) {
        self.waits.is_over.store(true, Ordering::Relaxed);
    }

    async fn erase(&self, target: &ErasureTarget) -> Result<ErasedCounts, StoreError> {
        let _one_at_a_time = self.erasing.lock().await;
        self.rounds.restart(&target.tenant);
        let at = now();
        let mut erased = ErasedCounts::default();
        loop {
            let step = EraseRequest { target: target.clone(), at };
            match self.writer.write(Write::Erase(step)).await? {
                WriteOutcome::Erased { counts, more } => {
                    erased += counts;
                    if !more {
                        break;
                    }
                }
                // A step never ends so.
                _ => break,
            }
        }
        if erased != ErasedCounts::default() {
            self.rounds.restart(&target.tenant);
            self.writer.empty_log().await?;
        }
        Ok(erased)
    }

    async fn ready(&self) -> Result<(), StoreError> {
        tokio::time::timeout(PROBE_TIMEOUT, self.writer.check())
            .await
            .map_err(|_| StoreError::Database("no write was possible for three seconds".to_owned()))?
    }

    fn set_requesters(&self, requesters: &[Requester]) {
        if let Readers::Pool(pool) = &self.readers {
            pool.set_requesters(requesters);
        }
    }

    fn set_runs_in_flight(&self, runs: RunsInFlight) {
        self.writer.set_runs(runs);
    }

    fn is_impaired(&self) -> bool {
        self.health.is_impaired()
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        // Requests that arrive during a check wait for its result.
        let mut looked_at = self.looked_at.lock().await;
        let Some(reason) = self.health.reason() else { return Ok(()) };
        if looked_at.is_some_and(|at| at.elapsed() < RECHECK_INTERVAL) {
            return Err(reason);
        }
        let found = self.ready().await;
        *looked_at = Some(Instant::now());
        found
    }

    async fn close(&self) {
        let policy = Arc::clone(&self.policy);
        let released =
            self.writer.run_job(move |connection| maintenance::release_leases(connection, &policy)).await;
        if let Err(error) = released {
            tracing::warn!(%error, "store: releasing leases failed; other processes end this one's runs when they expire");
        }
        self.readers.close();
        self.writer.close().await;
    }
}
