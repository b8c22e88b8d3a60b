//! Calls whose work goes on, as the store offers them.

use async_trait::async_trait;

use super::{SqliteStore, async_calls};
use crate::store::operation::Write;
use crate::store::{
    AsyncCalls, AsyncOutcome, AsyncResult, AsyncSettlement, CompletedCall, StartedCall, StoreError,
};

#[async_trait]
impl AsyncCalls for SqliteStore {
    async fn start_async(&self, call: StartedCall) -> Result<(), StoreError> {
        self.writer.write(Write::StartAsync(Box::new(call))).await?.unless_superseded()
    }

    async fn complete_async(&self, result: AsyncResult) -> Result<AsyncOutcome, StoreError> {
        self.writer.write(Write::CompleteAsync(Box::new(result))).await?.async_result()
    }

    async fn completed_calls(&self, limit: usize) -> Result<Vec<CompletedCall>, StoreError> {
        self.writer.run_job(move |connection| async_calls::completed(connection, limit)).await
    }

    async fn settle_async(&self, settlement: AsyncSettlement) -> Result<(), StoreError> {
        self.writer.write(Write::SettleAsync(Box::new(settlement))).await?.unless_superseded()
    }
}
