//! Calls whose work goes on, as the store offers them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::transaction::{Access, transact};
use super::{PostgresStore, async_calls};
use antwort_protocol::id::Id;
use antwort_store::operation::Write;
use antwort_store::{
    AsyncCallKey, AsyncCalls, AsyncOutcome, AsyncResult, AsyncSettlement, CompletedCall, DueTask, Owner,
    StartedCall, StoreError,
};

#[async_trait]
impl AsyncCalls for PostgresStore {
    async fn start_async(&self, call: StartedCall) -> Result<(), StoreError> {
        self.writer.write(Write::StartAsync(Box::new(call))).await?.unless_superseded()
    }

    async fn complete_async(&self, result: AsyncResult) -> Result<AsyncOutcome, StoreError> {
        transact!(self.pool, Access::Write, session => async_calls::complete(session, &result).await)?
            .async_result()
    }

    async fn completed_calls(&self, limit: usize) -> Result<Vec<CompletedCall>, StoreError> {
        transact!(self.pool, Access::Statement, session => async_calls::completed(session, limit).await)
    }

    async fn async_results(&self, owner: &Owner, responses: &[Id]) -> Result<Vec<CompletedCall>, StoreError> {
        transact!(self.pool, Access::Statement, session => async_calls::results(session, owner, responses).await)
    }

    async fn async_spec(&self, key: &AsyncCallKey) -> Result<Option<Arc<[u8]>>, StoreError> {
        transact!(self.pool, Access::Statement, session => async_calls::spec(session, key).await)
    }

    async fn due_tasks(&self, limit: usize, lease: Duration) -> Result<Vec<DueTask>, StoreError> {
        transact!(self.pool, Access::Write, session => async_calls::due(session, limit, lease).await)
    }

    async fn open_tasks(&self, owner: &Owner, response: &Id) -> Result<Vec<Arc<[u8]>>, StoreError> {
        transact!(self.pool, Access::Statement, session => {
            match self.owners.find(session, owner).await? {
                Some(owner) => async_calls::open_tasks(session, owner, response).await,
                None => Ok(Vec::new()),
            }
        })
    }

    async fn poll_task(&self, key: AsyncCallKey, after: Option<Duration>) -> Result<(), StoreError> {
        transact!(self.pool, Access::Write, session => async_calls::poll(session, &key, after).await)?
            .unless_superseded()
    }

    async fn settle_async(&self, settlement: AsyncSettlement) -> Result<(), StoreError> {
        transact!(self.pool, Access::Write, session => async_calls::settle(session, &settlement).await)?
            .unless_superseded()
    }
}
