//! The store that several processes share: a PostgreSQL database.
//!
//! Writes of runs are committed in groups (`writer`); reads and the writes of clients have connections of a small pool.
//! Nothing that a session keeps is relied on outside a transaction, so that poolers may stand between. The caller decides
//! when to run [`Store::maintain`](antwort_store::Store::maintain).

mod approval_store;
mod approvals;
mod async_calls;
mod bus;
mod cancel;
mod clock;
mod connection;
mod conversation_context;
mod conversation_expiry;
mod conversation_items;
mod conversation_locks;
mod conversation_store;
mod conversation_turns;
mod conversations;
mod copy_columns;
mod copy_side;
mod copy_tables;
mod deleted_keys;
mod doubtful_claim;
mod erasure;
mod error;
mod event_log;
mod event_log_sweep;
mod expiry;
mod failed_requests;
mod fast_finish;
mod idempotency;
mod item_ids;
mod item_states;
mod items;
mod job_claims;
mod job_queue;
mod jobs;
mod journal;
mod keys;
mod lifecycle;
mod limits;
mod lineage;
mod link;
mod list;
mod logged_rows;
mod logged_runs;
mod migrate;
mod notifications;
mod options;
mod orphans;
mod outbox;
mod outbox_store;
mod owners;
mod pending_call_store;
mod pending_calls;
mod pending_write;
mod pipeline;
mod pool;
mod postponed;
mod queue;
mod read;
mod removal;
mod response_store;
mod retention;
mod rounds;
mod rows;
mod run_log;
mod running;
mod schema;
mod server_limit;
mod session;
mod startup;
mod taken_runs;
mod takeover_grace;
mod tenant_trim;
mod tenants;
mod texts;
mod tls;
mod transaction;
mod upkeep;
mod url;
mod values;
mod write;
mod writer;

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex as SyncMutex;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::bus::bus;
pub use self::copy_side::PostgresSide;
pub use self::job_claims::{CLAIM_OLDEST, TENANTS_IN_TURN};
pub use self::migrate::{PostgresMigration, migrate, schema_of};
pub use self::options::PostgresOptions;
pub use self::schema::{DatabaseSchema, Migration, Migrations};
pub use self::url::check_url;

use self::conversation_locks::{HeldLocks, Released};
use self::doubtful_claim::DoubtfulClaim;
use self::limits::Limits;
use self::link::Link;
use self::owners::OwnerKeys;
use self::pool::Pool;
use self::postponed::{Postponed, WaitPolicy};
use self::queue::{CAPACITY, Writers};
use self::rounds::Rounds;
use self::startup::{NeededSchema, Startup};
use self::takeover_grace::TakeoverGrace;
use self::url::Target;
use self::writer::Writer;
use antwort_protocol::id::Id;
use antwort_store::health::StoreHealth;
use antwort_store::in_flight::InFlightRows;
use antwort_store::row_policy::RowPolicy;
use antwort_store::{Owner, RunRegistry, StoreError};

/// Connections of the pool to one writer.
const CONNECTIONS_PER_WRITER: usize = 4;
/// With more writers, groups are smaller and commits more.
const MAX_WRITERS: usize = 8;

/// A store in PostgreSQL.
pub struct PostgresStore {
    pool: Pool,
    policy: Arc<RowPolicy>,
    owners: Arc<OwnerKeys>,
    writer: Writers,
    runs: RunRegistry,
    /// The erasures that runs without a row may have begun before.
    erased: SyncMutex<InFlightRows>,
    conversation_locks: HeldLocks,
    /// Claims of jobs that may have been committed although their outcome is not known.
    doubtful_claims: SyncMutex<Vec<DoubtfulClaim>>,
    rounds: Rounds,
    takeover_grace: TakeoverGrace,
    waits: WaitPolicy,
    /// Held by an erasure.
    erasing: Mutex<()>,
    health: Arc<StoreHealth>,
    startup: Arc<Startup>,
    /// When it was last checked whether responses can be stored again.
    looked_at: Mutex<Option<Instant>>,
    closed: CancellationToken,
    tasks: TaskTracker,
}

impl PostgresStore {
    /// Opens the database. The runs that an earlier process of this name left are orphans from then on. If the database
    /// cannot be reached, the store is not ready until it can be. A schema that this version cannot use is refused.
    pub async fn open(options: PostgresOptions) -> Result<Self, StoreError> {
        let target = Target::parse(&options.url)?;
        let size = options.pool_size.max(2);
        let writers = (size / CONNECTIONS_PER_WRITER).clamp(1, MAX_WRITERS);
        let limits = Limits::new(options.statement_timeout, options.lease);
        let (prepares, tasks) = (options.prepared_statements, TaskTracker::new());
        let pool = Pool::new(target, size - writers, limits, prepares, tasks.clone())?;
        let policy = Arc::new(options.policy());
        let closed = CancellationToken::new();
        let (startup, health) = (Arc::new(Startup::new()), Arc::new(StoreHealth::default()));
        let schema = NeededSchema { migrations: options.migrations, migrate: options.migrate };
        let takeover_grace = TakeoverGrace::new(options.lease);
        match startup.attempt(&pool, &policy, schema).await {
            Ok(()) => {}
            Err(refused @ StoreError::Schema(_)) => return Err(refused),
            Err(error) => {
                tracing::warn!(%error, "store: the database cannot be reached; the gateway is not ready until it can");
                health.impair(&error);
                takeover_grace.unreachable();
                let (pool, policy) = (pool.clone(), Arc::clone(&policy));
                let startup = Arc::clone(&startup);
                tasks.spawn(startup.wait(pool, policy, schema, closed.clone()));
            }
        }
        let (conversation_locks, dropped) = HeldLocks::new();
        tasks.spawn(closed.clone().run_until_cancelled_owned(release_locks(pool.clone(), dropped)));
        let runs = RunRegistry::default();
        let owners = Arc::new(OwnerKeys::new());
        let link = || Link::new(pool.clone(), Arc::clone(&owners), Arc::clone(&health), Arc::clone(&startup));
        let waits = WaitPolicy { timeout: options.outage_timeout, is_over: Arc::default() };
        let mut queues = Vec::new();
        for _ in 0..writers {
            let (queue, commands) = mpsc::channel(CAPACITY);
            let in_flight = InFlightRows::new(runs.clone());
            let (policy, locks) = (Arc::clone(&policy), conversation_locks.clone());
            let postponed = Postponed::new(waits.clone());
            let writer = Writer { link: link(), policy, locks, in_flight, postponed };
            tasks.spawn(writer.run(commands));
            queues.push(queue);
        }
        Ok(Self {
            rounds: Rounds::new(&options),
            takeover_grace,
            waits,
            erased: SyncMutex::new(InFlightRows::new(runs.clone())),
            writer: Writers::new(queues),
            doubtful_claims: SyncMutex::default(),
            erasing: Mutex::default(),
            looked_at: Mutex::default(),
            pool,
            policy,
            owners,
            runs,
            conversation_locks,
            health,
            startup,
            closed,
            tasks,
        })
    }

    /// Whether a run of this owner was deleted or erased before it had a row, so that nothing of it is stored.
    fn is_deleted(&self, owner: &Owner, id: &Id) -> bool {
        self.erased.lock().is_deleted(owner, id)
    }
}

/// Deletes the rows of locks that were dropped, until the store is.
async fn release_locks(pool: Pool, mut dropped: mpsc::UnboundedReceiver<Released>) {
    use self::transaction::{Access, transact};
    let mut locks = Vec::new();
    while dropped.recv_many(&mut locks, CAPACITY).await > 0 {
        let released = transact!(pool, Access::Statement, session => {
            conversation_locks::release(session, &locks).await
        });
        if let Err(error) = released {
            tracing::debug!(%error, "store: a lock of a conversation stays until its time is over");
        }
        locks.clear();
    }
}
