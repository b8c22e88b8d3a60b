//! A round of maintenance: what is due, in bounded steps on the writer thread, between which other writes are committed.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;

use super::conversation_expiry::ConversationWalk;
use super::event_log_sweep::LogSweep;
use super::expiry::{self, Walk, Which};
use super::options::SqliteOptions;
use super::share_trim::ShareTrim;
use super::tenants::TenantWalk;
use super::writer::Writer;
use super::{approvals, conversation_expiry, idempotency, maintenance, owners};
use antwort_store::StoreError;
use antwort_store::TenantRetention;
use antwort_store::conversations::ConversationLocks;
use antwort_store::retention::millis;
use antwort_store::round_parts::RoundParts;
use antwort_store::row_policy::RowPolicy;

/// How far each part of maintenance has come; the next round goes on from there.
pub(super) struct Rounds {
    /// What bounds the size of the database.
    trim: Option<Arc<Mutex<ShareTrim>>>,
    /// The walks that delete expired rows.
    walks: Vec<(Which, Arc<Mutex<Walk>>)>,
    /// The same for tenants that have a retention of their own.
    tenants: Vec<Arc<Mutex<TenantWalk>>>,
    logs: Arc<Mutex<LogSweep>>,
    conversations: Arc<Mutex<ConversationWalk>>,
    /// Conversations in which runs go on.
    locks: ConversationLocks,
    /// The last owner that was looked at.
    owner: Arc<Mutex<i64>>,
}

impl Rounds {
    pub(super) fn new(options: &SqliteOptions, locks: ConversationLocks) -> Self {
        let older = options.ttl.map(|ttl| Which::Older(millis(ttl)));
        let walks = older.into_iter().chain([Which::All]).map(|which| (which, Arc::default())).collect();
        let walk_of = |(tenant, own): (&Arc<str>, &TenantRetention)| {
            let walk =
                TenantWalk::new(Arc::clone(tenant), own.ttl.map(millis), own.max_bytes, locks.clone())?;
            Some(Arc::new(Mutex::new(walk)))
        };
        let tenants = options.tenants.iter().filter_map(walk_of).collect();
        let trim = |max_bytes| Arc::new(Mutex::new(ShareTrim::new(max_bytes, locks.clone())));
        Self {
            trim: options.max_bytes.map(trim),
            walks,
            tenants,
            logs: Arc::default(),
            conversations: Arc::default(),
            locks,
            owner: Arc::default(),
        }
    }

    /// One round.
    pub(super) async fn run(&self, writer: &Writer, policy: &Arc<RowPolicy>) -> Result<(), StoreError> {
        let renewed = Arc::clone(policy);
        let renew = move |connection: &mut Connection| {
            maintenance::renew_leases(connection, &renewed).map(|()| false)
        };
        let mut parts = RoundParts::default();
        parts.add("leases", all(writer, renew).await);
        for (which, walk) in &self.walks {
            let which = *which;
            walk.lock().begin_round(which);
            let work = step(walk, move |walk: &mut Walk, connection| walk.step(connection, which));
            parts.add("expired responses", all(writer, work).await);
        }
        parts.add("expired responses that are not stored", all(writer, expiry::delete_unlisted).await);
        for walk in &self.tenants {
            walk.lock().begin_round();
            parts.add("a tenant's retention", all(writer, step(walk, TenantWalk::step)).await);
        }
        parts.add("expired approvals", all(writer, approvals::delete_expired).await);
        parts.add("expired idempotency keys", all(writer, idempotency::delete_expired).await);
        self.logs.lock().begin_round();
        parts.add("event logs", all(writer, step(&self.logs, LogSweep::step)).await);
        self.conversations.lock().begin_round();
        let work = step(&self.conversations, self.expire_conversations(policy));
        parts.add("expired conversations", all(writer, work).await);
        parts.add("owners", all(writer, step(&self.owner, forget_owners)).await);
        if let Some(trim) = &self.trim {
            parts.add("the size of the database", all(writer, step(trim, ShareTrim::step)).await);
        }
        parts.end().and(writer.check().await)
    }

    /// Deletes conversations that have expired.
    fn expire_conversations(
        &self,
        policy: &Arc<RowPolicy>,
    ) -> impl FnMut(&mut ConversationWalk, &mut Connection) -> Result<bool, StoreError> + Clone + Send + use<>
    {
        let (policy, locks) = (Arc::clone(policy), self.locks.clone());
        move |walk, connection| conversation_expiry::step(connection, &policy.conversations, &locks, walk)
    }

    /// Begins the walk over a tenant's rows anew: what it has added up is not there any more.
    pub(super) fn restart(&self, tenant: &str) {
        for walk in &self.tenants {
            walk.lock().restart(tenant);
        }
    }
}

/// Makes steps of a part, until there is nothing more to do.
async fn all(
    writer: &Writer,
    step: impl FnMut(&mut Connection) -> Result<bool, StoreError> + Clone + Send + 'static,
) -> Result<(), StoreError> {
    while writer.maintain(step.clone()).await? {}
    Ok(())
}

/// One step on the writer thread of what is shared with it.
fn step<T: Send + 'static>(
    shared: &Arc<Mutex<T>>,
    mut work: impl FnMut(&mut T, &mut Connection) -> Result<bool, StoreError> + Clone + Send + 'static,
) -> impl FnMut(&mut Connection) -> Result<bool, StoreError> + Clone + Send + 'static {
    let shared = Arc::clone(shared);
    move |connection| work(&mut shared.lock(), connection)
}

/// Forgets some owners that have nothing stored any more.
fn forget_owners(looked_at: &mut i64, connection: &mut Connection) -> Result<bool, StoreError> {
    *looked_at = owners::forget_unused(connection, *looked_at)?.unwrap_or(0);
    Ok(false)
}
