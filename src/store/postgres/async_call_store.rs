//! Calls whose work goes on, as the store offers them.

use async_trait::async_trait;

use super::transaction::{Access, transact};
use super::{PostgresStore, async_calls};
use crate::store::operation::Write;
use crate::store::{
    AsyncCalls, AsyncOutcome, AsyncResult, AsyncSettlement, CompletedCall, StartedCall, StoreError,
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

    async fn settle_async(&self, settlement: AsyncSettlement) -> Result<(), StoreError> {
        transact!(self.pool, Access::Write, session => async_calls::settle(session, &settlement).await)?
            .unless_superseded()
    }
}
