//! A store that runs hooks before and after each of its operations: tests count them, stop at one of them, or let one fail.

mod waits;

use std::sync::Arc;
use std::time::Duration;

use antwort::protocol::id::Id;
use antwort::protocol::item::Item;
use antwort::store::{
    AddedItems, ApprovalClaim, Approvals, CallOutcome, CancelRequest, ClaimOutcome, ClaimedJob,
    ConversationContext, ConversationItem, ConversationLock, ConversationRecord, ConversationStore,
    DueNotice, ErasedCounts, ErasureTarget, EventLog, IdempotencyKeys, ItemWithState, JobQueue, JobStats,
    JobTurns, KeyUse, Lease, Lineage, LogEnd, LogPage, LogState, LoggedEvents, LoggedRun, NewJob,
    OrphanedRun, Owner, Page, PageRequest, PendingApproval, ReadLimit, Requeue, ResponseFilter,
    ResponseRecord, ResponseStore, RunLog, RunRegistration, StateKey, Store, StoreError, StoredConversation,
    TurnRecord, WebhookOutbox,
};
use async_trait::async_trait;

/// An operation of the store.
#[derive(Debug, Clone, Default)]
pub struct Operation {
    /// The name of its function.
    pub name: &'static str,
    /// The run that writes, if one does.
    pub run: Option<Id>,
    /// The model of the response whose row is written.
    pub model: Option<String>,
    /// After it: whether it has returned something, if that is an option or a list.
    pub found: bool,
}

impl Operation {
    fn of_run(run: &Id) -> Self {
        Self { run: Some(run.clone()), ..Self::default() }
    }

    fn of_lease(lease: &Lease) -> Self {
        Self::of_run(&lease.id)
    }

    fn of_row(record: &ResponseRecord) -> Self {
        Self { model: Some(record.model.clone()), ..Self::of_lease(&record.lease) }
    }

    fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }
}

/// What happens around the operations. Those that nobody waits for have only [`Self::allows`]; a claimed run that is not allowed
/// stays claimed, and nobody makes it.
#[async_trait]
pub trait StoreHooks: Send + Sync + 'static {
    /// Before an operation. An error is what comes of it.
    async fn before(&self, _operation: &Operation) -> Result<(), StoreError> {
        Ok(())
    }

    /// After an operation that has succeeded. An error is what its caller sees.
    async fn after(&self, _operation: &Operation) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether an operation takes place that nobody waits for.
    fn allows(&self, _operation: &Operation) -> bool {
        true
    }
}

/// The store.
pub struct HookedStore {
    inner: Arc<dyn Store>,
    hooks: Arc<dyn StoreHooks>,
}

impl HookedStore {
    /// This store, with these hooks.
    pub fn new(inner: Arc<dyn Store>, hooks: Arc<dyn StoreHooks>) -> Arc<Self> {
        Arc::new(Self { inner, hooks })
    }
}

macro_rules! forward {
    ($store:ident, $operation:expr, $name:ident($($argument:expr),*)) => {
        forward!($store, $operation, $name($($argument),*), |_| true)
    };
    ($store:ident, $operation:expr, $name:ident($($argument:expr),*), $found:expr) => {{
        let mut operation = $operation.named(stringify!($name));
        $store.hooks.before(&operation).await?;
        let done = $store.inner.$name($($argument),*).await?;
        operation.found = $found(&done);
        $store.hooks.after(&operation).await?;
        Ok(done)
    }};
}
use forward;

#[async_trait]
impl RunLog for HookedStore {
    fn register_run(&self, id: &Id, owner: &Owner) -> RunRegistration {
        self.inner.register_run(id, owner)
    }

    async fn begin(&self, record: ResponseRecord, state: Option<Arc<[u8]>>) -> Result<(), StoreError> {
        forward!(self, Operation::of_row(&record), begin(record, state))
    }

    async fn commit_turn(&self, turn: TurnRecord) -> Result<(), StoreError> {
        forward!(self, Operation::of_lease(&turn.lease), commit_turn(turn))
    }

    fn record_tool_result(&self, outcome: CallOutcome) {
        if self.hooks.allows(&Operation::of_lease(&outcome.lease).named("record_tool_result")) {
            self.inner.record_tool_result(outcome);
        }
    }

    async fn finish(&self, record: ResponseRecord) -> Result<(), StoreError> {
        forward!(self, Operation::of_row(&record), finish(record))
    }

    fn record_failed_request(&self, record: ResponseRecord) {
        if self.hooks.allows(&Operation::of_row(&record).named("record_failed_request")) {
            self.inner.record_failed_request(record);
        }
    }

    async fn request_cancel(&self, owner: &Owner, id: &Id) -> Result<CancelRequest, StoreError> {
        forward!(self, Operation::default(), request_cancel(owner, id))
    }

    async fn cancelled_runs(&self) -> Result<Vec<Id>, StoreError> {
        forward!(self, Operation::default(), cancelled_runs())
    }

    async fn take_orphaned(&self, limit: usize) -> Result<Vec<OrphanedRun>, StoreError> {
        forward!(self, Operation::default(), take_orphaned(limit))
    }
}

#[async_trait]
impl IdempotencyKeys for HookedStore {
    async fn key_use(&self, owner: &Owner, key: &str) -> Result<Option<KeyUse>, StoreError> {
        forward!(self, Operation::default(), key_use(owner, key))
    }

    async fn begin_logged(&self, run: LoggedRun) -> Result<Option<KeyUse>, StoreError> {
        forward!(self, Operation::of_row(&run.record), begin_logged(run))
    }

    async fn withdraw(&self, lease: Lease) -> Result<bool, StoreError> {
        forward!(self, Operation::of_lease(&lease), withdraw(lease))
    }
}

#[async_trait]
impl JobQueue for HookedStore {
    async fn enqueue(&self, job: NewJob) -> Result<Option<KeyUse>, StoreError> {
        forward!(self, Operation::of_row(&job.run.record), enqueue(job))
    }

    async fn claim_in_turn(&self, turns: JobTurns) -> Result<Vec<ClaimedJob>, StoreError> {
        let claimed: Result<Vec<_>, StoreError> =
            forward!(self, Operation::default(), claim_in_turn(turns), |claimed: &Vec<_>| !claimed
                .is_empty());
        let is_allowed =
            |job: &ClaimedJob| self.hooks.allows(&Operation::of_lease(&job.run.lease).named("claim_in_turn"));
        claimed.map(|claimed| claimed.into_iter().filter(is_allowed).collect())
    }

    async fn claim_job(&self, owner: &Owner, id: &Id) -> Result<Option<ClaimedJob>, StoreError> {
        forward!(self, Operation::default(), claim_job(owner, id), Option::is_some)
    }

    async fn update_running(&self, record: ResponseRecord) -> Result<(), StoreError> {
        forward!(self, Operation::of_row(&record), update_running(record))
    }

    async fn requeue(&self, lease: Lease, requeue: Requeue) -> Result<(), StoreError> {
        forward!(self, Operation::of_lease(&lease), requeue(lease, requeue))
    }

    async fn claimed_jobs(&self) -> Result<Vec<Lease>, StoreError> {
        forward!(self, Operation::default(), claimed_jobs())
    }

    async fn job_stats(&self) -> Result<JobStats, StoreError> {
        forward!(self, Operation::default(), job_stats())
    }
}

#[async_trait]
impl EventLog for HookedStore {
    async fn log_events(&self, lease: &Lease, events: LoggedEvents) -> Result<(), StoreError> {
        forward!(self, Operation::of_lease(lease), log_events(lease, events))
    }

    async fn finish_logged(&self, record: ResponseRecord, end: LogEnd) -> Result<(), StoreError> {
        forward!(self, Operation::of_row(&record), finish_logged(record, end))
    }

    async fn logged_events(
        &self,
        owner: &Owner,
        id: &Id,
        from: u64,
        max_bytes: u64,
    ) -> Result<Option<LogPage>, StoreError> {
        forward!(self, Operation::default(), logged_events(owner, id, from, max_bytes))
    }

    async fn log_state(&self, owner: &Owner, id: &Id) -> Result<Option<LogState>, StoreError> {
        forward!(self, Operation::default(), log_state(owner, id))
    }

    async fn run_state(&self, owner: &Owner, id: &Id) -> Result<Option<Arc<[u8]>>, StoreError> {
        forward!(self, Operation::default(), run_state(owner, id))
    }
}

#[async_trait]
impl WebhookOutbox for HookedStore {
    async fn take_due_notices(
        &self,
        limit: usize,
        lease: Duration,
        except: &[&str],
    ) -> Result<Vec<DueNotice>, StoreError> {
        forward!(self, Operation::default(), take_due_notices(limit, lease, except))
    }

    async fn remove_notice(&self, notice: &DueNotice) -> Result<(), StoreError> {
        forward!(self, Operation::default(), remove_notice(notice))
    }

    async fn retry_notice(&self, notice: &DueNotice, after: Duration) -> Result<(), StoreError> {
        forward!(self, Operation::default(), retry_notice(notice, after))
    }
}

#[async_trait]
impl ResponseStore for HookedStore {
    async fn response(
        &self,
        owner: &Owner,
        id: &str,
        max_bytes: u64,
    ) -> Result<Option<Arc<str>>, StoreError> {
        forward!(self, Operation::default(), response(owner, id, max_bytes))
    }

    async fn delete(&self, owner: &Owner, id: &str) -> Result<bool, StoreError> {
        forward!(self, Operation::default(), delete(owner, id))
    }

    async fn lineage(
        &self,
        owner: &Owner,
        id: &str,
        limit: ReadLimit,
    ) -> Result<Option<Lineage>, StoreError> {
        forward!(self, Operation::default(), lineage(owner, id, limit))
    }

    async fn items(
        &self,
        owner: &Owner,
        ids: &[Id],
        limit: ReadLimit,
    ) -> Result<Vec<Option<Item>>, StoreError> {
        forward!(self, Operation::default(), items(owner, ids, limit))
    }

    async fn provider_states(
        &self,
        owner: &Owner,
        keys: &[StateKey],
        limit: ReadLimit,
    ) -> Result<Vec<Vec<ItemWithState>>, StoreError> {
        forward!(self, Operation::default(), provider_states(owner, keys, limit))
    }

    async fn input_items(
        &self,
        owner: &Owner,
        id: &str,
        page: &PageRequest,
    ) -> Result<Option<Page>, StoreError> {
        forward!(self, Operation::default(), input_items(owner, id, page))
    }

    async fn traces(&self, owner: &Owner, ids: &[Id]) -> Result<Vec<Option<Arc<str>>>, StoreError> {
        forward!(self, Operation::default(), traces(owner, ids))
    }

    async fn responses(
        &self,
        owner: &Owner,
        page: &PageRequest,
        filter: &ResponseFilter,
    ) -> Result<Page, StoreError> {
        forward!(self, Operation::default(), responses(owner, page, filter))
    }
}

#[async_trait]
impl ConversationStore for HookedStore {
    async fn create_conversation(&self, record: ConversationRecord) -> Result<AddedItems, StoreError> {
        forward!(self, Operation::default(), create_conversation(record))
    }

    async fn conversation(&self, owner: &Owner, id: &str) -> Result<Option<StoredConversation>, StoreError> {
        forward!(self, Operation::default(), conversation(owner, id))
    }

    async fn update_conversation(
        &self,
        owner: &Owner,
        id: &str,
        metadata: Arc<str>,
    ) -> Result<bool, StoreError> {
        forward!(self, Operation::default(), update_conversation(owner, id, metadata))
    }

    async fn delete_conversation(&self, owner: &Owner, id: &str) -> Result<bool, StoreError> {
        forward!(self, Operation::default(), delete_conversation(owner, id))
    }

    async fn add_conversation_items(
        &self,
        owner: &Owner,
        id: &str,
        items: Vec<ConversationItem>,
    ) -> Result<AddedItems, StoreError> {
        forward!(self, Operation::default(), add_conversation_items(owner, id, items))
    }

    async fn conversation_item(
        &self,
        owner: &Owner,
        id: &str,
        item: &str,
        max_bytes: u64,
    ) -> Result<Option<Arc<str>>, StoreError> {
        forward!(self, Operation::default(), conversation_item(owner, id, item, max_bytes))
    }

    async fn delete_conversation_item(
        &self,
        owner: &Owner,
        id: &str,
        item: &str,
    ) -> Result<bool, StoreError> {
        forward!(self, Operation::default(), delete_conversation_item(owner, id, item))
    }

    async fn conversation_items(
        &self,
        owner: &Owner,
        id: &str,
        page: &PageRequest,
    ) -> Result<Option<Page>, StoreError> {
        forward!(self, Operation::default(), conversation_items(owner, id, page))
    }

    async fn conversation_context(
        &self,
        owner: &Owner,
        id: &str,
        limit: ReadLimit,
    ) -> Result<Option<ConversationContext>, StoreError> {
        forward!(self, Operation::default(), conversation_context(owner, id, limit))
    }

    async fn lock_conversation(
        &self,
        owner: &Owner,
        id: &str,
    ) -> Result<Option<ConversationLock>, StoreError> {
        forward!(self, Operation::default(), lock_conversation(owner, id))
    }
}

#[async_trait]
impl Approvals for HookedStore {
    async fn add_approvals(&self, pending: Vec<PendingApproval>) -> Result<(), StoreError> {
        let run = pending.first().map(|approval| Operation::of_run(&approval.response));
        forward!(self, run.unwrap_or_default(), add_approvals(pending))
    }

    async fn approvals(
        &self,
        owner: &Owner,
        ids: &[Id],
        by: Option<&Id>,
    ) -> Result<Vec<Option<PendingApproval>>, StoreError> {
        forward!(self, Operation::default(), approvals(owner, ids, by))
    }

    async fn claim_approvals(
        &self,
        owner: &Owner,
        by: &Id,
        claims: Vec<ApprovalClaim>,
        now: i64,
    ) -> Result<ClaimOutcome, StoreError> {
        forward!(self, Operation::of_run(by), claim_approvals(owner, by, claims, now))
    }
}

#[async_trait]
impl Store for HookedStore {
    async fn maintain(&self) -> Result<(), StoreError> {
        forward!(self, Operation::default(), maintain())
    }

    async fn renew_leases(&self) -> Result<(), StoreError> {
        forward!(self, Operation::default(), renew_leases())
    }

    fn closing(&self) {
        self.inner.closing();
    }

    async fn erase(&self, target: &ErasureTarget) -> Result<ErasedCounts, StoreError> {
        forward!(self, Operation::default(), erase(target))
    }

    async fn ready(&self) -> Result<(), StoreError> {
        forward!(self, Operation::default(), ready())
    }

    fn is_impaired(&self) -> bool {
        self.inner.is_impaired()
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        forward!(self, Operation::default(), check_writable())
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
