//! A store that halts its run at one point, as a crash of the process would: what came before is in the file, nothing
//! comes after; and one whose reads of chains fail.

use std::collections::VecDeque;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use antwort::store::{Store, StoreError};
use antwort_store_sqlite::{Location, SqliteOptions, SqliteStore};
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::hooked_store::{HookedStore, Operation, StoreHooks};

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

/// A store in a file that halts each run at one point.
pub struct HaltingStore {
    store: Arc<HookedStore>,
    halting: Arc<Halting>,
}

struct Halting {
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
    pub fn open(file: &Path, halt: Halt) -> Self {
        // So short a lease that the next process need not wait for its end.
        Self::open_with(file, halt, Duration::from_millis(1))
    }

    /// A store in this file with this lease.
    pub fn open_with(file: &Path, halt: Halt, lease: Duration) -> Self {
        let options =
            SqliteOptions { lease, ..SqliteOptions::new(Location::File(file.to_owned()), "halting") };
        let halting = Arc::new(Halting {
            halt,
            reached: Notify::new(),
            resumed: Notify::new(),
            faults: Mutex::default(),
            maintained: AtomicUsize::new(0),
            looks: AtomicUsize::new(0),
            loses_claim: AtomicBool::new(false),
        });
        let inner = Arc::new(SqliteStore::open(options).unwrap());
        Self { store: HookedStore::new(inner, Arc::clone(&halting) as _), halting }
    }

    /// The store, for a gateway.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    /// Whether no gateway holds it any more.
    pub fn is_released(&self) -> bool {
        Arc::strong_count(&self.store) == 1
    }

    /// Lets the run go on that is halted behind its claim.
    pub fn resume(&self) {
        self.halting.resumed.notify_one();
    }

    /// What comes of the next reads of chains.
    pub fn fail(&self, faults: &[Fault]) {
        self.halting.faults.lock().extend(faults);
    }

    /// Whether no read has failed as was wanted.
    pub fn has_faults_left(&self) -> bool {
        !self.halting.faults.lock().is_empty()
    }

    /// The answer of the next claim is lost.
    pub fn lose_claim(&self) {
        self.halting.loses_claim.store(true, Ordering::SeqCst);
    }

    /// How often it was maintained.
    pub fn maintained(&self) -> usize {
        self.halting.maintained.load(Ordering::SeqCst)
    }

    /// Resolves when a run has reached the point.
    pub async fn reached(&self) {
        self.halting.reached.notified().await;
    }
}

impl Halting {
    async fn halt_at(&self, point: Halt) {
        if self.halt == point {
            self.reached.notify_one();
            pending::<()>().await;
        }
    }

    async fn next_fault(&self) -> Result<(), StoreError> {
        let fault = self.faults.lock().pop_front();
        match fault {
            None => Ok(()),
            Some(Fault::Away) => Err(StoreError::Database("it is away".to_owned())),
            Some(Fault::Panic) => panic!("a defect"),
            Some(Fault::Hang) => pending().await,
        }
    }
}

#[async_trait]
impl StoreHooks for Halting {
    async fn before(&self, operation: &Operation) -> Result<(), StoreError> {
        match operation.name {
            "finish" | "finish_logged" => self.halt_at(Halt::BeforeFinish).await,
            // The first look is a part of the start.
            "take_orphaned" if self.looks.fetch_add(1, Ordering::SeqCst) > 0 => {
                self.halt_at(Halt::InRecovery).await;
            }
            "maintain" => _ = self.maintained.fetch_add(1, Ordering::SeqCst),
            "lineage" => return self.next_fault().await,
            _ => {}
        }
        Ok(())
    }

    async fn after(&self, operation: &Operation) -> Result<(), StoreError> {
        match operation.name {
            "begin" | "begin_logged" => self.halt_at(Halt::AfterCreation).await,
            "commit_turn" => self.halt_at(Halt::AfterTurn).await,
            "finish" | "finish_logged" => self.halt_at(Halt::AfterFinish).await,
            "claim_job" if self.halt == Halt::AfterClaim && operation.found => {
                self.reached.notify_one();
                self.resumed.notified().await;
            }
            "claim_in_turn" if operation.found && self.loses_claim.swap(false, Ordering::SeqCst) => {
                return Err(StoreError::Database("the answer was lost".to_owned()));
            }
            _ => {}
        }
        Ok(())
    }
}
