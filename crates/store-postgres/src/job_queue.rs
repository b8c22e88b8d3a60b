//! The queue of background runs, as the store offers it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use uuid::Uuid;

use super::doubtful_claim::DoubtfulClaim;
use super::keys::ResponseKey;
use super::transaction::{Access, transact};
use super::{PostgresStore, job_claims, jobs};
use antwort_protocol::id::Id;
use antwort_store::begin_keyed::begin_keyed;
use antwort_store::operation::Write;
use antwort_store::{
    ClaimedJob, JobQueue, JobStats, JobTurns, KeyUse, Lease, NewJob, Owner, Requeue, ResponseRecord,
    StoreError,
};

/// How often a claim looks again when other processes have taken what it was dealt.
const CLAIM_ATTEMPTS: usize = 3;
/// Runs that are locked together.
const MAX_CLAIMED: usize = 256;

/// For so many leases a claim whose outcome is not known is undone: its commit may become visible late, when the server
/// has waited for a replica, or notices that its client is gone.
const DOUBTFUL_LEASES: u32 = 5;

#[async_trait]
impl JobQueue for PostgresStore {
    async fn enqueue(&self, job: NewJob) -> Result<Option<KeyUse>, StoreError> {
        let begin = || self.writer.write(Write::Enqueue(Box::new(job.clone())));
        begin_keyed(self, &job.run.record.owner, job.run.key.as_ref(), begin).await
    }

    async fn claim_in_turn(&self, turns: JobTurns) -> Result<Vec<ClaimedJob>, StoreError> {
        self.startup.check()?;
        self.undo_claims().await?;
        let mut turns = turns.at_most(MAX_CLAIMED);
        for _ in 0..CLAIM_ATTEMPTS {
            let dealt = transact!(self.pool, Access::Statement, session => {
                job_claims::deal(session, &self.policy, (&turns, self.takeover_grace.millis())).await
            })?;
            let Some(last) = dealt.last() else { break };
            let claim = self.begin_claim();
            let claimed = transact!(self.pool, Access::Write, session => {
                let grace = self.takeover_grace.millis();
                let places = job_claims::lock_oldest(session, &self.policy, (&dealt, grace)).await?;
                if self.takeover_grace.millis() > grace {
                    // An outage has begun meanwhile: the holders of these may be there.
                    return Ok(Vec::new());
                }
                job_claims::claim(session, &self.policy, claim.claim, &places).await
            });
            let claimed = claim.end(claimed)?;
            if !claimed.is_empty() {
                return Ok(claimed);
            }
            // Another process has been faster: the turn of those behind, who would wait for the next poll.
            turns = turns.behind(Some(Arc::clone(last)));
        }
        Ok(Vec::new())
    }

    async fn claim_job(&self, owner: &Owner, id: &Id) -> Result<Option<ClaimedJob>, StoreError> {
        self.undo_claims().await?;
        let (claim, response) = (self.begin_claim(), ResponseKey::of(id.as_str()).uuid);
        let claimed = transact!(self.pool, Access::Write, session => {
            let Some(owner) = self.owners.find(session, owner).await? else { return Ok(Vec::new()) };
            let one = ((response, owner), self.takeover_grace.millis());
            let places = job_claims::lock_one(session, &self.policy, one).await?;
            job_claims::claim(session, &self.policy, claim.claim, &places).await
        });
        Ok(claim.end(claimed)?.pop())
    }

    async fn update_running(&self, record: ResponseRecord) -> Result<(), StoreError> {
        self.writer.write(Write::UpdateRunning(Box::new(record))).await?.unless_superseded()
    }

    async fn requeue(&self, lease: Lease, requeue: Requeue) -> Result<(), StoreError> {
        self.writer.write(Write::Requeue(lease, requeue)).await?.unless_superseded()
    }

    async fn claimed_jobs(&self) -> Result<Vec<Lease>, StoreError> {
        self.startup.check()?;
        transact!(self.pool, Access::Statement, session => job_claims::claimed(session, &self.policy).await)
    }

    async fn job_stats(&self) -> Result<JobStats, StoreError> {
        transact!(self.pool, Access::Statement, session => jobs::stats(session, &self.policy).await)
    }
}

impl PostgresStore {
    /// A claim that fails, or that nobody waits for any more, may have been committed: its runs would wait for this process,
    /// whose leases are renewed.
    fn begin_claim(&self) -> Claiming<'_> {
        Claiming { store: self, claim: Uuid::now_v7(), is_told: false }
    }

    /// Gives back what such claims have got.
    async fn undo_claims(&self) -> Result<(), StoreError> {
        let lasting = Duration::from_millis(self.policy.lease.unsigned_abs()) * DOUBTFUL_LEASES;
        let claims: Vec<_> = self.doubtful_claims.lock().iter().map(|doubtful| doubtful.claim).collect();
        if claims.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        transact!(self.pool, Access::Statement, session => {
            job_claims::undo(session, &self.policy, &claims).await
        })?;
        self.doubtful_claims
            .lock()
            .retain(|doubtful| began.saturating_duration_since(doubtful.since) < lasting);
        Ok(())
    }
}

/// A claim under way. It is doubtful if it is dropped before its runs are told.
struct Claiming<'a> {
    store: &'a PostgresStore,
    claim: Uuid,
    is_told: bool,
}

impl Claiming<'_> {
    fn end(mut self, claimed: Result<Vec<ClaimedJob>, StoreError>) -> Result<Vec<ClaimedJob>, StoreError> {
        self.is_told = claimed.is_ok();
        claimed
    }
}

impl Drop for Claiming<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            let (claim, since) = (self.claim, Instant::now());
            self.store.doubtful_claims.lock().push(DoubtfulClaim { claim, since });
        }
    }
}
