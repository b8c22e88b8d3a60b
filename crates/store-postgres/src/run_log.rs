//! [`RunLog`] in PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;

use super::transaction::{Access, transact};
use super::{PostgresStore, cancel, orphans};
use antwort_protocol::id::Id;
use antwort_store::operation::Write;
use antwort_store::{
    CallOutcome, CancelRequest, OrphanedRun, Owner, ResponseRecord, RunLog, RunRegistration, StoreError,
    TurnRecord,
};

/// Orphans that are looked at together: each is locked until all are taken.
const MAX_TAKEN: usize = 64;

#[async_trait]
impl RunLog for PostgresStore {
    fn register_run(&self, id: &Id, owner: &Owner) -> RunRegistration {
        self.runs.register(id, owner)
    }

    async fn begin(&self, record: ResponseRecord, state: Option<Arc<[u8]>>) -> Result<(), StoreError> {
        self.writer.write(Write::Begin(record, state)).await?.unless_superseded()
    }

    async fn commit_turn(&self, turn: TurnRecord) -> Result<(), StoreError> {
        // If another process has taken the response over, its calls are not this one's to make.
        self.writer.write(Write::Turn(Box::new(turn))).await?.unless_superseded()
    }

    fn record_tool_result(&self, outcome: CallOutcome) {
        self.writer.write_detached(Write::ToolResult(outcome));
    }

    async fn finish(&self, record: ResponseRecord) -> Result<(), StoreError> {
        self.writer.write(Write::Finish(record)).await?.unless_superseded()
    }

    fn record_failed_request(&self, record: ResponseRecord) {
        if self.policy.failed_requests.are_kept() && !self.health.is_impaired() {
            self.writer.write_unless_busy(Write::FailedRequest(Box::new(record)));
        }
    }

    async fn request_cancel(&self, owner: &Owner, id: &Id) -> Result<CancelRequest, StoreError> {
        Ok(self.writer.write(Write::RequestCancel(owner.clone(), id.clone())).await?.into())
    }

    async fn cancelled_runs(&self) -> Result<Vec<Id>, StoreError> {
        let mut ids = transact!(self.pool, Access::Statement, session => {
            cancel::marked(session, &self.policy).await
        })?;
        ids.extend(self.runs.deleted());
        Ok(ids)
    }

    async fn take_orphaned(&self, limit: usize) -> Result<Vec<OrphanedRun>, StoreError> {
        self.startup.check()?;
        let limit = limit.min(MAX_TAKEN);
        loop {
            let candidates = transact!(self.pool, Access::Statement, session => {
                orphans::candidates(session, &self.policy, (limit, self.takeover_grace.millis())).await
            })?;
            if candidates.is_empty() {
                return Ok(Vec::new());
            }
            let taken = transact!(self.pool, Access::Write, session => {
                // Asked again: an outage may have begun before these were found.
                orphans::take(session, &self.policy, (&candidates, self.takeover_grace.millis())).await
            })?;
            // All may have been deleted, or taken by others; then they are no candidates any more.
            if !taken.is_empty() || candidates.len() < limit {
                return Ok(taken);
            }
        }
    }
}
