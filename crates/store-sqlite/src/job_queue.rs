//! The queue of background runs, as the store offers it.

use std::sync::Arc;

use async_trait::async_trait;

use super::{SqliteStore, job_claims, jobs};
use antwort_identity::Owner;
use antwort_protocol::id::Id;
use antwort_store::begin_keyed::begin_keyed;
use antwort_store::operation::Write;
use antwort_store::{
    ClaimedJob, JobQueue, JobStats, JobTurns, KeyUse, Lease, NewJob, Requeue, ResponseRecord, StoreError,
};

#[async_trait]
impl JobQueue for SqliteStore {
    async fn enqueue(&self, job: NewJob) -> Result<Option<KeyUse>, StoreError> {
        let begin = || self.writer.write(Write::Enqueue(Box::new(job.clone())));
        begin_keyed(self, &job.run.record.owner, job.run.key.as_ref(), begin).await
    }

    async fn claim_in_turn(&self, turns: JobTurns) -> Result<Vec<ClaimedJob>, StoreError> {
        let policy = Arc::clone(&self.policy);
        self.writer.run_job(move |connection| job_claims::claim(connection, &policy, &turns)).await
    }

    async fn claim_job(&self, owner: &Owner, id: &Id) -> Result<Option<ClaimedJob>, StoreError> {
        let (policy, owner, id) = (Arc::clone(&self.policy), owner.clone(), id.clone());
        self.writer.run_job(move |connection| job_claims::claim_one(connection, &policy, &owner, &id)).await
    }

    async fn update_running(&self, record: ResponseRecord) -> Result<(), StoreError> {
        self.writer.write(Write::UpdateRunning(Box::new(record))).await?.unless_superseded()
    }

    async fn requeue(&self, lease: Lease, requeue: Requeue) -> Result<(), StoreError> {
        self.writer.write(Write::Requeue(lease, requeue)).await?.unless_superseded()
    }

    async fn claimed_jobs(&self) -> Result<Vec<Lease>, StoreError> {
        let policy = Arc::clone(&self.policy);
        self.writer.run_job(move |connection| job_claims::claimed(connection, &policy)).await
    }

    async fn job_stats(&self) -> Result<JobStats, StoreError> {
        let policy = Arc::clone(&self.policy);
        self.writer.run_job(move |connection| jobs::stats(connection, &policy)).await
    }
}
