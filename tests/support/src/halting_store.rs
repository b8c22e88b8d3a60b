//! A store that halts its run at one point, as a crash of the process would: what came before is in the file, nothing
//! comes after; and one whose reads of chains fail.

mod waits;

use std::collections::VecDeque;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
use antwort_store_sqlite::{Location, SqliteOptions, SqliteStore};
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Where a run halts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// The row was written.
    AfterCreation,
    /// A turn with its calls was committed; none of them is made.
    AfterTurn,
    /// The response is closed, and not committed.
    BeforeFinish,
    /// The response is committed; its terminal event is not sent.
    AfterFinish,
    /// A single background run was claimed; goes on after [`HaltingStore::resume`].
    AfterClaim,
    /// Orphans are looked for while the gateway serves.
    InRecovery,
    /// Nowhere.
    Never,
}

/// What comes of a read of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The database is away.
    Away,
    /// A defect of the gateway.
    Panic,
    /// It takes for ever.
    Hang,
}

/// The store. Halts each run at one point.
pub struct HaltingStore {
    inner: SqliteStore,
    halt: Halt,
    reached: Notify,
    resumed: Notify,
    faults: Mutex<VecDeque<Fault>>,
    maintained: AtomicUsize,
    looks: AtomicUsize,
    loses_claim: AtomicBool,
}

impl HaltingStore {
    /// A store in this file.
    pub fn open(file: &Path, halt: Halt) -> Arc<Self> {
        // So short a lease that the next process need not wait for its end.
        Self::open_with(file, halt, Duration::from_millis(1))
    }

    /// A store in this file with this lease.
    pub fn open_with(file: &Path, halt: Halt, lease: Duration) -> Arc<Self> {
        let options =
            SqliteOptions { lease, ..SqliteOptions::new(Location::File(file.to_owned()), "halting") };
        let inner = SqliteStore::open(options).unwrap();
        Arc::new(Self {
            inner,
            halt,
            reached: Notify::new(),
            resumed: Notify::new(),
            faults: Mutex::default(),
            maintained: AtomicUsize::new(0),
            looks: AtomicUsize::new(0),
            loses_claim: AtomicBool::new(false),
        })
    }

    /// Lets the run go on that is halted behind its claim.
    pub fn resume(&self) {
        self.resumed.notify_one();
    }

    /// What comes of the next reads of chains.
    pub fn fail(&self, faults: &[Fault]) {
        self.faults.lock().extend(faults);
    }

    /// Whether no read has failed as was wanted.
    pub fn has_faults_left(&self) -> bool {
        !self.faults.lock().is_empty()
    }

    /// The answer of the next claim is lost.
    pub fn lose_claim(&self) {
        self.loses_claim.store(true, Ordering::SeqCst);
    }

    /// How often it was maintained.
    pub fn maintained(&self) -> usize {
        self.maintained.load(Ordering::SeqCst)
    }

    /// Resolves when a run has reached the point.
    pub async fn reached(&self) {
        self.reached.notified().await;
    }

    async fn halt_at(&self, point: Halt) {
        if self.halt == point {
            self.reached.notify_one();
            pending::<()>().await;
        }
    }
}

#[async_trait]
impl RunLog for HaltingStore {
    fn register_run(&self, id: &Id, owner: &Owner) -> RunRegistration {
        self.inner.register_run(id, owner)
    }

    async fn begin(&self, record: ResponseRecord, state: Option<Arc<[u8]>>) -> Result<(), StoreError> {
        self.inner.begin(record, state).await?;
        self.halt_at(Halt::AfterCreation).await;
        Ok(())
    }

    async fn commit_turn(&self, turn: TurnRecord) -> Result<(), StoreError> {
        self.inner.commit_turn(turn).await?;
        self.halt_at(Halt::AfterTurn).await;
        Ok(())
    }

    fn record_tool_result(&self, outcome: CallOutcome) {
        self.inner.record_tool_result(outcome);
    }

    async fn finish(&self, record: ResponseRecord) -> Result<(), StoreError> {
        self.halt_at(Halt::BeforeFinish).await;
        self.inner.finish(record).await?;
        self.halt_at(Halt::AfterFinish).await;
        Ok(())
    }

    fn record_failed_request(&self, record: ResponseRecord) {
        self.inner.record_failed_request(record);
    }

    async fn request_cancel(&self, owner: &Owner, id: &Id) -> Result<CancelRequest, StoreError> {
        self.inner.request_cancel(owner, id).await
    }

    async fn cancelled_runs(&self) -> Result<Vec<Id>, StoreError> {
        self.inner.cancelled_runs().await
    }

    async fn take_orphaned(&self, limit: usize) -> Result<Vec<OrphanedRun>, StoreError> {
        // The first look is a part of the start.
        if self.looks.fetch_add(1, Ordering::SeqCst) > 0 {
            self.halt_at(Halt::InRecovery).await;
        }
        self.inner.take_orphaned(limit).await
    }
}

#[async_trait]
impl IdempotencyKeys for HaltingStore {
    async fn key_use(&self, owner: &Owner, key: &str) -> Result<Option<KeyUse>, StoreError> {
        self.inner.key_use(owner, key).await
    }

    async fn begin_logged(&self, run: LoggedRun) -> Result<Option<KeyUse>, StoreError> {
        let begun = self.inner.begin_logged(run).await?;
        self.halt_at(Halt::AfterCreation).await;
        Ok(begun)
    }

    async fn withdraw(&self, lease: Lease) -> Result<bool, StoreError> {
        self.inner.withdraw(lease).await
    }
}

#[async_trait]
impl JobQueue for HaltingStore {
    async fn enqueue(&self, job: NewJob) -> Result<Option<KeyUse>, StoreError> {
        self.inner.enqueue(job).await
    }

    async fn claim_in_turn(&self, turns: JobTurns) -> Result<Vec<ClaimedJob>, StoreError> {
        let claimed = self.inner.claim_in_turn(turns).await?;
        if !claimed.is_empty() && self.loses_claim.swap(false, Ordering::SeqCst) {
            return Err(StoreError::Database("the answer was lost".to_owned()));
        }
        Ok(claimed)
    }

    async fn claim_job(&self, owner: &Owner, id: &Id) -> Result<Option<ClaimedJob>, StoreError> {
        let claimed = self.inner.claim_job(owner, id).await?;
        if self.halt == Halt::AfterClaim && claimed.is_some() {
            self.reached.notify_one();
            self.resumed.notified().await;
        }
        Ok(claimed)
    }

    async fn update_running(&self, record: ResponseRecord) -> Result<(), StoreError> {
        self.inner.update_running(record).await
    }

    async fn requeue(&self, lease: Lease, requeue: Requeue) -> Result<(), StoreError> {
        self.inner.requeue(lease, requeue).await
    }

    async fn claimed_jobs(&self) -> Result<Vec<Lease>, StoreError> {
        self.inner.claimed_jobs().await
    }

    async fn job_stats(&self) -> Result<JobStats, StoreError> {
        self.inner.job_stats().await
    }
}

#[async_trait]
impl EventLog for HaltingStore {
    async fn log_events(&self, lease: &Lease, events: LoggedEvents) -> Result<(), StoreError> {
        self.inner.log_events(lease, events).await
    }

    async fn finish_logged(&self, record: ResponseRecord, end: LogEnd) -> Result<(), StoreError> {
        self.halt_at(Halt::BeforeFinish).await;
        self.inner.finish_logged(record, end).await?;
        self.halt_at(Halt::AfterFinish).await;
        Ok(())
    }

    async fn logged_events(
        &self,
        owner: &Owner,
        id: &Id,
        from: u64,
        max_bytes: u64,
    ) -> Result<Option<LogPage>, StoreError> {
        self.inner.logged_events(owner, id, from, max_bytes).await
    }

    async fn log_state(&self, owner: &Owner, id: &Id) -> Result<Option<LogState>, StoreError> {
        self.inner.log_state(owner, id).await
    }

    async fn run_state(&self, owner: &Owner, id: &Id) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.inner.run_state(owner, id).await
    }
}

#[async_trait]
impl WebhookOutbox for HaltingStore {
    async fn take_due_notices(
        &self,
        limit: usize,
        lease: Duration,
        except: &[&str],
    ) -> Result<Vec<DueNotice>, StoreError> {
        self.inner.take_due_notices(limit, lease, except).await
    }

    async fn remove_notice(&self, notice: &DueNotice) -> Result<(), StoreError> {
        self.inner.remove_notice(notice).await
    }

    async fn retry_notice(&self, notice: &DueNotice, after: Duration) -> Result<(), StoreError> {
        self.inner.retry_notice(notice, after).await
    }
}

#[async_trait]
impl ResponseStore for HaltingStore {
    async fn response(
        &self,
        owner: &Owner,
        id: &str,
        max_bytes: u64,
    ) -> Result<Option<Arc<str>>, StoreError> {
        self.inner.response(owner, id, max_bytes).await
    }

    async fn delete(&self, owner: &Owner, id: &str) -> Result<bool, StoreError> {
        self.inner.delete(owner, id).await
    }

    async fn lineage(
        &self,
        owner: &Owner,
        id: &str,
        limit: ReadLimit,
    ) -> Result<Option<Lineage>, StoreError> {
        let fault = self.faults.lock().pop_front();
        match fault {
            None => self.inner.lineage(owner, id, limit).await,
            Some(Fault::Away) => Err(StoreError::Database("it is away".to_owned())),
            Some(Fault::Panic) => panic!("a defect"),
            Some(Fault::Hang) => pending().await,
        }
    }

    async fn items(
        &self,
        owner: &Owner,
        ids: &[Id],
        limit: ReadLimit,
    ) -> Result<Vec<Option<Item>>, StoreError> {
        self.inner.items(owner, ids, limit).await
    }

    async fn provider_states(
        &self,
        owner: &Owner,
        keys: &[StateKey],
        limit: ReadLimit,
    ) -> Result<Vec<Vec<ItemWithState>>, StoreError> {
        self.inner.provider_states(owner, keys, limit).await
    }

    async fn input_items(
        &self,
        owner: &Owner,
        id: &str,
        page: &PageRequest,
    ) -> Result<Option<Page>, StoreError> {
        self.inner.input_items(owner, id, page).await
    }

    async fn traces(&self, owner: &Owner, ids: &[Id]) -> Result<Vec<Option<Arc<str>>>, StoreError> {
        self.inner.traces(owner, ids).await
    }

    async fn responses(
        &self,
        owner: &Owner,
        page: &PageRequest,
        filter: &ResponseFilter,
    ) -> Result<Page, StoreError> {
        self.inner.responses(owner, page, filter).await
    }
}

#[async_trait]
impl ConversationStore for HaltingStore {
    async fn create_conversation(&self, record: ConversationRecord) -> Result<AddedItems, StoreError> {
        self.inner.create_conversation(record).await
    }

    async fn conversation(&self, owner: &Owner, id: &str) -> Result<Option<StoredConversation>, StoreError> {
        self.inner.conversation(owner, id).await
    }

    async fn update_conversation(
        &self,
        owner: &Owner,
        id: &str,
        metadata: Arc<str>,
    ) -> Result<bool, StoreError> {
        self.inner.update_conversation(owner, id, metadata).await
    }

    async fn delete_conversation(&self, owner: &Owner, id: &str) -> Result<bool, StoreError> {
        self.inner.delete_conversation(owner, id).await
    }

    async fn add_conversation_items(
        &self,
        owner: &Owner,
        id: &str,
        items: Vec<ConversationItem>,
    ) -> Result<AddedItems, StoreError> {
        self.inner.add_conversation_items(owner, id, items).await
    }

    async fn conversation_item(
        &self,
        owner: &Owner,
        id: &str,
        item: &str,
        max_bytes: u64,
    ) -> Result<Option<Arc<str>>, StoreError> {
        self.inner.conversation_item(owner, id, item, max_bytes).await
    }

    async fn delete_conversation_item(
        &self,
        owner: &Owner,
        id: &str,
        item: &str,
    ) -> Result<bool, StoreError> {
        self.inner.delete_conversation_item(owner, id, item).await
    }

    async fn conversation_items(
        &self,
        owner: &Owner,
        id: &str,
        page: &PageRequest,
    ) -> Result<Option<Page>, StoreError> {
        self.inner.conversation_items(owner, id, page).await
    }

    async fn conversation_context(
        &self,
        owner: &Owner,
        id: &str,
        limit: ReadLimit,
    ) -> Result<Option<ConversationContext>, StoreError> {
        self.inner.conversation_context(owner, id, limit).await
    }

    async fn lock_conversation(
        &self,
        owner: &Owner,
        id: &str,
    ) -> Result<Option<ConversationLock>, StoreError> {
        self.inner.lock_conversation(owner, id).await
    }
}

#[async_trait]
impl Approvals for HaltingStore {
    async fn add_approvals(&self, pending: Vec<PendingApproval>) -> Result<(), StoreError> {
        self.inner.add_approvals(pending).await
    }

    async fn approvals(&self, owner: &Owner, ids: &[Id]) -> Result<Vec<Option<PendingApproval>>, StoreError> {
        self.inner.approvals(owner, ids).await
    }

    async fn claim_approvals(
        &self,
        owner: &Owner,
        claims: Vec<ApprovalClaim>,
        now: i64,
    ) -> Result<ClaimOutcome, StoreError> {
        self.inner.claim_approvals(owner, claims, now).await
    }
}

#[async_trait]
impl Store for HaltingStore {
    async fn maintain(&self) -> Result<(), StoreError> {
        self.maintained.fetch_add(1, Ordering::SeqCst);
        self.inner.maintain().await
    }

    async fn erase(&self, target: &ErasureTarget) -> Result<ErasedCounts, StoreError> {
        self.inner.erase(target).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.inner.ready().await
    }

    fn is_impaired(&self) -> bool {
        self.inner.is_impaired()
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        self.inner.check_writable().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
