//! Pending calls, and the runs that wait for them.

use std::sync::Arc;
use std::time::Duration;

use antwort::protocol::id::Id;
use antwort::store::{
    AskedQuestions, AsyncCallKey, AsyncOutcome, AsyncResult, AsyncSettlement, CompletedCall, DueTask,
    GivenAnswer, InputAnswer, InputOutcome, Lease, Owner, PendingCalls, StartedCall, StoreError,
};
use async_trait::async_trait;

use super::{HookedStore, Operation, forward};

#[async_trait]
impl PendingCalls for HookedStore {
    async fn wait_for_inputs(&self, lease: Lease) -> Result<Duration, StoreError> {
        forward!(self, Operation::of_lease(&lease), wait_for_inputs(lease))
    }

    async fn ask_questions(&self, asked: AskedQuestions) -> Result<(), StoreError> {
        forward!(self, Operation::of_lease(&asked.lease), ask_questions(asked))
    }

    async fn given_answers(&self, owner: &Owner, response: &Id) -> Result<Vec<GivenAnswer>, StoreError> {
        forward!(self, Operation::default(), given_answers(owner, response))
    }

    async fn answer_input(&self, answer: InputAnswer) -> Result<InputOutcome, StoreError> {
        forward!(self, Operation::default(), answer_input(answer))
    }

    async fn start_async(&self, call: StartedCall) -> Result<(), StoreError> {
        forward!(self, Operation::of_run(&call.key.response), start_async(call))
    }

    async fn complete_async(&self, result: AsyncResult) -> Result<AsyncOutcome, StoreError> {
        forward!(self, Operation::default(), complete_async(result))
    }

    async fn completed_calls(&self, limit: usize) -> Result<Vec<CompletedCall>, StoreError> {
        forward!(self, Operation::default(), completed_calls(limit))
    }

    async fn async_results(&self, owner: &Owner, responses: &[Id]) -> Result<Vec<CompletedCall>, StoreError> {
        forward!(self, Operation::default(), async_results(owner, responses))
    }

    async fn async_spec(&self, key: &AsyncCallKey) -> Result<Option<Arc<[u8]>>, StoreError> {
        forward!(self, Operation::default(), async_spec(key))
    }

    async fn due_tasks(&self, limit: usize, lease: Duration) -> Result<Vec<DueTask>, StoreError> {
        forward!(self, Operation::default(), due_tasks(limit, lease))
    }

    async fn open_tasks(&self, owner: &Owner, response: &Id) -> Result<Vec<Arc<[u8]>>, StoreError> {
        forward!(self, Operation::default(), open_tasks(owner, response))
    }

    async fn poll_task(&self, key: AsyncCallKey, after: Option<Duration>) -> Result<(), StoreError> {
        forward!(self, Operation::default(), poll_task(key, after))
    }

    async fn settle_async(&self, settlement: AsyncSettlement) -> Result<(), StoreError> {
        forward!(self, Operation::default(), settle_async(settlement))
    }
}
