//! Runs that wait, which halt nowhere.

use std::sync::Arc;
use std::time::Duration;

use antwort::protocol::id::Id;
use antwort::store::{
    AskedQuestions, AsyncCallKey, AsyncCalls, AsyncOutcome, AsyncResult, AsyncSettlement, CompletedCall,
    DueTask, GivenAnswer, InputAnswer, InputOutcome, Lease, Owner, RunInputs, StartedCall, StoreError,
};
use async_trait::async_trait;

use super::HaltingStore;

#[async_trait]
impl RunInputs for HaltingStore {
    async fn wait_for_inputs(&self, lease: Lease) -> Result<Duration, StoreError> {
        self.inner.wait_for_inputs(lease).await
    }

    async fn ask_questions(&self, asked: AskedQuestions) -> Result<(), StoreError> {
        self.inner.ask_questions(asked).await
    }

    async fn given_answers(&self, owner: &Owner, response: &Id) -> Result<Vec<GivenAnswer>, StoreError> {
        self.inner.given_answers(owner, response).await
    }

    async fn answer_input(&self, answer: InputAnswer) -> Result<InputOutcome, StoreError> {
        self.inner.answer_input(answer).await
    }
}

#[async_trait]
impl AsyncCalls for HaltingStore {
    async fn start_async(&self, call: StartedCall) -> Result<(), StoreError> {
        self.inner.start_async(call).await
    }

    async fn complete_async(&self, result: AsyncResult) -> Result<AsyncOutcome, StoreError> {
        self.inner.complete_async(result).await
    }

    async fn completed_calls(&self, limit: usize) -> Result<Vec<CompletedCall>, StoreError> {
        self.inner.completed_calls(limit).await
    }

    async fn async_results(&self, owner: &Owner, responses: &[Id]) -> Result<Vec<CompletedCall>, StoreError> {
        self.inner.async_results(owner, responses).await
    }

    async fn async_spec(&self, key: &AsyncCallKey) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.inner.async_spec(key).await
    }

    async fn due_tasks(&self, limit: usize, lease: Duration) -> Result<Vec<DueTask>, StoreError> {
        self.inner.due_tasks(limit, lease).await
    }

    async fn open_tasks(&self, owner: &Owner, response: &Id) -> Result<Vec<Arc<[u8]>>, StoreError> {
        self.inner.open_tasks(owner, response).await
    }

    async fn poll_task(&self, key: AsyncCallKey, after: Option<Duration>) -> Result<(), StoreError> {
        self.inner.poll_task(key, after).await
    }

    async fn settle_async(&self, settlement: AsyncSettlement) -> Result<(), StoreError> {
        self.inner.settle_async(settlement).await
    }
}
