//! A round of maintenance: what is due, in bounded steps. Every process of a database makes its own rounds.
//!
//! A round ends long before the leases do that were renewed at its beginning, however much there is to delete: other
//! processes would take over the runs of this one. The next round goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::conversation_expiry::ConversationWalk;
use super::conversation_locks;
use super::event_log_sweep::LogSweep;
use super::expiry::{self, Walk, Which};
use super::options::PostgresOptions;
use super::pool::Pool;
use super::tenants::TenantWalk;
use super::transaction::{Access, transact};
use super::{approvals, idempotency};
use antwort_store::retention::millis;
use antwort_store::round_parts::RoundParts;
use antwort_store::row_policy::RowPolicy;
use antwort_store::{StoreError, TenantRetention};

/// A part of a round takes so much of a lease at most, and a step more.
const PART_DIVISOR: u32 = 20;

/// How far each part of maintenance has come; the next round goes on from there.
pub(super) struct Rounds {
    /// How long this process keeps the walk over a tenant's rows without a round.
    walk_lease: i64,
    state: Mutex<State>,
    /// How long a part may take.
    part: Duration,
}

/// When a part of a round ends.
#[derive(Clone, Copy)]
struct Deadline(Instant);

impl Deadline {
    fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}

struct State {
    /// The walks that delete expired rows.
    walks: Vec<(Which, Walk)>,
    /// The same for tenants that have a retention of their own.
    tenants: Vec<TenantWalk>,
    logs: LogSweep,
    conversations: ConversationWalk,
}

impl Rounds {
    pub(super) fn new(options: &PostgresOptions) -> Self {
        let older = options.ttl.map(|ttl| Which::Older(millis(ttl)));
        let walks = older.into_iter().chain([Which::All]).map(|which| (which, Walk::default())).collect();
        let walk_of = |(tenant, own): (&Arc<str>, &TenantRetention)| {
            TenantWalk::new(Arc::clone(tenant), own.ttl.map(millis), own.max_bytes)
        };
        let tenants = options.tenants.iter().filter_map(walk_of).collect();
        let state =
            State { walks, tenants, logs: LogSweep::default(), conversations: ConversationWalk::default() };
        let part = options.lease / PART_DIVISOR;
        Self { walk_lease: millis(options.lease), state: Mutex::new(state), part }
    }

    /// One round, behind the renewal of leases.
    pub(super) async fn run(&self, pool: &Pool, policy: &RowPolicy) -> Result<(), StoreError> {
        let mut parts = RoundParts::default();
        let mut state = self.state.lock().await;
        parts.add("expired responses", state.expire_responses(pool, self.deadline()).await);
        parts.add("expired responses that are not stored", expire_unlisted(pool, self.deadline()).await);
        state.go_over_tenants(pool, self.walk_lease, self.deadline(), &mut parts).await;
        parts.add("expired approvals", expire_approvals(pool, self.deadline()).await);
        parts.add("expired idempotency keys", expire_keys(pool, self.deadline()).await);
        parts.add("event logs", state.sweep_logs(pool, self.deadline()).await);
        parts.add("expired conversations", state.expire_conversations(pool, policy, self.deadline()).await);
        let swept = transact!(pool, Access::Statement, session => conversation_locks::sweep(session).await);
        parts.add("left conversation locks", swept);
        parts.end()
    }

    fn deadline(&self) -> Deadline {
        Deadline(Instant::now() + self.part)
    }

    /// Begins the walk over a tenant's rows anew: what it has added up is not there any more.
    pub(super) async fn restart(&self, tenant: &str) {
        for walk in &mut self.state.lock().await.tenants {
            walk.restart(tenant);
        }
    }
}

async fn expire_unlisted(pool: &Pool, until: Deadline) -> Result<(), StoreError> {
    while transact!(pool, Access::Write, session => expiry::delete_unlisted(session).await)?
        && !until.is_over()
    {}
    Ok(())
}

async fn expire_approvals(pool: &Pool, until: Deadline) -> Result<(), StoreError> {
    while transact!(pool, Access::Statement, session => approvals::delete_expired(session).await)?
        && !until.is_over()
    {}
    Ok(())
}

async fn expire_keys(pool: &Pool, until: Deadline) -> Result<(), StoreError> {
    while transact!(pool, Access::Write, session => idempotency::delete_expired(session).await)?
        && !until.is_over()
    {}
    Ok(())
}

async fn go_over(walk: &mut TenantWalk, pool: &Pool, lease: i64, until: Deadline) -> Result<(), StoreError> {
    let mut is_more = transact!(pool, Access::Statement, session => walk.begin_round(session, lease).await)?;
    while is_more {
        let step = transact!(pool, Access::Write, session => walk.step(session).await)?;
        is_more = walk.go_on(step) && !until.is_over();
    }
    Ok(())
}

impl State {
    async fn expire_responses(&mut self, pool: &Pool, until: Deadline) -> Result<(), StoreError> {
        for (which, walk) in &mut self.walks {
            walk.begin_round(*which);
            loop {
                let step = transact!(pool, Access::Write, session => walk.step(session, *which).await)?;
                if !walk.go_on(step) || until.is_over() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// What cannot be done for one tenant is no reason to do nothing for the others.
    async fn go_over_tenants(&mut self, pool: &Pool, lease: i64, until: Deadline, parts: &mut RoundParts) {
        for walk in &mut self.tenants {
            parts.add("a tenant's retention", go_over(walk, pool, lease, until).await);
        }
    }

    /// Event logs that are not kept.
    async fn sweep_logs(&mut self, pool: &Pool, until: Deadline) -> Result<(), StoreError> {
        self.logs.begin_round();
        loop {
            let step = transact!(pool, Access::Write, session => self.logs.step(session).await)?;
            if !self.logs.go_on(step) || until.is_over() {
                return Ok(());
            }
        }
    }

    async fn expire_conversations(
        &mut self,
        pool: &Pool,
        policy: &RowPolicy,
        until: Deadline,
    ) -> Result<(), StoreError> {
        self.conversations.begin_round();
        loop {
            let step = transact!(pool, Access::Write, session => {
                self.conversations.step(session, &policy.conversations).await
            })?;
            if !self.conversations.go_on(step) || until.is_over() {
                return Ok(());
            }
        }
    }
}
