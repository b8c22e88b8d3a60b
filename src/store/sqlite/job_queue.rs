//! The queue of background runs, as the store offers it.

use std::sync::Arc;

use async_trait::async_trait;

use super::{SqliteStore, jobs};
use crate::identity::Owner;
use crate::protocol::id::Id;
use crate::store::operation::{Write, WriteOutcome};
use crate::store::{
    ClaimedJob, IdempotencyKeys, JobQueue, JobStats, KeyedResponse, Lease, NewJob, Requeue, ResponseRecord,
    StoreError,
};

#[async_trait]
impl JobQueue for SqliteStore {
    async fn enqueue(&self, job: NewJob) -> Result<Option<KeyedResponse>, StoreError> {
        loop {
            match self.writer.write(Write::Enqueue(Box::new(job.clone()))).await? {
                WriteOutcome::Superseded => return Err(StoreError::Superseded),
                WriteOutcome::KeyTaken => {
                    // The other response may have been deleted or withdrawn since: then the key is free.
                    let Some(key) = &job.run.key else { return Ok(None) };
                    let taken = self.keyed_response(&job.run.record.owner, &key.key).await?;
                    if taken.is_some() {
                        return Ok(taken);
                    }
                }
                _ => return Ok(None),
            }
        }
    }

    async fn claim_jobs(&self, limit: usize) -> Result<Vec<ClaimedJob>, StoreError> {
        let policy = Arc::clone(&self.policy);
        self.writer.run_job(move |connection| jobs::claim(connection, &policy, limit)).await
    }

    async fn claim_job(&self, owner: &Owner, id: &Id) -> Result<Option<ClaimedJob>, StoreError> {
        let (policy, owner, id) = (Arc::clone(&self.policy), owner.clone(), id.clone());
        self.writer.run_job(move |connection| jobs::claim_one(connection, &policy, &owner, &id)).await
    }

    async fn update_running(&self, record: ResponseRecord) -> Result<(), StoreError> {
        match self.writer.write(Write::UpdateRunning(Box::new(record))).await? {
            WriteOutcome::Superseded => Err(StoreError::Superseded),
            _ => Ok(()),
        }
    }

    async fn requeue(&self, lease: Lease, requeue: Requeue) -> Result<(), StoreError> {
        match self.writer.write(Write::Requeue(lease, requeue)).await? {
            WriteOutcome::Superseded => Err(StoreError::Superseded),
            _ => Ok(()),
        }
    }

    async fn claimed_jobs(&self) -> Result<Vec<Lease>, StoreError> {
        let policy = Arc::clone(&self.policy);
        self.writer.run_job(move |connection| jobs::claimed(connection, &policy)).await
    }

    async fn job_stats(&self) -> Result<JobStats, StoreError> {
        let policy = Arc::clone(&self.policy);
        self.writer.run_job(move |connection| jobs::stats(connection, &policy)).await
    }
}
