//! The queue of background runs: written with their responses, made by whichever process claims them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;
use super::job_turns::JobTurns;
use super::lease::Lease;
use super::logged_runs::{KeyUse, LoggedRun};
use super::responses::ResponseRecord;
use super::run_log::OrphanedRun;
use antwort_identity::Owner;
use antwort_protocol::id::Id;

/// A run that is to be made by a process that claims it.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// The queued response with its key and its first events. Its lease is nobody's: the first claim has another epoch.
    pub run: LoggedRun,
    /// What it takes to make the run, opaque to the store. Erased with the end of the response.
    pub spec: Arc<[u8]>,
}

/// A run that this process is to make, from where it is.
#[derive(Debug, Clone)]
pub struct ClaimedJob {
    /// What was committed of it. Its lease is renewed by [`Store::maintain`](super::Store::maintain), whether this process
    /// makes it or has lost sight of it: see [`JobQueue::claimed_jobs`].
    pub run: OrphanedRun,
    /// What it takes to make the run.
    pub spec: Arc<[u8]>,
    /// 1 for its first claim.
    pub attempt: u32,
    /// Whether it was queued in a conversation, so that others may wait for its end.
    pub in_conversation: bool,
}

/// How a claim is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requeue {
    /// It is claimed again after this time at the earliest.
    pub delay: Duration,
    /// Whether the claim counts as an attempt.
    pub counts: bool,
}

/// The state of the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobStats {
    /// Runs that wait to be claimed.
    pub queued: u64,
    /// When the oldest of them was created, in Unix seconds.
    pub oldest_created_at: Option<i64>,
    /// Runs that wait for answers from outside.
    pub waiting: u64,
}

/// The queue of background runs.
///
/// A claim is a lease of the run: all writes of the run present it, and are refused once another process has claimed the
/// run. [`RunLog::take_orphaned`](super::RunLog::take_orphaned) leaves these runs alone.
#[async_trait]
pub trait JobQueue: Send + Sync {
    /// Writes the row of a queued response, its run and its idempotency key in one commit. If the key has led to a
    /// response already, nothing is written, and that is returned. The write happens even if the future is dropped, once
    /// it was polled and the queue had room.
    async fn enqueue(&self, job: NewJob) -> Result<Option<KeyUse>, StoreError>;

    /// Claims runs of tenants in turn, the oldest of each first: those that nobody has claimed or that were given back, and
    /// those whose holder is gone or has not renewed its lease. Of several processes that ask, one gets each. Of the runs that
    /// were queued in one conversation, those behind the first wait for its end, unless they were cancelled. They are returned
    /// in the order of their turns.
    async fn claim_in_turn(&self, turns: JobTurns) -> Result<Vec<ClaimedJob>, StoreError>;

    /// Claims at most so many runs, whatever else of their tenants goes on.
    async fn claim_jobs(&self, limit: usize) -> Result<Vec<ClaimedJob>, StoreError> {
        self.claim_in_turn(JobTurns::new(limit)).await
    }

    /// Claims this run of an owner, if nobody makes it, and none is before it in its conversation; also one that was given back
    /// for a while.
    async fn claim_job(&self, owner: &Owner, id: &Id) -> Result<Option<ClaimedJob>, StoreError>;

    /// Replaces the status and the body of a run's row while it goes on. That of a deleted response is dropped.
    async fn update_running(&self, record: ResponseRecord) -> Result<(), StoreError>;

    /// Gives a claim back: the lease ends, and the run is claimed again.
    async fn requeue(&self, lease: Lease, requeue: Requeue) -> Result<(), StoreError>;

    /// The runs that this process has claimed and neither ended nor given back.
    async fn claimed_jobs(&self) -> Result<Vec<Lease>, StoreError>;

    /// How many runs wait to be claimed.
    async fn job_stats(&self) -> Result<JobStats, StoreError>;
}
